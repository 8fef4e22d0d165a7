"""What an ingest is told. Pure: no Spark in here."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from staticfire.protocol.errors import UsageError
from staticfire.protocol.names import dead_letter_topic, group_fault, topic_fault

PARTITION_COLUMNS = ("topic", "storeDate", "storeHour", "brokerName", "queueId")
LOCK_WAIT_MS = 30_000
# How long a start waits for the folder: a driver that was killed leaves a JVM behind, which ends within seconds.
TRIGGER_MS = 1_000
CHECKPOINT_NAME = "_checkpoint"
# Spark and everybody else skip names that begin so when they look for data.


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """Which topics go where. `to` and `checkpoint` are folders or what Hadoop knows (s3a://, hdfs://)."""

    topics: tuple[str, ...]
    to: str
    name_server: str
    checkpoint: str = ""
    """Empty: `_checkpoint` in `to`, so that one can't be lost without the other."""
    dead_letters_of: tuple[str, ...] = ()
    """Groups whose %DLQ% topics come along, from the first dead letter on."""
    partition_by: tuple[str, ...] = ("topic", "storeDate")
    continuous: bool = False
    """Go on until stopped. Without it: what is there at the start, then end (Spark's AvailableNow)."""
    trigger_ms: int = TRIGGER_MS
    """How often a continuous one looks for more."""
    rows_per_batch_max: int = 0
    """0: no limit."""
    protocol: str = "staticfire"
    lock_wait_ms: int = LOCK_WAIT_MS
    options: Mapping[str, str] = field(default_factory=dict)
    """More options of the source."""

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
        """Return each topic once, in the order given."""
        return tuple(dict.fromkeys((*self.topics, *self.dead_letter_topics)))

    def source_options(self, topics: tuple[str, ...]) -> dict[str, str]:
        """Return what the source `staticfire` is told. What a new ingest finds is history that it should have."""
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
    """Return what is wrong with them, None when nothing is."""
    if not settings.topics and not settings.dead_letters_of:
        return "nothing to ingest: name a topic (--topic) or a group whose dead letters are wanted (--dead-letters-of)"
    faults = [topic_fault(topic) for topic in settings.topics]
    faults += [group_fault(group) for group in settings.dead_letters_of]
    for fault in faults:
        if fault is not None:
            return fault
    if not settings.to:
        return "nowhere to write: name a folder (--to)"
    unknown = [name for name in settings.partition_by if name not in PARTITION_COLUMNS]
    if unknown:
        return f"--partition-by {unknown[0]}: no such column; there are {', '.join(PARTITION_COLUMNS)}"
    if len(set(settings.partition_by)) < len(settings.partition_by):
        return f"--partition-by {','.join(settings.partition_by)}: a column stands there twice"
    return _checkpoint_fault(settings.to.rstrip("/"), settings.checkpoint.rstrip("/"))


def _checkpoint_fault(to: str, checkpoint: str) -> str | None:
    if not checkpoint:
        return None
    if checkpoint == to:
        return (
            f"--checkpoint {checkpoint}: that is the output folder itself; leave the flag away, or name another folder"
        )
    inside = checkpoint.removeprefix(f"{to}/") if checkpoint.startswith(f"{to}/") else ""
    if inside and inside[0] not in "_.":
        return f"--checkpoint {checkpoint}: inside the output folder its name must begin with _, or it is read as data"
    return None
