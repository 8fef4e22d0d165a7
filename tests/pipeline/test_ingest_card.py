"""One checkpoint and one output folder belong together for ever: what is accepted, and the errors for the rest."""

import msgspec
import pytest

from staticfire.pipeline.jobs.card import Card, FolderState, check
from staticfire.pipeline.jobs.failures import one_line
from staticfire.pipeline.jobs.settings import IngestSettings
from staticfire.protocol.errors import UsageError

WANTED = Card("new", ("orders",), ("topic",))
KNOWN = Card("known", ("orders",), ("topic",))
OTHER = Card("other", ("bills",), ("topic",))


def output(card: Card | None = None, *names: str, has_batches: bool = False) -> FolderState:
    return FolderState("/table", card, names, has_batches)


def checkpoint(card: Card | None = None, *names: str, has_batches: bool = False) -> FolderState:
    return FolderState("/checkpoint", card, names, has_batches)


def test_new_folders_get_the_new_card() -> None:
    assert check(WANTED, output(), checkpoint()) == WANTED


def test_a_restart_continues_under_the_known_id() -> None:
    found = check(
        WANTED, output(KNOWN, "topic=orders", has_batches=True), checkpoint(KNOWN, "commits", has_batches=True)
    )
    assert found.ingest_id == "known"


def test_a_start_that_died_before_the_checkpoint_had_its_card_continues() -> None:
    assert check(WANTED, output(KNOWN), checkpoint()).ingest_id == "known"


def test_a_batch_may_be_in_the_table_and_not_yet_in_the_checkpoint() -> None:
    found = check(WANTED, output(KNOWN, has_batches=True), checkpoint(KNOWN, "offsets"))
    assert found.ingest_id == "known"


def test_topics_may_be_added() -> None:
    more = msgspec.structs.replace(WANTED, topics=("orders", "%DLQ%billing"))
    assert check(more, output(KNOWN), checkpoint(KNOWN)).topics == ("orders", "%DLQ%billing")


@pytest.mark.parametrize(
    ("wanted", "table", "progress", "words"),
    [
        (WANTED, output(None, "photos"), checkpoint(), "/table contains other files (photos)"),
        (WANTED, output(), checkpoint(None, "photos"), "checkpoint /checkpoint contains other files (photos)"),
        (
            WANTED,
            output(),
            checkpoint(OTHER),
            "checkpoint /checkpoint belongs to an ingest of bills into another folder",
        ),
        (WANTED, output(KNOWN), checkpoint(OTHER), "checkpoint /checkpoint belongs to another ingest"),
        (OTHER, output(KNOWN), checkpoint(KNOWN), "are of orders, not of bills: topics can be added, but not removed"),
        (WANTED, output(KNOWN, has_batches=True), checkpoint(), "was written with another checkpoint"),
        (
            WANTED,
            output(KNOWN),
            checkpoint(KNOWN, has_batches=True),
            "/table has lost files that were written with checkpoint /checkpoint",
        ),
        (
            msgspec.structs.replace(WANTED, partition_by=("brokerName",)),
            output(KNOWN),
            checkpoint(KNOWN),
            "/table is partitioned by topic, not by brokerName",
        ),
    ],
)
def test_what_does_not_belong_together_is_refused(
    wanted: Card, table: FolderState, progress: FolderState, words: str
) -> None:
    with pytest.raises(UsageError) as refused:
        check(wanted, table, progress)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_card_reads_as_it_was_written() -> None:
    assert Card.decode(KNOWN.encode(), "/table") == KNOWN


@pytest.mark.parametrize("text", ["", "{}", '{"ingestId":"a","topics":[],"partitionBy":[],"version":9}'])
def test_a_damaged_card_or_a_newer_one_is_reported(text: str) -> None:
    with pytest.raises(UsageError, match="/table"):
        Card.decode(text, "/table")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"topics": ()}, "--topic"),
        ({"topics": ("no/slash",)}, "illegal characters"),
        ({"to": ""}, "--to"),
        ({"partition_by": ("storeDay",)}, "--partition-by storeDay: unknown column; the columns are topic, storeDate"),
        ({"partition_by": ("topic", "topic")}, "twice"),
        ({"checkpoint": "/table"}, "--checkpoint /table: this is the output folder itself"),
        ({"checkpoint": "/table/progress"}, "its name must begin with _"),
    ],
)
def test_settings_that_cannot_work_are_refused(more: dict[str, object], words: str) -> None:
    given: dict[str, object] = {"topics": ("orders",), "to": "/table", "name_server": "127.0.0.1:9876"}
    with pytest.raises(UsageError) as refused:
        IngestSettings(**(given | more))  # type: ignore[arg-type]  # wrong on purpose
    assert words in str(refused.value)


def test_dead_letters_come_once_and_after_the_topics() -> None:
    settings = IngestSettings(("orders", "%DLQ%billing"), "/table/", "127.0.0.1:9876", dead_letters_of=("billing",))
    assert settings.all_topics == ("orders", "%DLQ%billing")
    assert settings.checkpoint_folder == "/table/_checkpoint"
    assert settings.source_options(settings.all_topics)["subscribe"] == "orders,%DLQ%billing"


def test_what_spark_wraps_is_one_line_again() -> None:
    wrapped = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_EXCEPTION] An exception:
Traceback (most recent call last):
  File "/somewhere/pulls.py", line 50, in read
    raise broker_answer(answer.code)
staticfire.pipeline.errors.DataLost: orders broker-a/1: offset 5 is gone SQLSTATE: 38000
=== Streaming Query ==="""
    assert one_line(RuntimeError(wrapped)) == "orders broker-a/1: offset 5 is gone"
    assert one_line(RuntimeError("[PATH_NOT_FOUND] Path does not exist: x. SQLSTATE: 42K03\nmore")) == (
        "Path does not exist: x. (PATH_NOT_FOUND)"
    )
    assert one_line(RuntimeError("")) == "RuntimeError"
