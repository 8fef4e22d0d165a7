"""Rows that can't be sent, and brokers that die in the middle of a write: what one task of the sink says and does."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from staticfire import Cluster
from staticfire.client import ReceivedMessage
from staticfire.client.admin.peek import peek_messages
from staticfire.client.pull.pull_consumer import PullConsumer
from staticfire.pipeline.errors import RowsNotSent, SourceUnreachable
from staticfire.pipeline.rows import ROW_ID
from staticfire.pipeline.sink import BatchWriter, write_rows
from staticfire.pipeline.sink_options import SinkOptions
from staticfire.protocol.limits import BODY_BYTES_MAX
from staticfire.protocol.names import TOOLS_GROUP
from staticfire.runtime.log import logged_to

pytestmark = [pytest.mark.spark, pytest.mark.row("E4")]

BATCHES, BATCH_ROWS = 6, 50
LARGE = b"x" * (BODY_BYTES_MAX + 1)


def batch(*values: bytes | None) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(values, pa.binary())})


def numbered(between: Callable[[], object]) -> Iterator[pa.RecordBatch]:
    """Yield rows that count up; `between` happens in the middle."""
    for number in range(BATCHES):
        if number == BATCHES // 2:
            between()
        yield batch(*(b"%d" % row for row in range(number * BATCH_ROWS, (number + 1) * BATCH_ROWS)))


def stored(cluster: Cluster, topic: str) -> list[ReceivedMessage]:
    async def run() -> list[ReceivedMessage]:
        async with PullConsumer(TOOLS_GROUP, cluster.namesrv) as reader:
            return await peek_messages(reader, await reader.queues(topic), 100_000)

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((b"good", None), "1 of 2 rows not sent, for example row 1: value is null: a message must have a body"),
        ((LARGE,), f"a message for out has {BODY_BYTES_MAX + 1} bytes, the limit is {BODY_BYTES_MAX}: send less"),
        ((b"",), "a message for out has an empty body"),
    ],
)
def test_a_row_that_cant_be_sent_is_named(cluster: Cluster, given: tuple[bytes | None, ...], words: str) -> None:
    cluster.create_topic("out", queues=1)
    with pytest.raises(RowsNotSent) as refused:
        write_rows(SinkOptions(cluster.namesrv, "out"), iter([batch(*given)]), "run")
    assert words in str(refused.value)
    assert "set failOnError=false to skip such rows" in str(refused.value)


def test_rows_that_are_left_out_are_counted_and_shown_with_examples(cluster: Cluster) -> None:
    cluster.create_topic("out", queues=1)
    options = SinkOptions(cluster.namesrv, "out", fail_on_error=False)
    written = [
        write_rows(options, iter([batch(b"good", None), batch(LARGE, b"also good")]), "run"),
        write_rows(options, iter([batch(None, None, None)]), "run"),
    ]
    assert [(task.sent, task.failed) for task in written] == [(2, 2), (0, 3)]
    reported: list[tuple[str, str, dict[str, object]]] = []
    with logged_to(lambda level, event, fields: reported.append((level, event, fields))):
        BatchWriter(options, "run").commit([*written, None])
    ((level, event, fields),) = reported
    assert (level, event, fields["topic"]) == ("warning", "rows_written", "out")
    assert str(fields["rows"]).startswith("5 of 7 rows not sent, for example row 1: value is null")
    assert sorted(one.body for one in stored(cluster, "out")) == [b"also good", b"good"]


def test_a_topic_that_isnt_there_is_named_where_none_is_made() -> None:
    with Cluster(settings={"autoCreateTopicEnable": "false"}) as cluster:
        options = SinkOptions(cluster.namesrv, "nowhere", send_timeout_ms=500)
        with pytest.raises(RowsNotSent, match="nowhere"):
            write_rows(options, iter([batch(b"1")]), "run")


def test_a_nameserver_that_cant_be_reached_is_named() -> None:
    options = SinkOptions("127.0.0.1:1", "out", send_timeout_ms=500)
    with pytest.raises((RowsNotSent, SourceUnreachable), match=r"127\.0\.0\.1:1"):
        write_rows(options, iter([batch(b"1")]), "run")


def test_a_broker_that_dies_in_a_write_and_comes_back_has_every_row_and_copies_can_be_recognized() -> None:
    with Cluster(isolation="process") as cluster:
        cluster.create_topic("out", queues=2)

        def die_and_come_back() -> None:
            cluster.broker("broker-a").kill()
            cluster.broker("broker-a").restart()

        options = SinkOptions(cluster.namesrv, "out", rows_per_send=10)
        assert write_rows(options, numbered(die_and_come_back), "run").sent == BATCHES * BATCH_ROWS
        rows = {one.properties[ROW_ID]: one.body for one in stored(cluster, "out")}
    assert sorted(map(int, rows.values())) == list(range(BATCHES * BATCH_ROWS))


def test_a_broker_that_dies_in_a_write_and_stays_away_fails_it_and_a_second_try_mends_it() -> None:
    with Cluster(isolation="process") as cluster:
        cluster.create_topic("out", queues=2)
        hasty = SinkOptions(cluster.namesrv, "out", rows_per_send=10, send_timeout_ms=700)
        with pytest.raises(RowsNotSent, match=r"rows not sent, for example Message\(topic='out'.*broker-a"):
            write_rows(hasty, numbered(cluster.broker("broker-a").kill), "run")
        cluster.broker("broker-a").restart()
        patient = replace(hasty, send_timeout_ms=20_000)
        assert write_rows(patient, numbered(lambda: None), "run").sent == BATCHES * BATCH_ROWS
        found = stored(cluster, "out")
    rows = {one.properties[ROW_ID]: one.body for one in found}
    assert sorted(map(int, rows.values())) == list(range(BATCHES * BATCH_ROWS))
    assert len(found) > len(rows)  # Of the first try.
