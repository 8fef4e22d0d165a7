"""A consumer group at work: every message is heard, shares follow the members, progress is committed."""

import pytest

from staticfire.client import (
    ClusterClient,
    ConsumeFromWhere,
    ConsumeStatus,
    MessageQueue,
    PushConsumer,
)
from staticfire.protocol.errors import ClientError, ConnectFailed, UsageError
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC, Heard, Shop, forever, taking


@BOTH_PROTOCOLS
@pytest.mark.row("C12")
@pytest.mark.row("R2")
async def test_undisturbed_each_message_is_delivered_exactly_once(world: SimulatedWorld, shop: Shop) -> None:
    consumers = [await shop.start(who) for who in ("one", "two", "three")]
    await world.run_for(ms=300)
    bodies = await shop.send_many(500)
    await shop.until_heard(500)
    await world.run_for(seconds=30)
    assert sorted(shop.bodies) == sorted(bodies)
    shares = [[queue for queue in consumer.assignment if queue.topic == TOPIC] for consumer in consumers]
    assert sorted(map(len, shares)) == [2, 3, 3]
    assert shop.is_committed()


@BOTH_PROTOCOLS
@pytest.mark.row("F1")
async def test_a_drained_queue_is_committed_at_once(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one")
    await shop.send(b"a", b"b", queue=2)
    await shop.until_heard(2)
    await world.until(lambda: shop.committed(2) == 2, within_ms=20)


@pytest.mark.row("H2")
@pytest.mark.row("R6")
async def test_a_consumer_is_ready_when_it_is_entered(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(b"waiting")
    began_ms = world.uptime_ms
    consumer = await shop.start("one")
    assert len(consumer.assignment) == 8 + 2
    await shop.until_heard(1)
    assert world.uptime_ms - began_ms < 100
    for broker in shop.brokers.values():
        [member] = broker.tables.groups.consumers.consumer_table[GROUP].channel_info_table.values()
        assert member.client_id == consumer.client.client_id


@pytest.mark.row("H5")
@pytest.mark.row("R4")
async def test_a_newcomer_gets_its_share_at_once(world: SimulatedWorld, shop: Shop) -> None:
    changes: list[tuple[str, int, int]] = []
    first = shop.consumer("one")

    @first.on_queues_changed
    def changed(topic: str, queues: list[MessageQueue], own: list[MessageQueue]) -> None:
        changes.append((topic, len(queues), len(own)))

    await world.start("one", first)
    second = await shop.start("two")
    await world.run_for(ms=200)
    owned = first.assignment + second.assignment
    assert len(owned) == len(set(owned)) == 10
    assert {len(first.assignment), len(second.assignment)} == {5}
    assert sorted(changes[:2]) == [(f"%RETRY%{GROUP}", 2, 2), (TOPIC, 8, 8)]
    assert sorted(changes[2:]) == [(f"%RETRY%{GROUP}", 2, 1), (TOPIC, 8, 4)]


@pytest.mark.row("R4")
async def test_a_consumer_that_unsubscribes_is_notified_that_it_has_no_queues_now(
    world: SimulatedWorld, shop: Shop
) -> None:
    changes: list[tuple[str, int, int]] = []
    consumer = shop.consumer("one")
    consumer.on_queues_changed(lambda topic, queues, own: changes.append((topic, len(queues), len(own))))
    await world.start("one", consumer)
    changes.clear()
    consumer.unsubscribe(TOPIC)
    await world.run_for(seconds=1)
    assert changes == [(TOPIC, 0, 0)]


@pytest.mark.row("P2")
async def test_the_limit_of_a_topic_is_shared_by_the_queues_that_a_member_has(
    world: SimulatedWorld, shop: Shop
) -> None:
    await shop.send_many(400)
    settings = {"consume_from_where": ConsumeFromWhere.FIRST_OFFSET, "pull_threshold_for_topic": 100}
    first = await shop.start("one", forever, pull_batch_size=1, **settings)
    await world.run_for(seconds=1)
    assert set(cached_of_topic(first)) == {11}, "a tenth of the limit, and the message that exceeded it"
    second = await shop.start("two", forever, pull_batch_size=1, **settings)
    await world.run_for(seconds=1)
    assert set(cached_of_topic(first) + cached_of_topic(second)) == {21}


def cached_of_topic(consumer: PushConsumer) -> list[int]:
    """Return how many messages of each queue of the topic a consumer has cached."""
    return [count for queue, count in consumer.cached.items() if queue.topic == TOPIC]


@BOTH_PROTOCOLS
async def test_who_leaves_gives_its_queues_back_and_nothing_comes_twice(world: SimulatedWorld, shop: Shop) -> None:
    first, second = await shop.start("one"), await shop.start("two")
    await world.run_for(ms=300)
    bodies = await shop.send_many(200)
    await shop.until_heard(200)
    await world.stop("one")
    await world.run_for(ms=300)
    assert (len(first.assignment), len(second.assignment)) == (0, 10)
    more = [body + b"!" for body in bodies]
    await shop.send(*more)
    await shop.until_heard(400)
    await world.run_for(seconds=20)
    assert sorted(shop.bodies) == sorted(bodies + more)


@BOTH_PROTOCOLS
@pytest.mark.row("C12")
async def test_who_dies_in_mid_listener_leaves_its_messages_to_another(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one", forever)
    bodies = await shop.send_many(40)
    await shop.until_heard(20)
    second = await shop.start("two")
    await world.run_for(ms=200)
    world.kill("one")
    await shop.world.until(lambda: sorted(shop.bodies_of("two")) == sorted(bodies))
    assert len(second.assignment) == 10


@pytest.mark.row("R4")
@pytest.mark.row("C6")
async def test_results_of_a_lost_queue_count_for_nothing(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one", taking(world, 5_000))
    await shop.send_many(16)
    await shop.until_heard(16)
    await shop.start("two", taking(world, 20_000))
    await world.run_for(ms=6_000)
    lost = [heard for heard in shop.heard if heard.who == "two"]
    assert lost
    for heard in lost:
        queue = heard.context.queue
        assert shop.committed(queue.queue_id, broker=queue.broker_name) <= heard.message.queue_offset


@BOTH_PROTOCOLS
@pytest.mark.row("F1")
async def test_offsets_survive_a_restart_of_everything(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one")
    await shop.send_many(100)
    await shop.until_heard(100)
    await world.stop("one")
    for name in ("broker-a", "broker-b"):
        await world.stop(name)
        await shop.start_broker(name)
    await world.run_for(seconds=31)
    await shop.start("one")
    await shop.send(b"new")
    await shop.until_heard(101)
    await world.run_for(seconds=20)
    assert shop.bodies[100:] == [b"new"]


async def test_stopped_in_the_middle_nothing_is_lost(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one", taking(world, 7))
    bodies = await shop.send_many(600)
    await shop.until_heard(150)
    await world.stop("one")
    assert len(shop.bodies) < 600
    await shop.start("two")
    await world.until(lambda: set(shop.bodies) == set(bodies))
    await world.run_for(seconds=20)
    assert sorted(shop.bodies) == sorted(bodies), "listeners that ran were waited for, so nothing comes twice"


async def test_leaving_gives_up_on_a_listener_that_hangs(world: SimulatedWorld, shop: Shop) -> None:
    consumer = await shop.start("one", forever, await_termination_ms=2_000)
    await shop.send(b"hangs")
    await shop.until_heard(1)
    began_ms = world.uptime_ms
    await world.stop("one")
    assert 2_000 <= world.uptime_ms - began_ms < 2_100
    assert consumer.assignment == []
    await shop.start("two")
    await shop.until_heard(2)
    assert shop.bodies_of("two") == [b"hangs"]


@BOTH_PROTOCOLS
async def test_tags_are_compared_by_value(world: SimulatedWorld, shop: Shop) -> None:
    """Aa and BB have one hash code in Java: the broker sends both, the consumer drops one and goes past it."""
    await shop.start("one", expression="Aa || paid")
    await shop.send(b"1", tags="Aa", queue=0)
    await shop.send(b"2", tags="paid", queue=0)
    await shop.send(b"3", tags="sent", queue=0)
    await shop.send(b"4", tags="BB", queue=0)
    await shop.until_heard(2)
    await world.run_for(seconds=10)
    assert shop.bodies == [b"1", b"2"]
    assert shop.committed(0) == 4


@BOTH_PROTOCOLS
async def test_a_consumer_that_resumes_hears_what_its_held_pulls_find(world: SimulatedWorld, shop: Shop) -> None:
    consumer = await shop.start("one")
    await world.run_for(ms=200)
    consumer.suspend()
    await world.run_for(ms=200)
    consumer.resume()
    await shop.send_many(20)
    await shop.until_heard(20, within_ms=100)
    await world.run_for(seconds=20)
    assert len(shop.bodies) == 20


async def test_a_suspended_consumer_hears_nothing_until_it_resumes(world: SimulatedWorld, shop: Shop) -> None:
    consumer = await shop.start("one")
    await shop.send(b"1")
    await shop.until_heard(1)
    consumer.suspend()
    await shop.send(b"held pull", b"held pull", b"held pull", b"held pull")
    await world.run_for(seconds=40)
    await shop.send_many(100)
    await world.run_for(seconds=40)
    assert shop.bodies == [b"1"]
    began_ms = world.uptime_ms
    consumer.resume()
    await shop.until_heard(105)
    assert world.uptime_ms - began_ms < 100


@pytest.mark.row("C1")
async def test_the_number_of_listeners_changes_at_run_time(world: SimulatedWorld, shop: Shop) -> None:
    running = 0
    seen: list[int] = []

    async def counted(_: Heard) -> ConsumeStatus:
        nonlocal running
        running += 1
        seen.append(running)
        await world.run_for(ms=100)
        running -= 1
        return ConsumeStatus.CONSUME_SUCCESS

    consumer = await shop.start("one", counted, consume_threads=5)
    await shop.send_many(300)
    await shop.until_heard(50)
    assert max(seen) == 5
    consumer.update_consume_threads(12)
    await shop.until_heard(200)
    assert max(seen) == consumer.consume_threads == 12
    consumer.update_consume_threads(2)
    await shop.until_heard(240)
    seen.clear()
    await shop.until_heard(300)
    assert max(seen) == 2
    for threads in (0, 1_001):
        with pytest.raises(ClientError, match=f"{threads} consume threads: the number must be 1 to 1000"):
            consumer.update_consume_threads(threads)


async def test_a_plain_function_listens_in_threads(world: SimulatedWorld, shop: Shop) -> None:
    consumer = shop.consumer("one")
    heard: list[bytes] = []

    @consumer.listener
    def listen(messages: object, context: object) -> ConsumeStatus:
        heard.extend(message.body for message in messages)  # type: ignore[attr-defined]
        return ConsumeStatus.CONSUME_SUCCESS

    await world.start("one", consumer)
    bodies = await shop.send_many(200)
    await world.until(lambda: len(heard) == 200, within_ms=5_000)
    assert sorted(heard) == sorted(bodies)
    await world.until(shop.is_committed, within_ms=100)


@pytest.mark.row("C1")
async def test_a_batch_is_as_large_as_requested(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send_many(100)
    await shop.start("one", consume_message_batch_max_size=10)
    await shop.until_heard(100)
    sizes = [len(heard.messages) for heard in shop.heard]
    assert max(sizes) == 10
    assert all(isinstance(heard.messages, tuple) for heard in shop.heard)
    await world.until(shop.is_committed, within_ms=100)


@pytest.mark.row("R8")
async def test_queues_of_an_unsubscribed_topic_are_given_back(world: SimulatedWorld, shop: Shop) -> None:
    consumer = await shop.start("one")
    consumer.unsubscribe(TOPIC)
    await world.run_for(ms=300)
    assert {queue.topic for queue in consumer.assignment} == {f"%RETRY%{GROUP}"}
    await shop.send(b"unheard")
    await world.run_for(seconds=5)
    assert not shop.bodies
    consumer.subscribe(TOPIC)
    await shop.until_heard(1, within_ms=1_000)


@pytest.mark.row("R1")
async def test_a_topic_that_comes_to_be_later_is_found(world: SimulatedWorld, shop: Shop) -> None:
    consumer = await shop.start("one", topic="later")
    assert {queue.topic for queue in consumer.assignment} == {f"%RETRY%{GROUP}"}
    await world.run_for(seconds=5)
    await shop.admin.create_topic("later", queues=2)
    await world.run_for(seconds=2)
    await shop.send(b"here", topic="later", queue=1)
    await shop.until_heard(1, within_ms=100)


async def test_new_queues_of_a_topic_are_taken_when_the_route_is_fetched_again(
    world: SimulatedWorld, shop: Shop
) -> None:
    consumer = await shop.start("one")
    await shop.admin.create_topic(TOPIC, queues=6)
    await world.run_for(seconds=32)
    assert len(consumer.assignment) == 12 + 2


@pytest.mark.row("R1")
@pytest.mark.row("R3")
async def test_a_strategy_that_fails_leaves_its_topic_as_it_is(world: SimulatedWorld, shop: Shop) -> None:
    class Moody:
        name = "MOODY"
        fails = False

        def allocate(
            self, group: str, client_id: str, queues: list[MessageQueue], client_ids: list[str]
        ) -> list[MessageQueue]:
            if self.fails and queues[0].topic == TOPIC:
                raise ZeroDivisionError("out of luck")
            return queues[: 4 if len(client_ids) == 1 else 1]

    moody = Moody()
    consumer = await shop.start("one", allocate_strategy=moody)
    assert len(consumer.assignment) == 4 + 2
    moody.fails = True
    await shop.start("two")
    await world.run_for(seconds=3)
    assert len([queue for queue in consumer.assignment if queue.topic == TOPIC]) == 4
    assert len([queue for queue in consumer.assignment if queue.topic != TOPIC]) == 1


async def test_a_group_is_once_in_a_client(world: SimulatedWorld, shop: Shop) -> None:
    machine = world.machine("one", host="10.0.3.1")
    async with ClusterClient(NAMESRV, machine=machine) as client:
        first, again, other = (PushConsumer(group, client=client) for group in (GROUP, GROUP, "other"))
        for consumer in (first, again, other):
            consumer.subscribe(TOPIC)
            consumer.listener(lambda messages, context: ConsumeStatus.CONSUME_SUCCESS)
        async with first, other:
            with pytest.raises(ClientError, match=r"a consumer of group billing has been created before"):
                await again.__aenter__()
            assert len(first.assignment) == len(other.assignment) == 10
            assert shop.brokers["broker-a"].tables.groups.consumers.client_ids(GROUP) == [client.client_id]


async def test_what_is_missing_is_said_at_the_start(world: SimulatedWorld, shop: Shop) -> None:
    machine = world.machine("one", host="10.0.3.1")
    with pytest.raises(ClientError, match=r"has no listener: decorate one with @consumer.listener first"):
        await PushConsumer(GROUP, NAMESRV, machine=machine).__aenter__()
    lonely = PushConsumer(GROUP, "10.0.9.9:9876", machine=machine)
    lonely.subscribe(TOPIC)
    with pytest.raises(ClientError, match="the listener of billing is not a function: 'bill'"):
        lonely.listener("bill")  # type: ignore[type-var]
    with pytest.raises(ClientError, match=r'namesrv=9876 is not an address; write namesrv="127\.0\.0\.1:9876"'):
        PushConsumer(GROUP, 9876, machine=machine)  # type: ignore[arg-type]
    lonely.listener(lambda messages, context: None)
    with pytest.raises(ConnectFailed, match="no nameserver responds"):
        await lonely.__aenter__()
    with pytest.raises(ClientError, match="illegal"):
        lonely.subscribe("no blanks")
    with pytest.raises(ClientError, match="contains no tag"):
        lonely.subscribe(TOPIC, "||")
    with pytest.raises(ClientError, match="belongs to RocketMQ"):
        PushConsumer("DEFAULT_CONSUMER", NAMESRV, machine=machine)
    with pytest.raises(UsageError):
        PushConsumer(GROUP, "nonsense:port", machine=machine)
