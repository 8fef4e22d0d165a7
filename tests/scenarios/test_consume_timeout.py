"""Messages whose listener takes too long: they go back to the broker, and their queue goes on."""

import asyncio

import pytest

from staticfire.client import ConsumeStatus, MessageModel
from staticfire.protocol.errors import ClientError
from staticfire.simulation.world import LinkQuality, SimulatedWorld
from tests.scenarios.consuming import GROUP, TOPIC, Heard, Reaction, Shop

RETRY = f"%RETRY%{GROUP}"


def hanging(*bodies: bytes, then: ConsumeStatus = ConsumeStatus.CONSUME_SUCCESS, seconds: float = 10_000) -> Reaction:
    """Return a listener that hangs with these the first time, and then says something."""

    async def listen(heard: Heard) -> ConsumeStatus:
        if heard.message.body in bodies and heard.message.reconsume_times == 0:
            await asyncio.sleep(seconds)  # house: a listener that takes its time, which is virtual
            return then
        return ConsumeStatus.CONSUME_SUCCESS

    return listen


def heard_at(shop: Shop, body: bytes) -> list[int]:
    return [heard.uptime_ms for heard in shop.heard if heard.message.body == body]


@pytest.mark.row("C9")
async def test_a_message_is_sent_back_when_its_own_time_is_over(world: SimulatedWorld, shop: Shop) -> None:
    consumer = await shop.start("one", hanging(b"0", b"1", b"2"), consume_timeout_ms=60_000)
    began_ms = []
    for number in range(3):
        await shop.send(b"%d" % number, queue=0)
        await shop.until_heard(number + 1)
        began_ms.append(world.uptime_ms)
        await world.run_for(ms=7_000)
    await shop.send(b"3", b"4", queue=0)
    await shop.until_heard(5)
    queue = shop.heard[0].context.queue
    for number, began in enumerate(began_ms):
        left = 2 - number
        await world.until(lambda left=left: consumer.cached[queue] == left)  # type: ignore[misc]
        assert 60_000 <= world.uptime_ms - began <= 60_010
    await world.until(lambda: shop.committed() == 5, within_ms=100)
    await shop.until_heard(8)
    for number, began in enumerate(began_ms):
        _, again_ms = heard_at(shop, b"%d" % number)
        assert 70_000 <= again_ms - began <= 70_200, "the third delay level is 10 s"
    assert [heard.message.reconsume_times for heard in shop.heard] == [0] * 5 + [1] * 3


