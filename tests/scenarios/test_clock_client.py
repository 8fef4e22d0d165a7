"""`ClusterClock`: message time from a program of staticfire's own."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import ClockReport, ClusterClient, ClusterClock
from staticfire.protocol.errors import BrokerAnswer, ClockBusy, ConnectFailed, NotAtRest, UsageError
from staticfire.protocol.record import StoredRecord
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.stand import NAMESERVER, BareConsumer, Stand

pytestmark = pytest.mark.row("S1")

HOUR_MS = 3_600_000


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[Stand]:
    stand = await Stand(world, brokers=2).start()
    yield stand
    await stand.close()


@pytest.fixture
def clock(stand: Stand) -> ClusterClock:
    return ClusterClock(stand.pool, NAMESERVER)


def fine(record: StoredRecord) -> bool:
    return True


async def half_consumed(stand: Stand) -> BareConsumer:
    """Return a group that reads one of two queues, with a message in the other."""
    await stand.create_topic("orders", queues=2)
    consumer = await BareConsumer(stand, "billing", {"orders": 1}, fine).start()
    await stand.send("orders", queue_id=1)
    return consumer


async def test_a_report_says_what_the_clock_shows(world: SimulatedWorld, clock: ClusterClock) -> None:
    now = await clock.now()
    assert (now.mode, now.rate, now.ahead_ms, now.next_due_ms, now.delivered) == ("real", 1.0, 0, None, 0)
    ahead = await clock.advance(by_ms=2 * HOUR_MS)
    assert abs(ahead.ahead_ms - 2 * HOUR_MS) < 100
    assert (await clock.freeze()).mode == "frozen"
    scaled = await clock.scale(60)
    assert (scaled.mode, scaled.rate) == ("scaled", 60.0)
    assert (await clock.skip()).mode == "skipping"
    assert (await clock.run()).mode == "real"


async def test_a_report_says_what_was_delivered_and_what_is_next(stand: Stand, clock: ClusterClock) -> None:
    await stand.create_topic("orders")
    await clock.freeze()
    await stand.send("orders", properties="DELAY\x013\x02")
    await stand.send("orders", properties="DELAY\x0118\x02")
    before = await clock.now()
    assert before.next_due_ms == before.message_ms + 10_000
    after = await clock.advance(to_ms=before.message_ms + HOUR_MS)
    assert (after.delivered, after.steps) == (1, 1)
    assert after.message_ms == before.message_ms + HOUR_MS
    assert after.next_due_ms == before.message_ms + 2 * HOUR_MS


async def test_a_report_is_ready_for_json() -> None:
    report = ClockReport(1_795_267_800_000, 1_795_267_800_000 - HOUR_MS, "frozen", 0.0, None)
    assert report.as_json() == {
        "messageMs": 1_795_267_800_000,
        "messageTime": "2026-11-21T13:30:00.000Z",
        "wallMs": 1_795_264_200_000,
        "wallTime": "2026-11-21T12:30:00.000Z",
        "mode": "frozen",
        "rate": 0.0,
        "nextDueMs": None,
        "nextDueTime": None,
        "delivered": 0,
        "steps": 0,
        "checked": 0,
        "expired": 0,
    }


async def test_a_client_shares_its_connections_with_the_clock(world: SimulatedWorld, stand: Stand) -> None:
    async with ClusterClient(NAMESERVER, machine=world.machine("program", "10.0.0.9")) as client:
        assert (await ClusterClock(client).advance(by_ms=HOUR_MS)).ahead_ms > HOUR_MS - 100


async def test_the_past_is_refused(clock: ClusterClock) -> None:
    now_ms = (await clock.now()).message_ms
    with pytest.raises(BrokerAnswer, match=rf"message time is \d+ and can't go back to {now_ms - 1}"):
        await clock.advance(to_ms=now_ms - 1)


async def test_who_keeps_the_cluster_from_resting_is_named(stand: Stand, clock: ClusterClock) -> None:
    consumer = await half_consumed(stand)
    with pytest.raises(NotAtRest, match="group billing, queue 1 of orders on broker-a"):
        await clock.advance(by_ms=HOUR_MS, settle_ms_max=500)
    with pytest.raises(NotAtRest, match="after 0 ms"):
        await clock.advance(by_ms=HOUR_MS, settle_ms_max=0)
    await consumer.stop()


async def test_two_drivers_at_once_are_distinguished(world: SimulatedWorld, stand: Stand, clock: ClusterClock) -> None:
    consumer = await half_consumed(stand)
    first = world.loop.create_task(clock.advance(by_ms=HOUR_MS, settle_ms_max=2_000))
    await world.run_for(ms=100)
    with pytest.raises(ClockBusy, match="advancing by 3600000 ms"):
        await clock.advance(by_ms=1)
    with pytest.raises(ClockBusy):
        await clock.freeze()
    assert (await clock.now()).mode == "frozen"  # Looking is always allowed.
    with pytest.raises(NotAtRest):
        await first
    await consumer.stop()


async def test_an_advance_whose_caller_has_left_ends(world: SimulatedWorld, stand: Stand, clock: ClusterClock) -> None:
    """A caller who interrupts an advance doesn't want that time any more. It must not come later, when all is done."""
    consumer = await half_consumed(stand)
    async with ClusterClient(NAMESERVER, machine=world.machine("program", "10.0.0.9")) as client:
        advancing = world.loop.create_task(ClusterClock(client).advance(by_ms=HOUR_MS))
        await world.run_for(ms=100)
        assert (await clock.now()).mode == "frozen"
        advancing.cancel()
    await world.run_for(ms=100)
    assert (await clock.now()).mode == "real"
    await consumer.stop()
    await world.run_for(ms=60_000)
    assert (await clock.now()).ahead_ms < 1_000
    assert (await clock.advance(by_ms=HOUR_MS)).ahead_ms > HOUR_MS - 1_000


