"""What is wrong with a group: found by its broker, reported once in the log and in the answers to heartbeats."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
import pytest_asyncio

from staticfire.client import (
    ConsumeContext,
    LitePullConsumer,
    LitePullSettings,
    MessageModel,
    MessageQueue,
    OrderedContext,
    OrderedStatus,
    PushConsumer,
)
from staticfire.protocol.requests.clients import (
    ConsumerData,
    GroupFinding,
    Heartbeat,
    HeartbeatData,
    SubscriptionData,
)
from staticfire.protocol.requests.locks import LockQueues, MessageQueue as LockedQueue, QueuesOfClient
from staticfire.protocol.requests.pull import FLAG_SUSPEND, PullMessage
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC, Heard, Messages, Shop
from tests.scenarios.logged import LogLine
from tests.scenarios.stand import Stand

pytestmark = pytest.mark.row("O5")

PROBLEM = "group_has_a_problem"


def reported(logged: list[LogLine]) -> list[object]:
    """Return the kinds that were reported, in order."""
    return [line.fields["kind"] for line in logged if line.event == PROBLEM]


# -- by hand -----------------------------------------------------------------------------------------------------------


class Foreign:
    """A client that doesn't say how it listens, as RocketMQ's don't."""

    def __init__(self, stand: Stand, name: str, client_id: str | None = None) -> None:
        self.client_id = client_id or name
        self._address = stand.brokers["broker-a"]
        self.pool = ConnectionPool(stand.world.machine(name, f"10.0.1.{10 + ord(name[-1]) % 100}"))

    async def heartbeat(self, *topics: str, wants_news: bool = True, **data: object) -> list[GroupFinding]:
        """Subscribe to topics, as `orders` or `orders=a || b`; return what the answer says."""
        pairs = [topic.partition("=") for topic in topics or ("orders",)]
        subscriptions = [SubscriptionData(name, expression or "*") for name, _, expression in pairs]
        consumer = ConsumerData(GROUP, "CONSUME_PASSIVELY", "CLUSTERING", None, subscriptions)
        for name, value in data.items():
            setattr(consumer, name, value)
        body = HeartbeatData(self.client_id, [], [consumer], wants_news=wants_news)
        answer: Any = await self.pool.ask(self._address, Heartbeat(body=body))
        assert answer.code == 0
        return answer.body[0].findings if answer.body else []

    async def lock(self, queue_id: int) -> None:
        body = QueuesOfClient(GROUP, self.client_id, [LockedQueue("orders", "broker-a", queue_id)])
        assert (await self.pool.ask(self._address, LockQueues(body=body))).code == 0

    def pull(self, queue_id: int) -> "asyncio.Future[Any]":
        """Pull, and be held for 15 s."""
        request = PullMessage(GROUP, "orders", queue_id, 0, 32, FLAG_SUSPEND, 0, 15_000)
        return asyncio.ensure_future(self.pool.ask(self._address, request, 30_000))


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[Stand]:
    stand = await Stand(world).start()
    await stand.create_topic("orders", queues=4)
    yield stand
    await stand.close()


@pytest_asyncio.fixture
async def three(stand: Stand) -> AsyncIterator[list[Foreign]]:
    clients = [Foreign(stand, name) for name in ("client-a", "client-b", "client-c")]
    yield clients
    for client in clients:
        await client.pool.close()


async def test_different_tags_are_found_with_who_wants_what(three: list[Foreign], logged: list[LogLine]) -> None:
    assert await three[0].heartbeat("orders=a || b") == []
    assert await three[1].heartbeat("orders=b||a") == []
    [finding] = await three[2].heartbeat("orders=c")
    assert (finding.kind, finding.subject) == ("DIFFERENT_SUBSCRIPTIONS", "orders")
    assert "topic orders, [a || b]: client-a, client-b; [c]: client-c: brokers filter by the newest" in finding.words
    assert await three[0].heartbeat("orders=a || b") == [finding]
    assert reported(logged) == ["DIFFERENT_SUBSCRIPTIONS"]


async def test_it_is_reported_when_it_is_over_and_again_when_it_is_back(
    three: list[Foreign], logged: list[LogLine]
) -> None:
    for expression in ("a", "b", "a", "b"):
        await three[0].heartbeat("orders=a")
        await three[1].heartbeat(f"orders={expression}")
    assert [line.event for line in logged if "problem" in line.event] == [PROBLEM, "group_problem_over", PROBLEM]


async def test_different_topics_are_found(three: list[Foreign]) -> None:
    await three[0].heartbeat("orders", "bills")
    [finding] = await three[1].heartbeat("orders")
    assert finding.subject == "bills"
    assert "[*]: client-a; nothing: client-b" in finding.words


async def test_the_groups_own_retries_and_members_without_subscriptions_are_no_difference(
    three: list[Foreign],
) -> None:
    await three[0].heartbeat("orders", f"%RETRY%{GROUP}")
    assert await three[1].heartbeat("orders", consume_type="CONSUME_ACTIVELY") == []
    assert await three[2].heartbeat(subscription_data_set=[]) == []


