"""The settings of an ingest. Pure: this module doesn't use Spark."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from staticfire.protocol.errors import UsageError
from staticfire.protocol.names import dead_letter_topic, group_fault, topic_fault

PARTITION_COLUMNS = ("topic", "storeDate", "storeHour", "brokerName", "queueId")
# How long a start waits for the folder's lock: the JVM of a killed driver ends within seconds.
LOCK_WAIT_MS = 30_000
TRIGGER_MS = 1_000
# Spark and other programs ignore names that start with an underscore when they look for data.
CHECKPOINT_NAME = "_checkpoint"


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """The topics and the output. `to` and `checkpoint` are local folders or Hadoop URIs (s3a://, hdfs://)."""

    topics: tuple[str, ...]
    to: str
    name_server: str
    checkpoint: str = ""
    """Empty: `_checkpoint` in `to`, so that neither can be lost without the other."""
    dead_letters_of: tuple[str, ...] = ()
    """Groups whose %DLQ% topics are included as soon as they exist."""
    partition_by: tuple[str, ...] = ("topic", "storeDate")
    continuous: bool = False
    """Continue until stopped. Otherwise read the messages that exist at the start, then end (Spark's AvailableNow)."""
    trigger_ms: int = TRIGGER_MS
    """The interval in which a continuous ingest looks for new messages."""
    rows_per_batch_max: int = 0
    """0: no limit."""
    protocol: str = "staticfire"
    lock_wait_ms: int = LOCK_WAIT_MS
    options: Mapping[str, str] = field(default_factory=dict)
    """More options for the source."""

    def __post_init__(self) -> None:
        fault = _fault(self)
        if fault is not None:
            raise UsageError(fault)

    @property
    def checkpoint_folder(self) -> str:
        return self.checkpoint or f"{self.to.rstrip('/')}/{CHECKPOINT_NAME}"

    @property
    def dead_letter_topics(self) -> tuple[str, ...]:
        return tuple(map(dead_letter_topic, self.dead_letters_of))

    @property
    def all_topics(self) -> tuple[str, ...]:
        """Return each topic once, in the given order."""
        return tuple(dict.fromkeys((*self.topics, *self.dead_letter_topics)))

    def source_options(self, topics: tuple[str, ...]) -> dict[str, str]:
        """Return the options for the source `staticfire`. A new ingest starts with the oldest messages."""
        found = {
            "nameServer": self.name_server,
            "subscribe": ",".join(topics),
            "protocol": self.protocol,
            "startingOffsets": "earliest",
        }
        if self.rows_per_batch_max:
            found["maxOffsetsPerTrigger"] = str(self.rows_per_batch_max)
        return found | dict(self.options)


def _fault(settings: IngestSettings) -> str | None:
    """Return the first invalid setting's error, or None."""
    if not settings.topics and not settings.dead_letters_of:
        return "nothing to ingest: give a topic (--topic), or a group whose dead letters to read (--dead-letters-of)"
    faults = [topic_fault(topic) for topic in settings.topics]
    faults += [group_fault(group) for group in settings.dead_letters_of]
    for fault in faults:
        if fault is not None:
            return fault
    if not settings.to:
        return "no output: give a folder (--to)"
    unknown = [name for name in settings.partition_by if name not in PARTITION_COLUMNS]
    if unknown:
        return f"--partition-by {unknown[0]}: unknown column; the columns are {', '.join(PARTITION_COLUMNS)}"
    if len(set(settings.partition_by)) < len(settings.partition_by):
        return f"--partition-by {','.join(settings.partition_by)}: a column occurs twice"
    return _checkpoint_fault(settings.to.rstrip("/"), settings.checkpoint.rstrip("/"))


def _checkpoint_fault(to: str, checkpoint: str) -> str | None:
    if not checkpoint:
        return None
    if checkpoint == to:
        return f"--checkpoint {checkpoint}: this is the output folder itself; omit the option, or give another folder"
    inside = checkpoint.removeprefix(f"{to}/") if checkpoint.startswith(f"{to}/") else ""
    if inside and inside[0] not in "_.":
        return f"--checkpoint {checkpoint}: inside the output folder its name must begin with _, or it is read as data"
    return None
