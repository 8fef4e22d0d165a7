"""Why nothing is consumed: each situation made with real consumers, and what is said of it."""

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
import pytest_asyncio

from staticfire.client import (
    ClientSettings,
    ConsumeFromWhere,
    Message,
    MessageModel,
    MessageQueue,
    PushConsumer,
    SimpleConsumer,
    SimpleSettings,
    SubscriptionGroupConfig,
    TransactionProducer,
    TransactionState,
)
from staticfire.client.admin.faults import FaultAdmin
from staticfire.client.explain import of_topics
from staticfire.client.explain.explainer import explain_group
from staticfire.client.explain.explanation import Explanation
from staticfire.client.explain.facts import GroupFacts
from staticfire.client.explain.of_places import loopback
from staticfire.faults.parsing import parse_fault
from staticfire.simulation.world import SimulatedWorld
from tests.cli.ways_out import commands_in, is_taken
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC, Shop, failing, forever, later

WRITE_ONLY = 2


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    shop = Shop(world, getattr(request, "param", ClientSettings()), broker_settings={"journal_enable": True})
    yield await shop.open(brokers=2, queues=2)
    await shop.close()


async def explained(shop: Shop, group: str = GROUP, topic: str | None = None) -> Explanation:
    """Return what is found; each command that it names is one that the command line takes."""
    found = await explain_group(shop.admin, group, topic)
    named = [command for finding in found.findings for command in commands_in(finding.way_out)]
    assert [command for command in named if not is_taken(command)] == []
    return found


async def all_is_well(shop: Shop) -> None:
    await shop.start("one")
    await shop.send(b"1", b"2")
    await shop.until_heard(2)


async def nobody_ever(shop: Shop) -> None:
    await shop.send(b"1")


async def nobody_now(shop: Shop) -> None:
    await all_is_well(shop)
    shop.world.kill("one")
    await shop.send(b"3")


async def another_topic(shop: Shop) -> None:
    await shop.admin.create_topic("refunds", queues=1)
    await shop.start("one", topic="refunds")
    await shop.send(b"1")


async def no_such_topic(shop: Shop) -> None:
    await shop.start("one", topic="order")


async def two_programs(shop: Shop) -> None:
    await shop.admin.create_topic("refunds", queues=2)
    await shop.start("one")
    await shop.start("two", topic="refunds")
    await shop.send(*[b"x"] * 8)


async def different_tags(shop: Shop) -> None:
    await shop.start("one", expression="paid")
    await shop.start("two", expression="refunded")


async def more_members(shop: Shop) -> None:
    for who in ("one", "two", "three", "four", "five"):
        await shop.start(who)


async def suspended(shop: Shop) -> None:
    consumer = await shop.start("one")
    await shop.world.run_for(seconds=5)
    consumer.suspend()
    await shop.world.run_for(seconds=40)
    await shop.send(*[b"x"] * 8)
    await shop.world.run_for(seconds=40)


async def frozen(shop: Shop) -> None:
    await shop.start("one")
    await shop.world.run_for(seconds=5)
    shop.world.freeze("one")
    await shop.send(b"1")


async def hanging(shop: Shop) -> None:
    await shop.start("one", forever, pull_batch_size=4)
    await shop.send(*[b"x"] * 4, queue=1)


async def failing_always(shop: Shop) -> None:
    await shop.start("one", later)
    await shop.send(b"1")


async def dead_already(shop: Shop) -> None:
    await shop.start("one", later, max_reconsume_times=0)
    await shop.send(b"1")


async def time_stands_still(shop: Shop) -> None:
    await shop.start("one", failing(1))
    await shop.clock("freeze")
    await shop.send(b"1")


async def all_due_later(shop: Shop) -> None:
    await shop.start("one")
    await shop.producer.send(Message(TOPIC, b"x", delay_level=18))
    await shop.producer.send(Message(TOPIC, b"x", delay_ms=7_200_000))


async def in_a_transaction(shop: Shop) -> None:
    await shop.start("one")

    async def unknown(message: object, argument: object) -> TransactionState:
        return TransactionState.UNKNOWN

    async def check(message: object) -> TransactionState:
        return TransactionState.UNKNOWN

    machine = shop.world.machine("desk", host="10.0.4.1")
    producer = TransactionProducer("desk", NAMESRV, check=check, machine=machine)
    async with producer:
        await producer.send_in_transaction(Message(TOPIC, b"x"), unknown)