async def test_who_does_not_ask_for_news_gets_none_and_the_log_has_it(
    three: list[Foreign], logged: list[LogLine]
) -> None:
    await three[0].heartbeat("orders=a", wants_news=False)
    assert await three[1].heartbeat("orders=b", wants_news=False) == []
    assert reported(logged) == ["DIFFERENT_SUBSCRIPTIONS"]


async def test_message_models_that_differ_are_found(three: list[Foreign]) -> None:
    await three[0].heartbeat(message_model="BROADCASTING")
    [finding] = await three[1].heartbeat()
    assert finding.kind == "MIXED_MODELS"
    assert "BROADCASTING: client-a; CLUSTERING: client-b" in finding.words


async def test_who_locks_and_who_pulls_without_a_lock_do_not_go_together(stand: Stand, three: list[Foreign]) -> None:
    """Neither says how it listens."""
    first, second, third = three
    for client in three:
        await client.heartbeat()
    await first.lock(0)
    await second.lock(1)
    held = [first.pull(0), second.pull(1), third.pull(2)]
    await stand.world.run_for(ms=10)
    [finding] = await first.heartbeat()
    assert finding.kind == "MIXED_LISTENERS"
    assert "in any order: client-c; in order: client-a, client-b" in finding.words
    await asyncio.gather(*held)


async def test_who_has_no_queue_is_not_judged(stand: Stand, three: list[Foreign]) -> None:
    first, second, _ = three
    await first.heartbeat()
    await first.lock(0)
    held = first.pull(0)
    assert await second.heartbeat() == []
    await held


async def test_in_broadcasting_no_member_needs_a_lock(stand: Stand, three: list[Foreign]) -> None:
    await three[0].heartbeat(message_model="BROADCASTING", consume_orderly=True)
    assert await three[1].heartbeat(message_model="BROADCASTING", consume_orderly=False) == []


async def test_a_client_id_that_two_clients_use_is_reported_to_both(stand: Stand) -> None:
    first, second = Foreign(stand, "host-a", "same"), Foreign(stand, "host-b", "same")
    assert await first.heartbeat() == []
    await stand.world.run_for(seconds=1)
    assert await second.heartbeat() == []  # The first connection may be one that is lost.
    await stand.world.run_for(seconds=1)
    for client in (first, second):
        [finding] = await client.heartbeat()
        assert (finding.kind, finding.subject) == ("SAME_CLIENT_ID", "same")
        assert "client id same is in use 2 times, from 10.0.1." in finding.words
        await stand.world.run_for(seconds=1)
    await first.pool.close()
    await stand.world.run_for(ms=5)
    assert await second.heartbeat() == []
    await second.pool.close()


async def test_of_many_members_some_are_named(stand: Stand) -> None:
    clients = [Foreign(stand, f"client-{letter}") for letter in "abcdefghij"]
    for client in clients:
        findings = await client.heartbeat("orders=a" if client is clients[0] else "orders=b")
    assert "[b]: client-b, client-c, client-d, client-e and 5 more" in findings[0].words
    for client in clients:
        await client.pool.close()


# -- by our consumers --------------------------------------------------------------------------------------------------


def in_order(shop: Shop, consumer: PushConsumer, who: str) -> PushConsumer:
    """Let a consumer listen in order instead; what it hears is noted as before."""

    @consumer.ordered_listener
    async def listen(messages: Messages, context: OrderedContext) -> OrderedStatus:
        shop.heard.append(Heard(who, messages, cast(ConsumeContext, context), shop.world.uptime_ms))
        return OrderedStatus.SUCCESS

    return consumer


@BOTH_PROTOCOLS
async def test_ordered_and_concurrent_listeners_in_one_group_are_reported_to_all_of_them(
    world: SimulatedWorld, shop: Shop, logged: list[LogLine]
) -> None:
    await world.start("one", in_order(shop, shop.consumer("one"), "one"))
    await world.start("two", in_order(shop, shop.consumer("two"), "two"))
    await world.run_for(minutes=1)
    assert reported(logged) == []
    await shop.start("three")
    await world.run_for(minutes=3)
    assert reported(logged) == ["MIXED_LISTENERS"] * (2 + 3)  # Both brokers, and each client, once.
    await world.stop("three")
    await world.run_for(minutes=1)
    over = [line for line in logged if line.event == "group_problem_over"]
    assert [line.fields["kind"] for line in over] == ["MIXED_LISTENERS"] * 2


async def test_members_that_want_the_same_are_left_alone(
    world: SimulatedWorld, shop: Shop, logged: list[LogLine]
) -> None:
    for who in ("one", "two"):
        await shop.start(who, expression="a || b")
    machine = world.machine("three", host="10.0.3.77")
    by_hand = LitePullConsumer(GROUP, NAMESRV, LitePullSettings(), machine)
    await world.start("three", by_hand)
    await by_hand.assign([MessageQueue(TOPIC, "broker-a", 0)])
    await world.run_for(minutes=2)
    assert reported(logged) == []


async def test_broadcasting_beside_clustering_is_reported(
    world: SimulatedWorld, shop: Shop, logged: list[LogLine]
) -> None:
    await shop.start("one")
    await shop.start("two", message_model=MessageModel.BROADCASTING)
    await world.run_for(minutes=2)
    assert set(reported(logged)) == {"MIXED_MODELS"}
