"""Push consumers whose queues are assigned by brokers, and popped."""

from collections import Counter
from typing import Any

import pytest

from staticfire.client import (
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    MessageModel,
    MessageQueue,
    PushConsumer,
)
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.errors import ClientError, NoPermission
from staticfire.protocol.requests.clients import HeartbeatAnswer
from staticfire.runtime.dispatcher import Handler
from staticfire.simulation.world import SimulatedWorld
from tests.cases import slow
from tests.protocols import BOTH_PROTOCOLS, NATIVE, ROCKETMQ
from tests.scenarios.consuming import GROUP, TOPIC, Heard, Reaction, Shop, failing, forever, later, taking
from tests.scenarios.receiving import receive_all, simple

INVISIBLE_MS = 5_000
HELD_MS = 2_000
EVERYTHING = [MessageQueue(TOPIC, broker, -1) for broker in ("broker-a", "broker-b")]
DEAD = f"%DLQ%{GROUP}"

pytestmark = pytest.mark.row("G2")


async def pop(shop: Shop, who: str, reaction: Reaction | None = None, **settings: Any) -> PushConsumer:
    """Start a member that pops."""
    settings = {
        "client_rebalance": False, "consume_from_where": ConsumeFromWhere.FIRST_OFFSET,
        "pop_invisible_time_ms": INVISIBLE_MS, "broker_suspend_max_ms": HELD_MS,
    } | settings  # fmt: skip
    return await shop.start(who, reaction, **settings)


async def popped_by_brokers(shop: Shop, share: int = 0) -> None:
    await shop.admin.set_consume_mode(TOPIC, GROUP, "POP", share)


def own(consumer: PushConsumer) -> list[MessageQueue]:
    return [queue for queue in consumer.assignment if queue.topic == TOPIC]


def dead_letters(shop: Shop) -> int:
    return sum(shop.ends(DEAD).values())


@BOTH_PROTOCOLS
async def test_members_pop_the_same_queues_and_each_message_is_consumed_once(world: SimulatedWorld, shop: Shop) -> None:
    await popped_by_brokers(shop)
    members = [await pop(shop, who) for who in ("one", "two", "three")]
    assert [own(member) for member in members] == [EVERYTHING] * 3
    bodies = await shop.send_many(300)
    await shop.until_heard(300)
    await world.run_for(ms=3 * INVISIBLE_MS)
    assert sorted(shop.bodies) == sorted(bodies)
    assert {heard.message.topic for heard in shop.heard} == {TOPIC}
    assert all(sum(member.cached.values()) == 0 for member in members)
    sent_ms = world.uptime_ms
    await shop.send(b"late", queue=2)
    await shop.until_heard(301)
    assert shop.heard[-1].uptime_ms - sent_ms < 50, "a held pop is answered as soon as there is a message"


@BOTH_PROTOCOLS
async def test_a_message_whose_listener_fails_comes_again_later_each_time(world: SimulatedWorld, shop: Shop) -> None:
    await popped_by_brokers(shop)
    await pop(shop, "one", failing(times=2))
    await shop.send(b"x", tags="paid")
    await shop.until_heard(3, within_ms=120_000)
    first, second, third = shop.heard
    assert [heard.message.reconsume_times for heard in shop.heard] == [0, 1, 2]
    assert {(heard.message.topic, heard.message.tags) for heard in shop.heard} == {(TOPIC, "paid")}
    assert 10_000 <= second.uptime_ms - first.uptime_ms <= 10_000 + 2 * HELD_MS
    assert 30_000 <= third.uptime_ms - second.uptime_ms <= 30_000 + 2 * HELD_MS
    await world.run_for(minutes=5)
    assert len(shop.heard) == 3


async def test_a_listener_that_raises_has_failed(world: SimulatedWorld, shop: Shop) -> None:
    async def raise_once(heard: Heard) -> ConsumeStatus:
        if heard.message.reconsume_times == 0:
            raise ZeroDivisionError("on purpose")
        return ConsumeStatus.CONSUME_SUCCESS

    await popped_by_brokers(shop)
    await pop(shop, "one", raise_once)
    await shop.send(b"x")
    await shop.until_heard(2)
    assert shop.heard[1].uptime_ms - shop.heard[0].uptime_ms >= 10_000


@BOTH_PROTOCOLS
async def test_what_fails_too_often_is_a_dead_letter(world: SimulatedWorld, shop: Shop) -> None:
    await popped_by_brokers(shop)
    await pop(shop, "one", later, max_reconsume_times=2)
    await shop.send(b"poison", tags="paid")
    await shop.until_heard(3, within_ms=120_000)
    await world.run_for(minutes=10)
    assert ([heard.message.reconsume_times for heard in shop.heard], dead_letters(shop)) == ([0, 1, 2], 1)


