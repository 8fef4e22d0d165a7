"""Settings that change while a broker runs: each of them acts from then on, without a restart."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.broker.handlers.config import LIVE
from staticfire.broker.retention import HOUR_MS
from staticfire.client import ClientSettings
from staticfire.protocol.names import CHECK_MAX_TIME_TOPIC
from staticfire.protocol.requests.config import UpdateBrokerConfig
from staticfire.protocol.requests.offsets import GetMinOffset
from staticfire.simulation.world import SimulatedWorld
from tests.house.source import ROOT
from tests.scenarios.broker_stand import NAME, BrokerStand, text
from tests.scenarios.consuming import Shop, later

KIB, MIB, TIB = 1 << 10, 1 << 20, 1 << 40
INVALID, ILLEGAL, NO_PERMISSION = 29, 13, 16


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[BrokerStand]:
    stand = BrokerStand(world, mapped_file_size_commit_log=64 * KIB)
    await stand.start()
    yield stand
    await stand.close()


async def switch(stand: BrokerStand, *lines: str) -> None:
    answer = await stand.ask(UpdateBrokerConfig(body="\n".join(lines).encode()))
    assert (answer.code, answer.remark) == (0, None)


async def min_offset(stand: BrokerStand) -> int:
    return int((await stand.ask(GetMinOffset("orders", 0))).offset)


def test_the_start_is_the_only_reader_of_none_of_them() -> None:
    """What is read from the settings of the start can't change: those of the broker itself, of `make_tables`."""
    server = (ROOT / "broker/server.py").read_text().replace("state.settings", "")
    tables = (ROOT / "broker/tables.py").read_text()
    frozen = [name for name in sorted(LIVE) if f"self.settings.{name}" in server or f"={name}" in tables]
    assert not frozen


async def test_how_large_a_message_may_be(world: SimulatedWorld) -> None:
    stand = BrokerStand(world)
    await stand.start()
    assert (await stand.send("orders", bytes(5 * MIB))).code == ILLEGAL
    await switch(stand, f"maxMessageSize={6 * MIB}")
    assert (await stand.send("orders", bytes(5 * MIB))).code == 0
    assert [len(body) for body in await stand.bodies("orders")] == [5 * MIB]
    await switch(stand, "maxMessageSize=10")
    answer = await stand.send("orders", bytes(11))
    assert answer.code == ILLEGAL
    assert "msg body length limit 10B" in (answer.remark or "")
    await stand.close()


async def test_what_a_broker_adds_to_messages(stand: BrokerStand) -> None:
    first = await stand.send("orders", b"x")
    await switch(stand, "regionId=north", "traceOn=false")
    second = await stand.send("orders", b"x")
    assert [(answer.region, answer.trace_on) for answer in (first, second)] == [
        ("DefaultRegion", "true"),
        ("north", "false"),
    ]
    records = await stand.stored("orders")
    assert [text(record, "MSG_REGION") for record in records] == ["DefaultRegion", "north"]
    assert [text(record, "TRACE_ON") for record in records] == ["true", "false"]


@pytest.mark.row("F5")
async def test_when_and_how_often_a_producer_gets_checks(world: SimulatedWorld, stand: BrokerStand) -> None:
    await switch(stand, "transactionTimeOut=100000", "transactionCheckInterval=1000", "transactionCheckMax=2")
    assert (await stand.send("orders", b"x", UNIQ_KEY="U1", TRAN_MSG="true", PGROUP="shop")).code == 0
    await world.run_for(seconds=99)
    assert stand.broker.transactions.next_due_ms() == stand.message_ms + 1_000
    await world.run_for(seconds=5)
    assert [record.body for record in await stand.stored(CHECK_MAX_TIME_TOPIC)] == [b"x"]
    await switch(stand, "rejectTransactionMessage=true")
    assert (await stand.send("orders", b"x", UNIQ_KEY="U2", TRAN_MSG="true", PGROUP="shop")).code == NO_PERMISSION
    await switch(stand, "timerMaxDelaySec=5")
    assert (await stand.send("orders", b"x", TIMER_DELAY_SEC="6")).code == ILLEGAL


@pytest.mark.row("F2")
async def test_how_long_messages_stay(world: SimulatedWorld, stand: BrokerStand) -> None:
    for _ in range(12):
        await stand.send("orders", bytes(16 * KIB))
    stand.jump(2 * HOUR_MS)
    hour = stand.message_ms // HOUR_MS % 24
    await world.run_for(seconds=11)
    assert await min_offset(stand) == 0
    await switch(stand, "fileReservedTime=1", f"deleteWhen={hour:02}", "cleanResourceInterval=1000")
    await world.run_for(seconds=12)
    assert await min_offset(stand) > 0


@pytest.mark.row("F2")
async def test_how_full_the_disk_may_be(world: SimulatedWorld, stand: BrokerStand) -> None:
    world.disk(NAME).others_bytes = TIB * 95 // 100
    await world.run_for(seconds=11)
    assert (await stand.send("orders", b"x")).code == 14
    await switch(stand, "diskSpaceWarningLevelRatio=100")
    await world.run_for(seconds=11)
    assert (await stand.send("orders", b"x")).code == 0


async def test_hours_that_are_none_change_nothing(world: SimulatedWorld, stand: BrokerStand) -> None:
    answer = await stand.ask(UpdateBrokerConfig(body=b"deleteWhen=4am\nregionId=north"))
    assert answer.code == INVALID
    assert "deleteWhen=4am is not a list of hours" in answer.remark
    assert (await stand.send("orders", b"x")).region == "DefaultRegion"


@pytest.mark.row("A3")
async def test_a_consumer_whose_retries_are_refused_tries_again_by_itself(world: SimulatedWorld) -> None:
    """Its offset stands still, since the message lives nowhere else. Where retries are taken again it moves on."""
    shop = await Shop(world, ClientSettings(), {"refuse_retries_when_read_only": True}).open()
    address = f"10.0.1.1:{shop.brokers['broker-a'].port}"

    async def permit(perm: int) -> None:
        await shop.producer.client.pool.ask(address, UpdateBrokerConfig(body=b"brokerPermission=%d" % perm), 5_000)

    await shop.send(b"unlucky", queue=0)
    await permit(4)
    await shop.start("one", later)
    await world.run_for(seconds=31)
    assert len(shop.heard) >= 5
    assert [heard.message.topic for heard in shop.heard] == ["orders"] * len(shop.heard)
    assert shop.committed(0) <= 0
    await permit(6)
    await world.until(lambda: shop.committed(0) == 1, within_ms=11_000)
    await shop.close()
