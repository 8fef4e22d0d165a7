"""Message time jumps; everything that falls due on the way is delivered and consumed before the jump is over."""

import itertools
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.protocol.names import dead_letter_topic
from staticfire.protocol.record import StoredRecord
from staticfire.protocol.requests.offsets import GetMaxOffset
from staticfire.simulation.world import LinkQuality, SimulatedWorld
from tests.scenarios.stand import BareConsumer, Stand

pytestmark = pytest.mark.row("S1")

HOUR_MS = 3_600_000
NOT_AT_REST, CLOCK_BUSY, INVALID = 9001, 9002, 29


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[Stand]:
    stand = await Stand(world, brokers=2).start()
    yield stand
    await stand.close()


def failing(record: StoredRecord) -> bool:
    return False


def fine(record: StoredRecord) -> bool:
    return True


RETRY_DELAYS_S = [10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]


def gaps_s(consumer: BareConsumer) -> list[float]:
    """Return how long after each other a consumer's messages were stored."""
    times = [record.stored_ms for record in consumer.seen]
    return [(later - earlier) / 1_000 for earlier, later in itertools.pairwise(times)]


async def dead_letters(stand: Stand) -> int:
    answer = await stand.ask(stand.brokers["broker-a"], GetMaxOffset(dead_letter_topic("billing"), 0))
    return int(answer.offset)


async def test_two_hours_ahead_in_no_time(world: SimulatedWorld, stand: Stand) -> None:
    before = (await stand.clock("now")).message_ms
    began_ns = world.loop.uptime_ns
    after = await stand.clock("advance", by_ms=2 * HOUR_MS)
    assert after.code == 0
    assert 0 <= after.message_ms - before - 2 * HOUR_MS < 1_000
    assert world.loop.uptime_ns - began_ns < 1_000_000_000
    assert (await stand.clock("now")).mode == "real"


@pytest.mark.row("A7")
async def test_the_whole_road_to_the_dead_letters(world: SimulatedWorld, stand: Stand) -> None:
    """Sixteen retries, 10 s to 2 h apart: 4 h 45 min 40 s of message time."""
    await stand.create_topic("orders")
    consumer = await BareConsumer(stand, "billing", {"orders": 1}, failing).start()
    await stand.send("orders", b"unpayable")
    began_ns = world.loop.uptime_ns
    answer = await stand.clock("advance", by_ms=5 * HOUR_MS)
    assert answer.code == 0, answer.remark
    assert [record.reconsume_times for record in consumer.seen] == list(range(17))
    assert (answer.steps, answer.delivered) == (16, 16)
    assert await dead_letters(stand) == 1
    assert world.loop.uptime_ns - began_ns < 5_000_000_000
    assert gaps_s(consumer) == pytest.approx(RETRY_DELAYS_S, abs=0.1)
    assert gaps_s(consumer)[1:] == RETRY_DELAYS_S[1:]  # time stood when these were sent back
    await consumer.stop()


@pytest.mark.row("A7")
@pytest.mark.parametrize("mode", ["freeze", "run", "skip"])
async def test_a_jump_of_exactly_all_retries_ends_at_the_dead_letters(stand: Stand, mode: str) -> None:
    """No hop of the chain is late: what is due by the target is delivered by the target."""
    await stand.create_topic("orders")
    consumer = await BareConsumer(stand, "billing", {"orders": 1}, failing).start()
    await stand.clock("freeze")
    await stand.send("orders", b"unpayable")
    await stand.world.until(lambda: len(consumer.seen) == 1)
    if mode != "freeze":
        await stand.clock(mode)
    answer = await stand.clock("advance", by_ms=1_000 * sum(RETRY_DELAYS_S))
    assert answer.code == 0, answer.remark
    assert len(consumer.seen) == 17
    assert await dead_letters(stand) == 1
    assert answer.mode == {"freeze": "frozen", "run": "real", "skip": "skipping"}[mode]
    await consumer.stop()


@pytest.mark.row("A7")
async def test_a_message_sent_just_before_a_jump_fails_sixteen_times_within_it(stand: Stand) -> None:
    """A duration counts from where time came to stand, not from when somebody asked."""
    await stand.create_topic("orders")
    consumer = await BareConsumer(stand, "billing", {"orders": 1}, failing).start()
    await stand.send("orders", b"unpayable")
    assert (await stand.clock("advance", by_ms=1_000 * sum(RETRY_DELAYS_S))).code == 0
    assert await dead_letters(stand) == 1
    await consumer.stop()