async def test_a_listener_buries_a_message(world: SimulatedWorld, shop: Shop) -> None:
    async def bury(heard: Heard) -> ConsumeStatus:
        heard.context.delay_level_when_next_consume = -1
        return ConsumeStatus.RECONSUME_LATER

    await popped_by_brokers(shop)
    await pop(shop, "one", bury)
    await shop.send(b"poison")
    await shop.until_heard(1)
    await world.run_for(minutes=2)
    assert (len(shop.heard), dead_letters(shop)) == (1, 1)


async def test_rocketmqs_way_drops_what_fails_too_often(world: SimulatedWorld, shop: Shop) -> None:
    await popped_by_brokers(shop)
    await pop(shop, "one", later, max_reconsume_times=1, pop_dead_letters=False)
    await shop.send(b"poison")
    await world.run_for(minutes=3)
    assert ([heard.message.reconsume_times for heard in shop.heard], dead_letters(shop)) == ([0, 1], 0)


@BOTH_PROTOCOLS
async def test_a_member_that_dies_holds_up_nothing_but_what_it_has(world: SimulatedWorld, shop: Shop) -> None:
    await popped_by_brokers(shop)
    await pop(shop, "one", forever)
    await shop.send(b"a", b"b", b"c", queue=0)
    await shop.until_heard(3)
    died_ms = world.uptime_ms
    world.kill("one")
    await pop(shop, "two")
    await shop.send(b"d", queue=0)
    await shop.until_heard(4)
    assert shop.bodies_of("two") == [b"d"]
    await shop.until_heard(7)
    assert sorted(shop.bodies_of("two")) == [b"a", b"b", b"c", b"d"]
    assert world.uptime_ms - died_ms <= INVISIBLE_MS + 2 * HELD_MS
    await world.run_for(ms=3 * INVISIBLE_MS)
    assert len(shop.bodies) == 7


async def test_a_member_that_leaves_puts_back_what_it_hasnt_begun(world: SimulatedWorld, shop: Shop) -> None:
    await popped_by_brokers(shop)
    one = await pop(shop, "one", taking(world, 1_000), consume_threads=1, pop_invisible_time_ms=300_000)
    await shop.send(b"a", b"b", b"c", b"d", queue=0)
    await shop.until_heard(2)
    assert sum(one.cached.values()) == 3
    await world.stop("one")
    await pop(shop, "two")
    await shop.until_heard(4, within_ms=2 * HELD_MS)
    assert shop.bodies == [b"a", b"b", b"c", b"d"], "what it had begun is done, and the others came at once"
    assert [heard.message.reconsume_times for heard in shop.heard] == [0, 0, 1, 1]
    await world.run_for(minutes=6)
    assert len(shop.bodies) == 4


async def test_a_member_that_leaves_puts_back_messages_of_queues_that_it_had_dropped(
    world: SimulatedWorld, shop: Shop
) -> None:
    await popped_by_brokers(shop)
    one = await pop(shop, "one", forever, await_termination_ms=0)
    await shop.send(b"1", b"2", queue=0)
    await shop.until_heard(2)
    one.unsubscribe(TOPIC)
    await world.until(lambda: own(one) == [], within_ms=5_000)
    await world.stop("one")
    await pop(shop, "two")
    await world.until(lambda: len(shop.bodies_of("two")) == 2, within_ms=1_000)


async def test_a_listener_that_takes_longer_than_the_invisible_time(world: SimulatedWorld, shop: Shop) -> None:
    async def slow_once(heard: Heard) -> ConsumeStatus:
        if heard.message.reconsume_times == 0:
            await world.run_for(ms=2 * INVISIBLE_MS)
        return ConsumeStatus.CONSUME_SUCCESS

    await popped_by_brokers(shop)
    await pop(shop, "one", slow_once, consume_threads=1)
    await shop.send(b"a", b"b", queue=0)
    await shop.until_heard(3)
    assert Counter(shop.bodies) == {b"a": 2, b"b": 1}, "b was too late for its first listener, and wasn't given to it"
    assert [heard.message.reconsume_times for heard in shop.heard] == [0, 1, 1]
    await world.run_for(ms=5 * INVISIBLE_MS)
    assert len(shop.bodies) == 3