async def test_an_advance_may_take_longer_than_an_idle_connection_lives(world: SimulatedWorld) -> None:
    stand = await Stand(world, channel_expired_timeout_ms=HOUR_MS).start()
    consumer = await half_consumed(stand)
    with pytest.raises(NotAtRest, match="after 600000 ms"):
        await ClusterClock(stand.pool, NAMESERVER).advance(by_ms=HOUR_MS, settle_ms_max=600_000)
    await consumer.stop()
    await stand.close()


async def test_a_nameserver_that_isnt_ours_has_no_message_time(stand: Stand) -> None:
    """A broker stands for it: it knows as little of CLOCK as Apache RocketMQ's nameserver."""
    elsewhere = ClusterClock(stand.pool, stand.brokers["broker-a"])
    with pytest.raises(BrokerAnswer, match="message time is staticfire's own, and this nameserver isn't staticfire's"):
        await elsewhere.now()


async def test_no_server_and_no_address_are_reported(stand: Stand) -> None:
    with pytest.raises(ConnectFailed, match=r"10\.0\.0\.1:1234"):
        await ClusterClock(stand.pool, "10.0.0.1:1234").now()
    with pytest.raises(UsageError, match="host:port"):
        ClusterClock(stand.pool)


async def test_a_broker_that_stands_still_is_named_in_time(
    world: SimulatedWorld, stand: Stand, clock: ClusterClock
) -> None:
    await clock.now()
    world.freeze("broker-a")
    before_ms = world.uptime_ms
    with pytest.raises(NotAtRest, match=r"broker broker-a doesn't report whether it is at rest \(.*no response"):
        await clock.advance(by_ms=HOUR_MS, settle_ms_max=2_000)
    assert world.uptime_ms - before_ms < 16_000  # To stop its time took 10 s, in vain.
    world.thaw("broker-a")