async def tags_of_another_case(shop: Shop) -> None:
    await shop.start("one", expression="Paid")
    await shop.send(b"1", b"2", tags="paid")


async def condition_that_matches_nothing(shop: Shop) -> None:
    consumer = shop.consumer("one", topic=None)
    consumer.subscribe(TOPIC, "price > 100", "SQL92")
    await shop.world.start("one", consumer)
    await shop.producer.send(Message(TOPIC, b"x", properties={"price": "7"}))


async def write_only(shop: Shop) -> None:
    await shop.start("one")
    await shop.send(b"1")
    await shop.admin.create_topic(TOPIC, queues=2, perm=WRITE_ONLY)


async def disabled_group(shop: Shop) -> None:
    await shop.start("one")
    await shop.admin.create_group(SubscriptionGroupConfig(group_name=GROUP, consume_enable=False))


async def broken_on_purpose(shop: Shop) -> None:
    await shop.start("one")
    await shop.world.run_for(seconds=5)
    faults = FaultAdmin(shop.admin.client.pool, NAMESRV)
    await faults.add(parse_fault({"code": "PULL_MESSAGE", "group": GROUP, "drop": "answer"}))
    await shop.send(b"1")


async def broker_gone(shop: Shop) -> None:
    await all_is_well(shop)
    shop.world.freeze("broker-b")


async def nothing_sent(shop: Shop) -> None:
    await shop.start("one")


async def on_one_broker(shop: Shop) -> None:
    await shop.admin.create_topic("refunds", queues=1, broker_name="broker-b")
    await shop.start("one", topic="refunds")


TO_THE_END = "-g billing -t orders -s now -b 10.0.1.1:10911 -q 0; with the oldest one, also -o 0"
"""How a group gets back into a queue without consuming others again."""


async def offset_beyond_the_end(shop: Shop) -> None:
    await shop.send(b"1", queue=0)
    await shop.admin.create_group(GROUP)
    await shop.offsets.commit(GROUP, MessageQueue(TOPIC, "broker-a", 0), 99)


async def popped_and_forgotten(shop: Shop) -> None:
    await shop.send(*[b"x"] * 3, queue=1)
    machine = shop.world.machine("taker", host="10.0.4.2")
    taker = SimpleConsumer(GROUP, NAMESRV, SimpleSettings(client=shop.settings, invisible_ms=600_000), machine)
    taker.subscribe(TOPIC)
    await shop.world.start("taker", taker)
    assert len(await taker.receive(8)) == 3


async def popped_and_failed(shop: Shop) -> None:
    await shop.admin.set_consume_mode(TOPIC, GROUP, "POP")
    await shop.start("one", later, client_rebalance=False)
    await shop.send(b"1", queue=1)
    await shop.until_heard(2)


async def suspended_while_it_pops(shop: Shop) -> None:
    await shop.admin.set_consume_mode(TOPIC, GROUP, "POP")
    (await shop.start("one", client_rebalance=False)).suspend()
    await shop.world.run_for(seconds=60)
    await shop.send(b"1", queue=1)


async def one_broker_out_of_reach(shop: Shop) -> None:
    consumer = shop.consumer("one")
    shop.world.partition("one", "broker-b")
    await shop.world.start("one", consumer)
    await shop.send(*[b"x"] * 8)


async def subscribed_anew_without_a_word(shop: Shop) -> None:
    consumer = await shop.start("one")
    await shop.world.run_for(seconds=5)
    faults = FaultAdmin(shop.admin.client.pool, NAMESRV)
    await faults.add(parse_fault({"code": "HEART_BEAT", "drop": "request"}))
    consumer.subscribe(TOPIC, "paid")
    await shop.send(b"1", b"2", b"3", b"4", tags="paid")


