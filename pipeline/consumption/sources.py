"""The data as views: messages, journal, offsets, and the attempts from ledgers, traces or deliveries."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from staticfire.pipeline.consumption import views
from staticfire.pipeline.consumption.settings import JOURNAL, MESSAGES, PROGRESS, ConsumptionSettings
from staticfire.protocol.errors import ClientError, UsageError
from staticfire.protocol.names import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JOURNAL_COLUMNS = (
    "number bigint, brokerName string, kind string, at timestamp, realAt timestamp, client string, groupName string, "
    "topic string, queueId int, queueOffset bigint, endOffset bigint, messageId string, words string, rate double, "
    "details string"
)
PROGRESS_COLUMNS = "groupName string, topic string, brokerName string, queueId int, committed bigint, endOffset bigint"
LEDGER_COLUMNS = (
    "groupName string, consumer string, messageId string, reconsumeTimes int, beganAt timestamp, endedAt timestamp, "
    "outcome string"
)
Told = Literal["ledgers", "traces", "journals"]


@dataclass(frozen=True, slots=True)
class Sources:
    """Which data the tables are based on."""

    told_by: Told
    """The source of the attempts."""
    has_journal: bool
    broadcasting: tuple[str, ...] = ()
    """The broadcasting groups, which are left out. They are known from journals."""


@dataclass(frozen=True, slots=True)
class Given:
    """The input tables. `ledger`: None if there is none."""

    messages: "DataFrame"
    journal: "DataFrame"
    progress: "DataFrame"
    ledger: "DataFrame | None" = None


def read_folder(spark: "SparkSession", settings: ConsumptionSettings, ledger: "DataFrame | None") -> Given:
    """Return the data in a folder. Raises: UsageError (it isn't the folder of an ingest)."""
    from staticfire.pipeline.jobs.ingest import read_ingested

    try:
        messages = read_ingested(spark, settings.place(MESSAGES))
    except UsageError:
        messages = read_ingested(spark, settings.folder)
    journal = _noted(spark, settings.place(JOURNAL), JOURNAL_COLUMNS)
    return Given(messages, journal, _noted(spark, settings.place(PROGRESS), PROGRESS_COLUMNS), ledger)


def _noted(spark: "SparkSession", place: str, columns: str) -> "DataFrame":
    if "://" not in place and not any(Path(place).glob("*.parquet")):
        return spark.createDataFrame([], columns)
    return spark.read.schema(columns).parquet(place)


class SourceViews:
    """Makes the views."""

    def __init__(self, spark: "SparkSession", settings: ConsumptionSettings) -> None:
        self._spark = spark
        self._settings = settings

    def make(self, given: Given) -> Sources:
        """Make all views. Raises: ClientError (there is no data about consumption)."""
        given.messages.createOrReplaceTempView("messages")
        given.journal.createOrReplaceTempView("whole_journal")
        self._view("broadcasting", views.BROADCASTING)
        self._view("journal", views.JOURNAL)
        given.progress.createOrReplaceTempView("progress")
        ledger = given.ledger
        has_journal = not self._spark.sql("SELECT 1 FROM journal LIMIT 1").isEmpty()
        for name, text in (
            ("stored", views.STORED), ("places", views.PLACES), ("subscribed_tags", views.SUBSCRIBED_TAGS),
            ("handed_out", views.HANDED_OUT), ("given_back", views.GIVEN_BACK), ("dead", views.DEAD),
            ("traces", views.TRACES), ("calls", views.CALLS), ("returns", views.RETURNS),
        ):  # fmt: skip
            self._view(name, text)
        told_by = self._attempts(ledger, has_journal)
        self._view("pairs", views.PAIRS)
        left_out = self._spark.sql("SELECT groupName FROM broadcasting ORDER BY groupName").collect()
        return Sources(told_by, has_journal, tuple(row.groupName for row in left_out))

    def _attempts(self, ledger: "DataFrame | None", has_journal: bool) -> Told:
        told_by: Told = "ledgers"
        if ledger is not None:
            ledger.select(*(column.split()[0] for column in LEDGER_COLUMNS.split(", "))).createOrReplaceTempView(
                "raw_attempts"
            )
        elif not self._spark.sql("SELECT 1 FROM calls LIMIT 1").isEmpty():
            told_by = "traces"
            self._view("raw_attempts", views.TRACED)
        elif has_journal:
            told_by = "journals"
            self._view("raw_attempts", views.FROM_DELIVERIES)
        else:
            raise ClientError(
                f"the data in {self._settings.folder} doesn't show which messages were consumed: it has no trace in "
                f"{self._settings.trace_topic} and no journal; turn tracing on in the consumers (enable_trace=True), "
                "or give another trace topic (--trace-topic)"
            )
        self._in_message_time()
        self._view("placed", views.PLACED)
        self._view("names", views.NAMES)
        self._view("attempts", views.ATTEMPTS_OF_CLIENTS if told_by == "traces" else "SELECT * FROM placed")
        return told_by

    def _in_message_time(self) -> None:
        """Convert real times to message time, if message time was changed during the run."""
        moved = not self._spark.sql("SELECT 1 FROM journal WHERE kind = 'clockSet' LIMIT 1").isEmpty()
        began, ended, joins = "a.beganAt", "a.endedAt", ""
        if moved:
            self._view("faces", views.FACES)
            began, ended = (
                views.SHOWN.format(face=face, name=name) for face, name in (("f", "beganAt"), ("g", "endedAt"))
            )
            joins = " ".join(
                views.FACE_JOIN.format(face=face, name=name) for face, name in (("f", "beganAt"), ("g", "endedAt"))
            )
        self._view("timed_attempts", views.IN_MESSAGE_TIME.format(began=began, ended=ended, joins=joins))

    def _view(self, name: str, text: str) -> None:
        make_view(self._spark, self._settings, name, text)


def make_view(spark: "SparkSession", settings: ConsumptionSettings, name: str, text: str, **more: Any) -> None:
    """Make a view of a query, with the parameters that all queries may use."""
    spark.sql(text, arguments(settings, text) | more).createOrReplaceTempView(name)


def arguments(settings: ConsumptionSettings, text: str) -> dict[str, Any]:
    """Return the settings that a query uses as parameters."""
    known = {"trace": settings.trace_topic, "waiting": SCHEDULE_TOPIC, "groups": " ".join(settings.groups)}
    return {name: value for name, value in known.items() if f":{name}" in text}
