"""Options of the sink, each with another value than its default, by requests and by the simulated time. No JVM."""

import asyncio

import pyarrow as pa
import pytest

from staticfire.client import ClusterClient
from staticfire.pipeline.errors import RowsNotSent
from staticfire.pipeline.row_messages import RowMessage
from staticfire.pipeline.rows import ROW_ID, messages_of
from staticfire.pipeline.sending import RowSender
from staticfire.pipeline.sink_options import SinkOptions, parse_sink_options
from tests.scenarios.consuming import NAMESRV, TOPIC
from tests.scenarios.faulty_shop import FaultyShop

pytestmark = [pytest.mark.spark, pytest.mark.row("E4")]


def options_of(**given: str) -> SinkOptions:
    return parse_sink_options({"nameServer": NAMESRV, "topic": TOPIC, **given}, {})


def rows_of(options: SinkOptions, *values: bytes) -> list[RowMessage]:
    rows = list(messages_of(pa.record_batch({"value": pa.array(values, pa.binary())}), options, 0, "run-0"))
    return [row for row in rows if isinstance(row, RowMessage)]


@pytest.mark.parametrize(("given", "found"), [({}, "run-0-0"), ({"rowIds": "false"}, None)])
def test_messages_have_row_ids_unless_they_are_turned_off(given: dict[str, str], found: str | None) -> None:
    (row,) = rows_of(options_of(**given), b"x")
    assert row.message.properties.get(ROW_ID) == found


@pytest.mark.parametrize("in_flight", [1, 2])
async def test_how_many_sends_of_a_task_are_in_flight_before_it_makes_further_rows(
    shop: FaultyShop, client: ClusterClient, in_flight: int
) -> None:
    await shop.add(code="SEND_MESSAGE", delay="2s")
    options = options_of(sendsInFlight=str(in_flight))
    sender = await RowSender(client, options).open()
    offered: list[int] = []

    async def write() -> None:
        for number in range(5):
            await sender.offer(rows_of(options, b"%d" % number))
            offered.append(number)
        await sender.finish()

    writing = asyncio.create_task(write())
    await shop.world.run_for(seconds=1)
    assert len(offered) == in_flight
    await writing
    await sender.close()


async def test_a_row_fails_when_its_time_is_over(shop: FaultyShop, client: ClusterClient) -> None:
    await shop.add(code="SEND_MESSAGE", answer="SYSTEM_BUSY")
    options = options_of(sendTimeoutMs="900", group="spark-shop")
    sender = await RowSender(client, options).open()
    began_ms = shop.world.uptime_ms
    await sender.offer(rows_of(options, b"x"))
    with pytest.raises(RowsNotSent, match="1 of 1 rows not sent"):
        await sender.finish()
    assert 400 < shop.world.uptime_ms - began_ms < 1_500
    await sender.close()


async def test_brokers_see_the_producer_group_of_the_options(shop: FaultyShop, client: ClusterClient) -> None:
    await shop.add(code="SEND_MESSAGE", group="writers", delay="1ms")
    for given, hits in (({}, 0), ({"group": "writers"}, 1)):
        options = options_of(**given)
        sender = await RowSender(client, options).open()
        await sender.offer(rows_of(options, b"x"))
        await sender.finish()
        await sender.close()
        assert await shop.hits() == [hits]