Situation = Callable[[Shop], Coroutine[Any, Any, None]]
SITUATIONS: list[tuple[Situation, list[str], list[str]]] = [
    # what is made, the kinds found, words that say it
    (all_is_well, [], ["no backlog"]),
    (nobody_ever, ["UNKNOWN_GROUP"], ["no broker knows a group billing"]),
    (nobody_now, ["NO_MEMBER"], ["billing has no member", "messages behind in orders", "left"]),
    (
        another_topic,
        ["NOT_SUBSCRIBED", "NOTHING_SENT"],
        ["no member of billing subscribes to orders", "subscribe to refunds"],
    ),
    (no_such_topic, ["NO_TOPIC"], ["there is no topic order; is it orders?"]),
    (two_programs, ["DIFFERENT_SUBSCRIPTIONS"], ["nothing", "a group of its own"]),
    (different_tags, ["DIFFERENT_SUBSCRIPTIONS"], ["[paid]", "[refunded]"]),
    (more_members, ["NOTHING_SENT", "MORE_MEMBERS_THAN_QUEUES"], ["orders has 4 queues for 5 members"]),
    (suspended, ["OWNER_DOES_NOT_PULL"], ["doesn't pull from it", "suspended"]),
    (frozen, ["SILENT_MEMBER"], ["is connected from 10.0.3.", "may be frozen"]),
    (hanging, ["STUCK_MESSAGE"], ["has had message", "orders broker-a/1 stays at offset 0, 4 messages behind"]),
    (
        failing_always,
        ["FAILING_LISTENER", "RETRIES_LATER"],
        ["fails", "1 message failed and waits for its next try"],
    ),
    (
        dead_already,
        ["DEAD_LETTERS"],
        [
            "1 message died: billing gave up on it after its last try, and it is in",
            "staticfire dlq resend billing --all",
        ],
    ),
    (time_stands_still, ["RETRIES_LATER"], ["message time is frozen", "staticfire clock run"]),
    (all_due_later, ["DUE_LATER"], ["2 messages of orders were sent with a delay", "staticfire clock advance"]),
    (in_a_transaction, ["OPEN_TRANSACTIONS"], ["1 message of orders is in a transaction"]),
    (tags_of_another_case, ["FILTER_MATCHES_NOTHING"], ["[Paid]", "their tags: paid"]),
    (condition_that_matches_nothing, ["FILTER_MATCHES_NOTHING"], ["[price > 100]", "price=7"]),
    (write_only, ["TOPIC_NOT_READABLE"], ["may not be read on broker-a, broker-b: perm 2", "change orders --perm 6"]),
    (disabled_group, ["GROUP_DISABLED"], ["consumeEnable=false", "change --group billing --consume"]),
    (broken_on_purpose, ["FAULT_RULES"], ["1 fault rule in effect", "PULL_MESSAGE", "staticfire fault clear"]),
    (broker_gone, ["BROKER_AWAY"], ["broker broker-b doesn't respond"]),
    (nothing_sent, ["NOTHING_SENT"], ["nothing has ever been sent to orders"]),
    (on_one_broker, ["ON_SOME_BROKERS"], ["refunds is on broker-b only, not on broker-a"]),
    (popped_and_forgotten, ["POPPED"], ["3 messages popped and not acknowledged, at", "in 9m", "clock advance 9m"]),
    (popped_and_failed, ["RETRIES_LATER"], ["1 message failed and waits for its next try", "clock advance"]),
    (suspended_while_it_pops, ["MEMBER_DOES_NOT_ASK"], ["1 message available for", "it pops, and is suspended"]),
    (one_broker_out_of_reach, ["UNREACHABLE_BROKER"], ["and not to broker-b (10.0.1.2:10911)", "brokerIP1"]),
    (subscribed_anew_without_a_word, ["SUBSCRIPTION_NOT_LATEST"], ["refuses", "no heartbeat has reported it", "paid"]),
    (offset_beyond_the_end, ["OFFSET_BEYOND_END"], ["billing is at 99, beyond the end at 1", TO_THE_END]),
]


@pytest.mark.row("S4")
@BOTH_PROTOCOLS
@pytest.mark.parametrize(("make", "kinds", "words"), SITUATIONS, ids=[one[0].__name__ for one in SITUATIONS])
async def test_situation(
    world: SimulatedWorld, shop: Shop, make: Situation, kinds: list[str], words: list[str]
) -> None:
    await make(shop)
    await world.run_for(seconds=20)
    found = await explained(shop, topic=None if make in (on_one_broker, no_such_topic) else TOPIC)
    reported = str(found)
    assert set(kinds) <= {one.kind for one in found.findings}, reported
    assert [one for one in words if one not in reported] == [], reported
    assert bool(found.causes) == (make is not all_is_well), reported