@pytest.mark.parametrize(("world", "shop"), [(0, NATIVE), slow(1, ROCKETMQ)], indirect=True, ids=["0", "1"])
async def test_whatever_dies_every_message_is_consumed_in_the_end(world: SimulatedWorld, shop: Shop) -> None:
    await popped_by_brokers(shop)
    for who in ("one", "two"):
        await pop(shop, who, taking(world, 20))
    sent: list[bytes] = []
    for number in range(6):
        bodies = [b"%d-%d" % (number, each) for each in range(30)]
        await shop.producer.send_many([Message(TOPIC, body) for body in bodies])
        sent += bodies
        await world.run_for(ms=world.random.randrange(400))
        who = world.random.choice(["one", "two"])
        if world.random.random() < 0.5:
            world.kill(who)
        else:
            await world.stop(who)
        if world.random.random() < 0.5:
            world.kill("broker-a")
            await world.run_for(ms=world.random.randrange(500))
            await shop.start_broker("broker-a")
            await world.run_for(seconds=4)
        await pop(shop, who, taking(world, 20))
    await world.until(lambda: set(shop.bodies) == set(sent), within_ms=120_000)
    await world.run_for(ms=2 * INVISIBLE_MS + 60_000)
    heard = len(shop.bodies)
    await world.run_for(minutes=2)
    assert len(shop.bodies) == heard, "nothing comes again"
    assert max(Counter(shop.bodies).values()) <= 4


async def test_the_mode_is_changed_while_members_run(world: SimulatedWorld, shop: Shop) -> None:
    one, two = await pop(shop, "one"), await pop(shop, "two")
    sent = 0
    for mode, owned in (("PULL", 4), ("POP", 2), ("PULL", 4)):
        await shop.admin.set_consume_mode(TOPIC, GROUP, mode)
        await world.run_for(seconds=25)
        assert [len(own(member)) for member in (one, two)] == [owned, owned], mode
        await shop.send(*[b"%d" % number for number in range(sent, sent + 40)])
        sent += 40
        await shop.until_heard(sent)
        await world.run_for(ms=3 * INVISIBLE_MS)
        assert len(set(shop.bodies)) == sent
        assert len(shop.bodies) <= sent + 4, "pops that were still held take the first messages of what is pulled"


async def test_what_was_popped_and_failed_is_pulled_after_the_mode_was_changed(
    world: SimulatedWorld, shop: Shop
) -> None:
    await popped_by_brokers(shop)
    await pop(shop, "one", failing(times=2))
    await shop.send(b"x")
    await shop.until_heard(1)
    await shop.admin.set_consume_mode(TOPIC, GROUP, "PULL")
    await shop.until_heard(3, within_ms=300_000)
    assert [(heard.message.topic, heard.message.reconsume_times) for heard in shop.heard] == [
        (TOPIC, 0), (TOPIC, 1), (TOPIC, 2),
    ]  # fmt: skip
    await world.run_for(minutes=5)
    assert len(shop.heard) == 3


async def test_members_share_queues_with_their_next_ones(world: SimulatedWorld, shop: Shop) -> None:
    await popped_by_brokers(shop, share=1)
    members = [await pop(shop, who) for who in ("one", "two", "three")]
    await world.run_for(seconds=25)
    owned = Counter(queue for member in members for queue in own(member))
    assert (len(owned), set(owned.values())) == (8, {2}), "two members have each queue"
    bodies = await shop.send_many(80)
    await shop.until_heard(80)
    await world.run_for(ms=3 * INVISIBLE_MS)
    assert sorted(shop.bodies) == sorted(bodies)


async def test_a_member_that_a_broker_does_not_know_yet_pulls_no_popped_messages(
    world: SimulatedWorld, shop: Shop
) -> None:
    await popped_by_brokers(shop, share=1)
    for who in ("one", "two", "three"):
        await pop(shop, who)
    is_deaf = True

    def deaf(handler: Handler) -> Handler:
        return lambda call: HeartbeatAnswer() if is_deaf else handler(call)

    shop.brokers["broker-b"].dispatcher.precede(RequestCode.HEART_BEAT, deaf)
    four = await pop(shop, "four")
    members = shop.brokers["broker-a"].tables.groups.consumers.consumer_table[GROUP]
    for _ in range(60):
        await world.run_for(seconds=1)
        assert set(members.subscriptions) == {TOPIC, f"%RETRY%{GROUP}"}
    is_deaf = False
    await world.run_for(seconds=60)
    assert own(four)


