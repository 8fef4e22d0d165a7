"""Messages whose listener fails: sent back, delivered again, dead in the end; what happens when a broker is away."""

import errno

import pytest

from staticfire.client import ConsumeStatus, MessageModel
from staticfire.client.consume.results.consume_results import ConsumeContext
from staticfire.protocol.names import dead_letter_topic, retry_topic
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import GROUP, TOPIC, Heard, Messages, Shop, failing, forever, later

RETRY = retry_topic(GROUP)


@BOTH_PROTOCOLS
@pytest.mark.row("A1")
@pytest.mark.row("C2")
@pytest.mark.row("C4")
async def test_a_failed_message_comes_again_as_itself(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one", failing(times=1))
    await shop.send(b"unlucky", tags="paid", queue=1)
    await shop.until_heard(2)
    first, again = shop.heard
    assert 10_000 <= again.uptime_ms - first.uptime_ms < 10_300
    assert again.message.topic == first.message.topic == TOPIC
    assert again.context.queue.topic == RETRY
    assert again.message.message_id == first.message.message_id
    assert again.message.get("ORIGIN_MESSAGE_ID") == first.message.offset_message_id
    assert (again.message.tags, again.message.body) == ("paid", b"unlucky")
    assert (first.message.reconsume_times, again.message.reconsume_times) == (0, 1)
    await world.run_for(ms=50)
    assert shop.committed(1) == 1
    assert shop.is_committed(RETRY)


@pytest.mark.row("C8")
async def test_a_message_that_was_sent_back_is_progress(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one", later)
    await shop.send(b"1", b"2", b"3", queue=0)
    await world.until(lambda: shop.committed(0) == 3, within_ms=100)


@BOTH_PROTOCOLS
@pytest.mark.row("C4")
async def test_the_context_says_when_it_comes_again(world: SimulatedWorld, shop: Shop) -> None:
    async def soon_then_never(heard: Heard) -> ConsumeStatus:
        heard.context.delay_level_when_next_consume = 1 if heard.message.reconsume_times == 0 else -1
        return ConsumeStatus.RECONSUME_LATER

    await shop.start("one", soon_then_never)
    await shop.send(b"unlucky", queue=0)
    await shop.until_heard(2)
    assert 1_000 <= shop.heard[1].uptime_ms - shop.heard[0].uptime_ms < 1_300
    await world.run_for(ms=50)
    assert sum(shop.ends(dead_letter_topic(GROUP)).values()) == 1


@pytest.mark.row("C4")
@pytest.mark.parametrize("outcome", [None, "nonsense", ValueError("out of luck")], ids=repr)
async def test_whatever_is_no_success_is_retried(world: SimulatedWorld, shop: Shop, outcome: object) -> None:
    async def react(heard: Heard) -> ConsumeStatus | None:
        if heard.message.reconsume_times:
            return ConsumeStatus.CONSUME_SUCCESS
        if isinstance(outcome, Exception):
            raise outcome
        return outcome  # type: ignore[return-value]

    await shop.start("one", react)
    await shop.send(b"unlucky")
    await shop.until_heard(2, within_ms=11_000)


@pytest.mark.row("C4")
@pytest.mark.parametrize("outcome", [None, ValueError("out of luck")], ids=repr)
async def test_plain_functions_may_fail_too(world: SimulatedWorld, shop: Shop, outcome: Exception | None) -> None:
    consumer = shop.consumer("one")
    heard: list[int] = []

    @consumer.listener
    def listen(messages: Messages, context: ConsumeContext) -> ConsumeStatus | None:
        [message] = messages
        heard.append(message.reconsume_times)
        if message.reconsume_times == 0 and outcome is not None:
            raise outcome
        return ConsumeStatus.CONSUME_SUCCESS if message.reconsume_times else None

    await world.start("one", consumer)
    await shop.send(b"unlucky")
    await world.until(lambda: heard == [0, 1], within_ms=11_000)


async def test_a_listener_whose_own_awaiting_is_cancelled_has_failed(world: SimulatedWorld, shop: Shop) -> None:
    async def cancelled(heard: Heard) -> ConsumeStatus:
        if heard.message.reconsume_times == 0:
            future = world.loop.create_future()
            future.cancel()
            await future
        return ConsumeStatus.CONSUME_SUCCESS

    await shop.start("one", cancelled)
    await shop.send(b"unlucky")
    await shop.until_heard(2, within_ms=11_000)


@pytest.mark.row("C5")
async def test_of_a_batch_what_is_behind_the_ack_index_is_retried(world: SimulatedWorld, shop: Shop) -> None:
    async def five(heard: Heard) -> ConsumeStatus:
        heard.context.ack_index = 3
        return ConsumeStatus.CONSUME_SUCCESS

    bodies = [b"%d" % number for number in range(10)]
    await shop.send(*bodies, queue=0)
    await shop.start("one", five, consume_message_batch_max_size=10)
    await world.run_for(seconds=15)
    assert sorted(shop.bodies[:10]) == bodies
    assert sorted(shop.bodies[10:]) == bodies[4:]
    assert shop.committed(0) == 10


@pytest.mark.row("A2")
async def test_when_its_broker_is_away_a_message_goes_to_the_retries_of_another(
    world: SimulatedWorld, shop: Shop
) -> None:
    async def fail_once(heard: Heard) -> ConsumeStatus:
        if heard.message.reconsume_times == 0:
            world.kill("broker-a")
            await world.run_for(ms=50)
            return ConsumeStatus.RECONSUME_LATER
        return ConsumeStatus.CONSUME_SUCCESS

    await shop.start("one", fail_once)
    await shop.send(b"unlucky", tags="paid", queue=0)
    await shop.until_heard(2, within_ms=30_000)
    first, again = shop.heard
    assert again.context.queue == (RETRY, "broker-b", 0)
    assert 10_000 <= again.uptime_ms - first.uptime_ms < 15_000
    assert again.message.topic == TOPIC
    assert (again.message.tags, again.message.reconsume_times) == ("paid", 1)
    assert again.message.message_id == first.message.message_id
    assert again.message.get("ORIGIN_MESSAGE_ID") == first.message.offset_message_id


@pytest.mark.row("A2")
@pytest.mark.row("C7")
async def test_when_every_broker_is_away_it_is_consumed_here_again_and_holds_the_offset(
    world: SimulatedWorld, shop: Shop
) -> None:
    async def fail_twice(heard: Heard) -> ConsumeStatus:
        if heard.message.body == b"fine":
            return ConsumeStatus.CONSUME_SUCCESS
        if heard.message.reconsume_times == 0:
            world.isolate("one")
        return ConsumeStatus.RECONSUME_LATER if heard.message.reconsume_times < 2 else ConsumeStatus.CONSUME_SUCCESS

    await shop.send(b"unlucky", b"fine", queue=0)
    await shop.start("one", fail_twice)
    await shop.until_heard(4, within_ms=60_000)
    assert shop.bodies == [b"unlucky", b"fine", b"unlucky", b"unlucky"]
    assert [heard.message.reconsume_times for heard in shop.heard] == [2, 0, 2, 2], "one message, seen three times"
    assert shop.heard[2].uptime_ms - shop.heard[0].uptime_ms >= 5_000
    assert shop.committed(0) <= 0
    world.heal("one")
    await world.until(lambda: shop.committed(0) == 2, within_ms=60_000)


@pytest.mark.row("A2")
async def test_a_retry_that_its_broker_may_lose_does_not_count(world: SimulatedWorld) -> None:
    """The disk fails, so the retry is in memory only: it would be gone with the power."""
    shop = await Shop(world, broker_settings={"flush_disk_type": "SYNC_FLUSH"}).open(brokers=1, queues=1)

    def fail(what: str, path: str) -> None:
        if what == "sync" and "commitlog" in path:
            raise OSError(errno.EIO, "Input/output error")

    async def fail_once(heard: Heard) -> ConsumeStatus:
        if len(shop.heard) > 1:
            return ConsumeStatus.CONSUME_SUCCESS
        world.disk("broker-a").before = fail
        return ConsumeStatus.RECONSUME_LATER

    await shop.start("one", fail_once)
    await shop.send(b"unlucky")
    await shop.until_heard(1)
    await world.run_for(seconds=12)
    world.kill("broker-a", power_loss=True)
    world.disk("broker-a").before = None
    await shop.start_broker("broker-a")
    await shop.until_heard(2, within_ms=60_000)
    await shop.close()


@pytest.mark.row("A5")
async def test_after_the_last_retry_it_is_dead(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one", later, max_reconsume_times=2)
    await shop.send(b"unlucky")
    await world.run_for(minutes=3)
    assert [heard.message.reconsume_times for heard in shop.heard] == [0, 1, 2]
    assert sum(shop.ends(dead_letter_topic(GROUP)).values()) == 1


@BOTH_PROTOCOLS
@pytest.mark.row("A7")
@pytest.mark.row("S1")
async def test_the_whole_road_to_the_dead_letters_in_skipped_time(world: SimulatedWorld, shop: Shop) -> None:
    """Sixteen retries: 4 h 45 min 40 s of message time, in a few seconds of uptime."""
    await shop.start("one", later)
    await shop.start("two", later)
    await world.run_for(ms=300)
    await shop.send(*[b"%d" % number for number in range(20)])
    began_ms = world.uptime_ms
    await shop.advance(hours=5)
    assert len(shop.heard) == 20 * 17
    assert sorted({heard.message.reconsume_times for heard in shop.heard}) == list(range(17))
    assert sum(shop.ends(dead_letter_topic(GROUP)).values()) == 20
    assert world.uptime_ms - began_ms < 10_000


@pytest.mark.row("S1")
async def test_a_jump_waits_for_slow_listeners(world: SimulatedWorld, shop: Shop) -> None:
    async def slowly(_: Heard) -> ConsumeStatus:
        await world.run_for(seconds=2)
        return ConsumeStatus.CONSUME_SUCCESS

    await shop.start("one", slowly)
    await shop.send(b"slow", b"slow", b"slow")
    began_ms = world.uptime_ms
    await shop.advance(hours=1)
    assert len(shop.heard) == 3
    assert world.uptime_ms - began_ms >= 1_900


@pytest.mark.row("C7")
async def test_broadcasting_drops_what_fails(world: SimulatedWorld, shop: Shop) -> None:
    consumer = await shop.start("one", later, message_model=MessageModel.BROADCASTING)
    await shop.send(b"1", b"2", queue=0)
    await world.run_for(seconds=30)
    assert shop.bodies == [b"1", b"2"]
    assert not any(consumer.cached.values())


@pytest.mark.row("C12")
async def test_a_message_in_a_killed_listener_is_delivered_to_another_member(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one", forever)
    await shop.start("two", forever)
    await world.run_for(ms=300)
    await shop.send_many(16)
    await shop.until_heard(16)
    world.kill("one")
    in_work = shop.bodies_of("one")
    await shop.until_heard(16 + len(in_work), within_ms=1_000)
    assert sorted(shop.bodies[16:]) == sorted(in_work)