@pytest.mark.row("S4")
async def test_a_topic_that_came_after_its_consumers(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one", topic="refunds")
    await world.run_for(seconds=1)
    await shop.admin.create_topic("refunds", queues=1)
    await shop.producer.send(Message("refunds", b"x"))
    (cause,) = (await explained(shop)).causes
    assert cause.kind == "TOPIC_NOT_FOUND_YET"
    assert "no member has any queue of refunds yet" in cause.words
    await world.run_for(seconds=20)
    assert (await explained(shop)).causes == []


async def test_what_was_popped_and_came_back_is_behind(world: SimulatedWorld, shop: Shop) -> None:
    await popped_and_forgotten(shop)
    await shop.advance(hours=1)
    found = await explained(shop)
    assert "3 messages behind" in found.headline, str(found)
    assert "3 messages of %RETRY%billing_orders are due for redelivery" in str(found)
    assert "it must call receive" in str(found)
    assert found.causes == [], "the member has asked a moment ago"
    await world.run_for(minutes=1)
    (cause,) = (await explained(shop)).causes
    assert (cause.kind, cause.evidence) == ("MEMBER_DOES_NOT_ASK", ["%RETRY%billing_orders broker-a/0: 3 behind"])


async def test_a_misspelt_group_gets_the_right_name(shop: Shop) -> None:
    await all_is_well(shop)
    assert "is it billing?" in str(await explained(shop, "biling"))


async def test_broadcast_keeps_its_offsets_at_the_members(world: SimulatedWorld, shop: Shop) -> None:
    for who in ("one", "two"):
        await shop.start(who, message_model=MessageModel.BROADCASTING)
    await shop.send(b"1", b"2")
    await shop.until_heard(4)
    assert (await explained(shop)).causes == []


async def test_a_new_group_that_began_at_the_end(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(*[b"x"] * 8)
    await shop.start("one", consume_from_where=ConsumeFromWhere.LAST_OFFSET, skip_young_history=True)
    await world.run_for(seconds=20)
    reported = str(await explained(shop))
    assert "began after the 8 messages that orders had" in reported
    assert "resetOffsetByTime -g billing -t orders" in reported


async def test_a_lock_that_its_holder_left_behind(world: SimulatedWorld, shop: Shop) -> None:
    def ordered(who: str) -> PushConsumer:
        consumer = PushConsumer(GROUP, NAMESRV, machine=world.machine(who, host=f"10.0.5.{len(who)}"))
        consumer.subscribe(TOPIC)

        @consumer.ordered_listener
        async def listen(messages: object, context: object) -> None: ...

        return consumer

    await world.start("first", ordered("first"))
    await world.run_for(seconds=5)
    world.kill("first")
    await world.start("successor", ordered("successor"))
    await shop.send(*[b"x"] * 8)
    await world.run_for(seconds=5)
    reported = str(await explained(shop))
    assert "is locked by" in reported
    assert "is no longer a member: it ended without releasing its locks" in reported
    await world.run_for(seconds=80)
    assert "is locked by" not in str(await explained(shop))


@pytest.mark.parametrize(
    ("address", "elsewhere", "kinds"),
    [
        ("127.0.0.1:10911", [], []),
        ("127.0.0.1:10911", ["172.18.0.1@7"], ["LOOPBACK_ADDRESS"]),
        ("10.0.1.1:10911", ["172.18.0.1@7"], []),
    ],
)
def test_loopback_addresses_are_noted_where_a_client_came_from_another_machine(
    address: str, elsewhere: list[str], kinds: list[str]
) -> None:
    facts = GroupFacts(GROUP, addresses={"broker-a": address}, elsewhere=elsewhere)
    assert [one.kind for one in loopback(facts)] == kinds
    facts.away = {"broker-a": "connection refused"}
    (away,) = of_topics.away(facts)
    assert ("brokerIP1" in away.way_out) == (not address.startswith("127."))