@pytest.mark.row("C9")
async def test_in_rocketmqs_way_it_is_found_late_and_only_at_the_head(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one", hanging(b"2", b"4"), consume_timeout_ms=60_000, consume_timeout_scans=True)
    for number in range(6):
        await shop.send(b"%d" % number, queue=0)
        await world.run_for(ms=10)
    began_ms = world.uptime_ms
    await world.run_for(ms=60_000)
    assert shop.committed() == 2, "a first look, too early for both"
    await world.run_for(ms=59_000)
    assert shop.committed() == 2
    await world.run_for(ms=1_100)
    assert shop.committed() == 6, "the second look finds the head, and then the next one"
    await shop.until_heard(8)
    assert {heard.uptime_ms - began_ms > 129_000 for heard in shop.heard[6:]} == {True}


@pytest.mark.row("C9")
async def test_one_look_of_rocketmqs_way_is_at_sixteen_messages(world: SimulatedWorld, shop: Shop) -> None:
    bodies = [b"%d" % number for number in range(20)]
    await shop.start("one", hanging(*bodies), consume_timeout_ms=60_000, consume_timeout_scans=True)
    await shop.send(*bodies, queue=0)
    await world.run_for(ms=121_000)
    assert shop.committed() == 16
    await world.run_for(ms=60_000)
    assert shop.committed() == 20


@pytest.mark.row("C9")
async def test_another_timeout_counts_at_once_also_for_what_has_begun(world: SimulatedWorld, shop: Shop) -> None:
    consumer = await shop.start("one", hanging(b"0", b"1"))
    await shop.send(b"0", queue=0)
    await world.run_for(ms=30_000)
    await shop.send(b"1", queue=1)
    await world.run_for(ms=10_000)
    assert (shop.committed(0), shop.committed(1)) == (-1, 0)
    consumer.update_consume_timeout(20_000)
    await world.run_for(ms=10)
    assert (shop.committed(0), shop.committed(1)) == (1, 0)
    await world.run_for(ms=10_000)
    assert shop.committed(1) == 1
    consumer.update_consume_timeout(1_000_000)
    await shop.send(b"2", queue=0)
    with pytest.raises(ClientError, match="a consume timeout of 0 ms: it must be at least 1 ms"):
        consumer.update_consume_timeout(0)


@pytest.mark.row("C9")
async def test_another_timeout_counts_for_messages_that_arrive_after_it(world: SimulatedWorld, shop: Shop) -> None:
    consumer = await shop.start("one", hanging(b"1"))
    await shop.send(b"0", queue=0)
    await world.run_for(seconds=1)
    consumer.update_consume_timeout(1_000)
    await shop.send(b"1", queue=0)
    await world.until(lambda: shop.committed() == 2, within_ms=1_100)


@pytest.mark.row("C9")
@pytest.mark.parametrize("then", [ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.RECONSUME_LATER])
async def test_what_a_listener_says_of_a_message_that_was_sent_back_counts_for_nothing(
    world: SimulatedWorld, shop: Shop, then: ConsumeStatus
) -> None:
    await shop.start("one", hanging(b"0", then=then, seconds=40), consume_timeout_ms=30_000)
    await shop.send(b"0", b"1", queue=0)
    await shop.until_heard(3)
    await world.run_for(seconds=60)
    assert shop.bodies == [b"0", b"1", b"0"]
    assert shop.committed() == 2
    retries = sum(broker.state.store.queue(RETRY, 0).max_offset for broker in shop.brokers.values())
    assert retries == 1


@pytest.mark.row("C9")
async def test_no_broker_takes_it_and_it_is_tried_again_while_its_listener_runs(
    world: SimulatedWorld, shop: Shop
) -> None:
    await shop.start("one", hanging(b"0"), consume_timeout_ms=30_000)
    await shop.send(b"0", queue=0)
    await world.run_for(seconds=5)
    for name in shop.brokers:
        world.freeze(name)
    await world.run_for(seconds=60)
    assert shop.bodies == [b"0"]
    for name in shop.brokers:
        world.thaw(name)
    await shop.until_heard(2)
    await world.run_for(seconds=60)
    assert shop.committed() == 1


@pytest.mark.row("C9")
async def test_a_broker_that_dies_between_the_send_back_and_its_answer_loses_nothing(
    world: SimulatedWorld, shop: Shop
) -> None:
    consumer = shop.consumer("one", hanging(b"0"), consume_timeout_ms=30_000)
    world.set_link("one", "broker-a", LinkQuality(delay_ms=50))
    await world.start("one", consumer)
    await shop.send(b"0", b"1", queue=0)
    await shop.until_heard(2)
    await world.run_for(ms=30_060)
    stored = shop.brokers["broker-a"].state.store.queue("SCHEDULE_TOPIC_XXXX", 2).max_offset
    assert stored == 1, "it has the message, and its answer is under way"
    world.kill("broker-a")
    await world.run_for(ms=100)
    await shop.start_broker("broker-a")
    await shop.until_heard(3)
    await world.run_for(seconds=60)
    assert set(shop.bodies[2:]) == {b"0"}, "once more, or twice: the other broker took it, too"
    assert shop.committed() == 2


@pytest.mark.row("C9")
async def test_in_broadcasting_it_is_dropped(world: SimulatedWorld, shop: Shop) -> None:
    model = MessageModel.BROADCASTING
    consumer = await shop.start("one", hanging(b"0"), consume_timeout_ms=30_000, message_model=model)
    await shop.send(b"0", b"1", queue=0)
    await world.run_for(seconds=29)
    assert consumer.cached[shop.heard[0].context.queue] == 1
    await world.run_for(seconds=2)
    assert consumer.cached[shop.heard[0].context.queue] == 0
    await world.run_for(seconds=60)
    assert sorted(shop.bodies) == [b"0", b"1"]


async def killed_with_a_stuck_message(world: SimulatedWorld, shop: Shop, **settings: object) -> list[bytes]:
    """Consume a hundred messages, of which the first gets stuck; kill the consumer; return what another one hears."""
    await shop.start("one", hanging(b"0"), **settings)
    await shop.send(*[b"%d" % number for number in range(100)], queue=0)
    await shop.until_heard(100)
    await world.run_for(seconds=50)
    world.kill("one")
    shop.heard.clear()
    await shop.start("two")
    await world.run_for(seconds=200)
    assert shop.is_committed()
    return shop.bodies


@pytest.mark.row("C10")
async def test_a_stuck_message_makes_its_neighbours_come_again_after_a_kill(world: SimulatedWorld, shop: Shop) -> None:
    assert len(await killed_with_a_stuck_message(world, shop)) == 100


@pytest.mark.row("C10")
async def test_a_stuck_message_that_is_resent_in_time_comes_again_alone(world: SimulatedWorld, shop: Shop) -> None:
    assert await killed_with_a_stuck_message(world, shop, resend_after_ms=45_000) == [b"0"]


@pytest.mark.row("C10")
async def test_a_message_that_ends_in_time_is_not_resent(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one", hanging(b"0", seconds=29), resend_after_ms=30_000)
    await shop.send(b"0", queue=0)
    await world.run_for(seconds=200)
    assert shop.bodies == [b"0"]
    assert shop.is_committed()


@pytest.mark.row("C1")
async def test_a_stuck_pool_can_be_given_more_listeners(world: SimulatedWorld, shop: Shop) -> None:
    consumer = await shop.start("one", hanging(b"0", b"1"), consume_threads=2)
    await shop.send(b"0", b"1", b"2", queue=0)
    await world.run_for(seconds=5)
    assert sorted(shop.bodies) == [b"0", b"1"]
    consumer.inc_consume_threads()
    await shop.until_heard(3, within_ms=100)
    consumer.dec_consume_threads(2)
    assert consumer.consume_threads == 1
    with pytest.raises(ClientError, match="must be 1 to 1000"):
        consumer.dec_consume_threads()
    assert TOPIC in {queue.topic for queue in consumer.assignment}