async def test_messages_of_two_brokers_are_delivered_at_their_own_times(stand: Stand) -> None:
    await stand.create_topic("orders")
    await stand.create_topic("orders", broker="broker-b")
    consumer = await BareConsumer(stand, "billing", {"orders": 1}, fine).start()
    for number in range(20):
        await stand.send("orders", properties="DELAY\x013\x02", broker=f"broker-{'ab'[number % 2]}")
        await stand.world.run_for(ms=7)
    answer = await stand.clock("advance", by_ms=10_000)
    assert (answer.code, answer.delivered) == (0, 20)
    assert len({record.stored_ms for record in consumer.seen}) == 20
    await consumer.stop()


@pytest.mark.row("D1")
async def test_nothing_comes_early(stand: Stand) -> None:
    await stand.create_topic("orders")
    consumer = await BareConsumer(stand, "billing", {"orders": 1}, fine).start()
    await stand.send("orders", b"later", properties="DELAY\x013\x02")
    assert (await stand.clock("advance", by_ms=9_000)).code == 0
    assert not consumer.seen
    assert (await stand.clock("advance", by_ms=1_500)).code == 0
    assert [record.body for record in consumer.seen] == [b"later"]
    await consumer.stop()


async def test_frozen_time_stands_and_runs_on(world: SimulatedWorld, stand: Stand) -> None:
    frozen = await stand.clock("freeze")
    await world.run_for(minutes=10)
    assert (await stand.clock("now")).message_ms == frozen.message_ms
    assert (await stand.send("orders")).code == 0
    await stand.clock("run")
    await world.run_for(seconds=5)
    assert 5_000 <= (await stand.clock("now")).message_ms - frozen.message_ms < 5_100


async def test_scaled_time_runs_faster(world: SimulatedWorld, stand: Stand) -> None:
    scaled = await stand.clock("scale", rate=60.0)
    await world.run_for(seconds=60)
    assert (await stand.clock("now")).message_ms - scaled.message_ms == pytest.approx(HOUR_MS, rel=0.01)


async def test_time_skips_by_itself_to_the_next_due_message(world: SimulatedWorld, stand: Stand) -> None:
    await stand.create_topic("orders")
    consumer = await BareConsumer(stand, "billing", {"orders": 1}, failing).start()
    await stand.clock("skip")
    await stand.send("orders", b"unpayable")
    began_ns = world.loop.uptime_ns
    await world.until(lambda: len(consumer.seen) == 17)
    assert world.loop.uptime_ns - began_ns < 10_000_000_000
    await consumer.stop()


async def test_a_queue_with_messages_and_no_owner_is_named(stand: Stand) -> None:
    await stand.create_topic("orders", queues=2)
    consumer = await BareConsumer(stand, "billing", {"orders": 1}, fine).start()  # It pulls queue 0 only.
    await stand.send("orders", queue_id=1)
    answer = await stand.clock("advance", by_ms=HOUR_MS, settle_ms_max=500)
    assert answer.code == NOT_AT_REST
    for words in ("billing", "queue 1 of orders on broker-a", "no member has pulled", "client-of-billing"):
        assert words in str(answer.remark)
    await consumer.stop()


async def test_time_stays_at_the_last_completed_step(stand: Stand) -> None:
    await stand.create_topic("orders", queues=2)
    before = (await stand.clock("now")).message_ms
    consumer = await BareConsumer(stand, "billing", {"orders": 1}, fine).start()
    await stand.send("orders", queue_id=1)
    await stand.clock("advance", by_ms=HOUR_MS, settle_ms_max=500)
    assert (await stand.clock("now")).message_ms - before < 5_000
    await consumer.stop()


async def test_a_listener_at_work_holds_the_jump(world: SimulatedWorld, stand: Stand) -> None:
    """What was delivered but neither committed nor sent back is named."""
    await stand.create_topic("orders")
    consumer = await BareConsumer(stand, "billing", {"orders": 1}, fine).start()
    world.freeze("consumer-billing")
    await stand.send("orders")
    answer = await stand.clock("advance", by_ms=HOUR_MS, settle_ms_max=500)
    assert answer.code == NOT_AT_REST
    assert "orders" in str(answer.remark)
    world.thaw("consumer-billing")
    assert (await stand.clock("advance", by_ms=HOUR_MS)).code == 0
    await consumer.stop()


async def test_a_broadcasting_group_is_at_rest_when_it_has_pulled(stand: Stand) -> None:
    await stand.create_topic("news")
    consumer = await BareConsumer(stand, "readers", {"news": 1}, fine, message_model="BROADCASTING").start()
    await stand.send("news")
    assert (await stand.clock("advance", by_ms=HOUR_MS, settle_ms_max=2_000)).code == 0
    await consumer.stop()