async def test_a_pulling_member_without_queues_has_the_subscriptions_of_the_others(
    world: SimulatedWorld, shop: Shop
) -> None:
    await shop.admin.create_topic("single", queues=1, broker_name="broker-a")
    members = [await pop(shop, who, topic="single") for who in ("one", "two")]
    await world.run_for(seconds=60)
    assert sorted(MessageQueue("single", "broker-a", 0) in member.assignment for member in members) == [False, True]
    group = shop.brokers["broker-a"].tables.groups.consumers.consumer_table[GROUP]
    for member in group.channel_info_table.values():
        assert f"%RETRY%{GROUP}_single" in member.subscriptions


async def test_a_suspended_member_pops_nothing(world: SimulatedWorld, shop: Shop) -> None:
    await popped_by_brokers(shop)
    one = await pop(shop, "one")
    one.suspend()
    await world.run_for(ms=2 * HELD_MS)
    await shop.send(b"x")
    await world.run_for(ms=3 * HELD_MS)
    assert shop.bodies == []
    one.resume()
    await shop.until_heard(1, within_ms=100)


async def test_a_topic_that_is_left_is_popped_no_more(world: SimulatedWorld, shop: Shop) -> None:
    await popped_by_brokers(shop)
    one = await pop(shop, "one")
    one.unsubscribe(TOPIC)
    await world.run_for(ms=2 * HELD_MS)
    await shop.send(b"x")
    await world.run_for(ms=3 * HELD_MS)
    assert (own(one), shop.bodies) == ([], [])
    one.subscribe(TOPIC)
    await shop.until_heard(1, within_ms=INVISIBLE_MS + HELD_MS)


async def test_who_consumes_in_order_or_all_of_it_has_the_queues_as_ever(world: SimulatedWorld, shop: Shop) -> None:
    await popped_by_brokers(shop)
    everyone = await pop(shop, "one", message_model=MessageModel.BROADCASTING, group="others")
    assert len(own(everyone)) == 8


async def test_a_place_in_queues_that_are_popped_is_the_brokers(world: SimulatedWorld, shop: Shop) -> None:
    await popped_by_brokers(shop)
    one = await pop(shop, "one")
    with pytest.raises(ClientError, match="reset the offsets of the group with Admin"):
        await one.reset_offset_by_time(0)
    with pytest.raises(ClientError, match="it must be PULL or POP"):
        await shop.admin.set_consume_mode(TOPIC, GROUP, "POLL")
    with pytest.raises(NoPermission, match="retry topic is not allowed"):
        await shop.admin.set_consume_mode(f"%RETRY%{GROUP}", GROUP, "POP")


@BOTH_PROTOCOLS
@pytest.mark.row("R9")
async def test_administrators_see_who_pops(world: SimulatedWorld, shop: Shop) -> None:
    await popped_by_brokers(shop)
    one = await pop(shop, "one", failing(times=1))
    two = await world.start("two", simple(shop, "two", group="audit"))
    await shop.send(b"x", queue=0)
    await shop.until_heard(2)
    [message] = await two.receive()
    await two.change_invisible(message, 0)
    await world.run_for(seconds=5)
    billing, audit = await shop.admin.group(GROUP), await shop.admin.group("audit")
    assert (billing.warnings, audit.warnings) == ([], [])
    for view, member in ((billing, one), (audit, two)):
        popped = [queue for queue in view.progress if queue.topic != f"%RETRY%{view.group}"]
        assert {(queue.popped, *queue.owners) for queue in popped} == {(True, member.client.client_id)}
    [held] = [queue for queue in audit.members[0].queues if queue.broker_name == "broker-a"]
    assert (held.topic, held.queue_id, held.popped) == (TOPIC, -1, True)


@BOTH_PROTOCOLS
async def test_brokers_that_know_neither_assignments_nor_batches(world: SimulatedWorld, shop: Shop) -> None:
    for broker in shop.brokers.values():
        for code in (RequestCode.QUERY_ASSIGNMENT, RequestCode.BATCH_ACK_MESSAGE):
            del broker.dispatcher.routes.handlers[code]
    members = [await pop(shop, who) for who in ("one", "two")]
    await world.run_for(seconds=1)
    bodies = await shop.send_many(40)
    await shop.until_heard(40)
    assert ([len(own(member)) for member in members], sorted(shop.bodies)) == ([4, 4], sorted(bodies))
    async with simple(shop, "three", group="audit") as consumer:
        await consumer.ack_all(await receive_all(consumer, 40, INVISIBLE_MS))
        await world.run_for(ms=2 * INVISIBLE_MS)
        assert await receive_all(consumer, 1) == []