async def test_a_chain_over_two_brokers_comes_to_rest_link_by_link(stand: Stand) -> None:
    """Each order consumed on broker-a sends a delayed bill to broker-b, whose consumer fails once."""
    await stand.create_topic("orders", broker="broker-a")
    await stand.create_topic("bills", broker="broker-b")
    due: list[bytes] = []

    def order(record: StoredRecord) -> bool:
        due.append(record.body)
        return True

    orders = await BareConsumer(stand, "billing", {"orders": 1}, order).start()
    bills = await BareConsumer(stand, "paying", {"bills": 1}, lambda record: record.reconsume_times > 0).start()
    await stand.send("orders", b"1", properties="DELAY\x015\x02")
    await stand.send("bills", b"2", properties="DELAY\x016\x02", broker="broker-b")
    answer = await stand.clock("advance", by_ms=HOUR_MS)
    assert answer.code == 0, answer.remark
    assert due == [b"1"]
    assert [record.reconsume_times for record in bills.seen] == [0, 1]
    await orders.stop()
    await bills.stop()


async def test_both_brokers_show_the_same_time(stand: Stand) -> None:
    await stand.clock("freeze")
    for hours in (1, 2, 3):
        await stand.clock("advance", by_ms=hours * HOUR_MS)
        times = {service.state.clock.message_ms() for service in stand.services.values()}
        assert times == {(await stand.clock("now")).message_ms}


async def test_a_broker_killed_during_an_advance_continues_in_the_same_message_time(
    world: SimulatedWorld, stand: Stand
) -> None:
    await stand.create_topic("orders")
    consumer = await BareConsumer(stand, "billing", {"orders": 1}, failing).start()
    await stand.send("orders", b"unpayable")
    advance = world.loop.create_task(stand.clock("advance", by_ms=5 * HOUR_MS))
    await world.until(lambda: len(consumer.seen) == 6)
    killed_at_ms = stand.services["broker-a"].state.clock.message_ms()
    world.kill("broker-a")
    await world.run_for(seconds=1)
    await stand.start_broker("broker-a")
    assert stand.services["broker-a"].state.clock.message_ms() >= killed_at_ms
    answer = await advance
    assert answer.code == 0, answer.remark
    assert {record.reconsume_times for record in consumer.seen} == set(range(17))
    await consumer.stop()


async def test_a_new_broker_learns_the_time(world: SimulatedWorld, stand: Stand) -> None:
    await stand.clock("freeze")
    await stand.clock("advance", by_ms=9 * HOUR_MS)
    world.kill("broker-b")
    await stand.clock("advance", by_ms=HOUR_MS)
    await stand.start_broker("broker-b")
    assert stand.services["broker-b"].state.clock.message_ms() == (await stand.clock("now")).message_ms


async def test_a_restarted_nameserver_learns_the_time_from_its_brokers(world: SimulatedWorld, stand: Stand) -> None:
    await stand.clock("freeze")
    reported = await stand.clock("advance", by_ms=9 * HOUR_MS)
    world.kill("nameserver")
    await stand.start_nameserver()
    await world.run_for(seconds=5)
    assert (await stand.clock("now")).message_ms == reported.message_ms


async def test_the_past_is_refused(stand: Stand) -> None:
    now_ms = (await stand.clock("now")).message_ms
    answer = await stand.clock("advance", to_ms=now_ms - HOUR_MS)
    assert answer.code == INVALID
    assert str(now_ms - HOUR_MS) in str(answer.remark)
    assert (await stand.clock("advance", by_ms=-1)).code == INVALID
    assert (await stand.clock("advance")).code == INVALID
    assert (await stand.clock("scale", rate=0.0)).code == INVALID
    assert (await stand.clock("rewind")).code == INVALID


async def test_two_drivers_at_once_are_refused(world: SimulatedWorld, stand: Stand) -> None:
    await stand.create_topic("orders", queues=2)
    consumer = await BareConsumer(stand, "billing", {"orders": 1}, fine).start()
    await stand.send("orders", queue_id=1)
    first = world.loop.create_task(stand.clock("advance", by_ms=HOUR_MS, settle_ms_max=2_000))
    await world.run_for(ms=100)
    second = await stand.clock("advance", by_ms=HOUR_MS)
    assert second.code == CLOCK_BUSY
    assert (await first).code == NOT_AT_REST
    await consumer.stop()


async def test_brokers_that_are_ahead_are_followed_not_set_back(world: SimulatedWorld) -> None:
    """While the nameserver's request travels, brokers go on storing: 20 ms here."""
    stand = await Stand(world, brokers=2).start()
    await stand.create_topic("orders")
    for broker in stand.brokers:
        world.set_link("nameserver", broker, LinkQuality(delay_ms=20))
    await stand.send("orders")
    frozen = await stand.clock("freeze")
    assert frozen.code == 0, frozen.remark
    times = {service.state.clock.message_ms() for service in stand.services.values()}
    assert times == {frozen.message_ms}
    await stand.send("orders")
    assert (await stand.clock("advance", by_ms=HOUR_MS)).code == 0
    await stand.close()
