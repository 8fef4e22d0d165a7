"""Versions of subscriptions: which pulls a fence refuses, and whose time a version is."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from staticfire.client import ClientSettings, Message
from staticfire.protocol.requests.clients import ConsumerData, Heartbeat, HeartbeatData, SubscriptionData
from staticfire.protocol.requests.config import UpdateBrokerConfig
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, PullMessage
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.broker_stand import ADDRESS, BrokerStand
from tests.scenarios.consuming import GROUP, TOPIC, Shop
from tests.scenarios.logged import LogLine

OK, NOT_LATEST = 0, 25
DAY_MS = 86_400_000
FENCE = {"fence_older_subscriptions": True}
ALIGNED = {"own": ClientSettings(), "json": ClientSettings(protocol="rocketmq")}
NOT_ALIGNED = ClientSettings(align_versions=False)


class Member:
    """A client of a group by hand: it heartbeats with a subscription, and pulls."""

    def __init__(self, world: SimulatedWorld, name: str, codec: int = 2) -> None:
        self._name = name
        self._pool = ConnectionPool(world.machine(name), codec_byte=codec)

    async def heartbeat(self, expression: str, version: int, wants_news: bool = True, group: str = GROUP) -> Any:
        subscription = SubscriptionData(TOPIC, expression, sub_version=version)
        data = ConsumerData(group, "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET", [subscription])
        body = HeartbeatData(client_id=self._name, consumer_data_set=[data], wants_news=wants_news)
        return await self._pool.ask(ADDRESS, Heartbeat(body=body), 3_000)

    async def pull(self, version: int, expression: str | None = None, kind: str | None = None) -> Any:
        flags = 0 if expression is None else FLAG_SUBSCRIPTION
        request = PullMessage(GROUP, TOPIC, 0, 0, 32, flags, 0, 0, expression, version, kind)
        return await self._pool.ask(ADDRESS, request, 3_000)

    async def close(self) -> None:
        await self._pool.close()


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[BrokerStand]:
    stand = BrokerStand(world, **FENCE)
    await stand.start()
    await stand.send(TOPIC, b"a", TAGS="a")
    yield stand
    await stand.close()


@pytest_asyncio.fixture
async def member(world: SimulatedWorld, stand: BrokerStand) -> AsyncIterator[Member]:
    member, other = Member(world, "one"), Member(world, "two")
    await other.heartbeat("a || b", 200)
    yield member
    await member.close()
    await other.close()


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.row("H6")
@pytest.mark.parametrize(
    ("expression", "version", "code"),
    [
        ("a", 100, NOT_LATEST),
        ("*", 199, NOT_LATEST),
        ("a", 200, OK),  # it has adopted the group's version
        ("a", 300, OK),  # newer: RocketMQ would refuse it, if no heartbeat had announced it
        ("a || b", 100, OK),  # older, and the same
        (" b||a ||b", 100, OK),
        ("a", 0, OK),  # no version at all
    ],
)
@pytest.mark.parametrize("posts_subscription", [False, True])
async def test_a_pull_is_refused_if_its_subscription_is_older_and_differs(
    member: Member, expression: str, version: int, code: int, posts_subscription: bool
) -> None:
    await member.heartbeat(expression, version)
    answer = await member.pull(version, expression if posts_subscription else None)
    assert answer.code == code, answer.remark
    if code == NOT_LATEST:
        words = f"[{expression}] of topic [orders] is not latest: group [billing] has [a || b] since 200"
        assert words in answer.remark


@pytest.mark.row("H6")
async def test_other_kinds_of_expressions_differ_by_their_kind(member: Member) -> None:
    """The broker doesn't have SQL92; that it is outdated is said first."""
    assert (await member.pull(100, "a || b", "SQL92")).code == NOT_LATEST
    assert (await member.pull(300, "a || b", "SQL92")).code != NOT_LATEST


@pytest.mark.row("H6")
async def test_a_pull_that_is_newer_than_all_heartbeats_passes_the_fence(member: Member, stand: BrokerStand) -> None:
    await member.heartbeat("a", 150)
    assert (await member.pull(300)).code == OK
    await stand.ask(UpdateBrokerConfig(body=b"fenceOlderSubscriptions=false"))
    assert (await member.pull(300)).code == NOT_LATEST
    assert (await member.pull(150)).code == OK


@pytest.mark.row("H6")
async def test_who_has_sent_no_heartbeat_is_not_fenced(member: Member) -> None:
    assert (await member.pull(100)).code == OK


@pytest.mark.row("H6")
@pytest.mark.parametrize("codec", [0, 2])
async def test_a_member_learns_which_versions_are_newer_than_its_own(
    world: SimulatedWorld, stand: BrokerStand, member: Member, codec: int
) -> None:
    by_codec = Member(world, "three", codec)
    answer = await by_codec.heartbeat("a", 100)
    [news] = answer.body
    assert (news.group, news.newer_versions) == (GROUP, {TOPIC: 200})
    [news] = (await by_codec.heartbeat("a", 200)).body
    assert news.newer_versions == {}
    assert (await by_codec.heartbeat("a || b", 100)).body is None
    assert answer.broker_time_ms == stand.broker.state.machine.clock.wall_ms()
    # To RocketMQ's clients the answer stays as it is.
    without = await by_codec.heartbeat("a", 100, wants_news=False)
    assert (without.body, without.broker_time_ms) == (None, None)
    await by_codec.close()


# -- steady members ----------------------------------------------------------------------------------------------------


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    """Two brokers whose fence is on, unless the test says otherwise."""
    settings, broker_settings = getattr(request, "param", (ClientSettings(), FENCE))
    shop = Shop(world, settings, dict(broker_settings))
    yield await shop.open(brokers=2)
    await shop.close()


def version_at(shop: Shop, broker: str = "broker-a") -> int:
    return shop.brokers[broker].tables.groups.consumers.consumer_table[GROUP].subscriptions[TOPIC].sub_version


def is_refusal(line: LogLine) -> bool:
    return line.event == "pull_failed" and "not latest" in str(line.fields["reason"])


@pytest.mark.row("H6")
@pytest.mark.parametrize(
    ("shop", "ahead_ms"),
    [
        ((ALIGNED["own"], FENCE), (DAY_MS, 0)),
        ((ALIGNED["json"], FENCE), (0, DAY_MS)),
        ((ALIGNED["own"], FENCE), (-DAY_MS, DAY_MS)),
    ],
    indirect=["shop"],
    ids=["own-first ahead", "json-second ahead", "own-behind and ahead"],
)
async def test_steady_members_with_different_clocks_and_tags_all_keep_pulling(
    world: SimulatedWorld, shop: Shop, logged: list[LogLine], ahead_ms: tuple[int, int]
) -> None:
    members = [shop.consumer("one", expression="a || b"), shop.consumer("two", expression="b || c")]
    for who, consumer, skew_ms in zip(("one", "two"), members, ahead_ms, strict=True):
        world.skew(who, skew_ms)
        await world.start(who, consumer)
        await world.run_for(seconds=1)
    await world.run_for(seconds=40)  # Pulls that were held have ended.
    logged.clear()
    before = version_at(shop)
    for minute in range(10):
        await shop.producer.send_many([Message(TOPIC, b"%d" % minute, tags="b") for _ in range(16)])
        await world.run_for(minutes=1)
    assert [line for line in logged if is_refusal(line)] == []
    assert len(shop.bodies) == 10 * 16
    assert {len(member.assignment) for member in members} == {5}
    assert version_at(shop) == before


@pytest.mark.row("H6")
async def test_an_outdated_member_is_refused_once_rebalances_and_adopts_the_groups_version(
    world: SimulatedWorld, shop: Shop, logged: list[LogLine]
) -> None:
    one = await shop.start("one", expression="a")
    await world.run_for(seconds=5)
    logged.clear()
    await shop.start("two", expression="a || b")
    await shop.producer.send_many([Message(TOPIC, b"x", tags="a") for _ in range(32)])
    await shop.until_heard(32, within_ms=1_000)
    assert [line.fields["topics"] for line in logged if line.event == "subscription_outdated"] == [[TOPIC]]
    await world.run_for(minutes=5)
    refused = [line.fields["queue"] for line in logged if is_refusal(line)]
    assert refused
    assert len(refused) == len(set(refused)) <= 8  # Each of its queues once, at most.
    [described] = [each for each in one.describe().subscription_data_set if each.topic == TOPIC]
    assert described.sub_version == version_at(shop)
    assert described.sub_string == "a"


@pytest.mark.row("H6")
async def test_members_who_want_the_same_are_never_refused_however_old(
    world: SimulatedWorld, shop: Shop, logged: list[LogLine]
) -> None:
    for who in ("one", "two", "three"):
        await shop.start(who, expression="a || b")
        await world.run_for(minutes=1)
    await shop.producer.send_many([Message(TOPIC, b"x", tags="a") for _ in range(32)])
    await shop.until_heard(32, within_ms=1_000)
    assert [line for line in logged if is_refusal(line) or line.event == "subscription_outdated"] == []


@pytest.mark.row("H6")
@pytest.mark.parametrize("shop", [(each, FENCE) for each in ALIGNED.values()], indirect=True, ids=[*ALIGNED])
async def test_a_held_pull_that_its_own_consumer_has_outdated_is_sent_again_at_once(
    world: SimulatedWorld, shop: Shop
) -> None:
    consumer = await shop.start("one", expression="a", post_subscription_when_pull=True)
    await world.run_for(ms=200)
    consumer.subscribe(TOPIC, "b")
    await shop.producer.send_many([Message(TOPIC, b"new", tags="b") for _ in range(8)])
    await shop.until_heard(8, within_ms=500)


# -- whose time it is --------------------------------------------------------------------------------------------------


@pytest.mark.row("H7")
@pytest.mark.parametrize("shop", [(each, {}) for each in ALIGNED.values()], indirect=True, ids=[*ALIGNED])
@pytest.mark.parametrize("skew_ms", [-DAY_MS, DAY_MS])
async def test_a_version_is_the_brokers_time_whatever_the_clients_clock_says(
    world: SimulatedWorld, shop: Shop, skew_ms: int
) -> None:
    consumer = shop.consumer("one", expression="a")
    world.skew("one", skew_ms)
    await world.start("one", consumer)
    broker_ms = shop.brokers["broker-a"].state.machine.clock.wall_ms()
    assert abs(version_at(shop) - broker_ms) < 1_000
    await world.run_for(seconds=10)
    consumer.subscribe(TOPIC, "b")
    await world.run_for(ms=10)
    assert 9_000 < version_at(shop) - broker_ms < 11_000


@pytest.mark.row("H7")
@pytest.mark.parametrize(
    ("shop", "heard"), [((ClientSettings(), {}), 8), ((NOT_ALIGNED, {}), 0)], indirect=["shop"], ids=["on", "off"]
)
async def test_a_clock_that_is_a_day_ahead_shuts_no_change_of_others_out(
    world: SimulatedWorld, shop: Shop, heard: int
) -> None:
    """Off, it is as in RocketMQ: the change is older than what the broker knows, and doesn't count."""
    ahead = shop.consumer("ahead", topic=None)
    world.skew("ahead", DAY_MS)
    ahead.subscribe(TOPIC, "a")
    await world.start("ahead", ahead)
    one = await shop.start("one", expression="a")
    await world.run_for(seconds=1)
    one.subscribe(TOPIC, "a || b")
    await world.stop("ahead")
    await world.run_for(seconds=1)
    await shop.producer.send_many([Message(TOPIC, b"new", tags="b") for _ in range(8)])
    await world.run_for(seconds=20)
    assert len(shop.bodies) == heard


@pytest.mark.row("H7")
async def test_versions_are_real_time_while_message_time_is_advanced(world: SimulatedWorld, shop: Shop) -> None:
    await shop.advance(hours=48)
    await shop.start("one", expression="a")
    broker = shop.brokers["broker-a"].state
    assert broker.clock.message_ms() - broker.machine.clock.wall_ms() > DAY_MS
    assert abs(version_at(shop) - broker.machine.clock.wall_ms()) < 1_000


@pytest.mark.row("H7")
async def test_all_brokers_have_the_same_version_whatever_their_own_clocks_say(
    world: SimulatedWorld, shop: Shop
) -> None:
    world.skew("broker-b", 7_000)
    consumer = await shop.start("one", expression="a")
    await world.run_for(minutes=1)
    consumer.subscribe(TOPIC, "b")
    await world.run_for(seconds=1)
    assert version_at(shop, "broker-a") == version_at(shop, "broker-b")
    wall_ms = shop.brokers["broker-a"].state.machine.clock.wall_ms()
    assert 900 < wall_ms - version_at(shop) < 1_100


@pytest.mark.row("H7")
async def test_what_is_subscribed_to_before_the_start_has_the_time_of_the_first_heartbeat(
    world: SimulatedWorld, shop: Shop
) -> None:
    consumer = shop.consumer("one", expression="a")
    assert [each.sub_version for each in consumer.describe().subscription_data_set] == [0]
    await world.run_for(minutes=3)
    await world.start("one", consumer)
    wall_ms = shop.brokers["broker-a"].state.machine.clock.wall_ms()
    assert [each for each in consumer.describe().subscription_data_set if wall_ms - each.sub_version > 1_000] == []


@pytest.mark.row("H7")
async def test_a_broker_that_does_not_answer_at_first_hears_of_the_consumers_later(
    world: SimulatedWorld, shop: Shop
) -> None:
    world.freeze("broker-a")
    world.freeze("broker-b")
    starting = asyncio.create_task(world.start("one", shop.consumer("one", expression="a")))
    await world.run_for(seconds=7)
    world.thaw("broker-a")
    world.thaw("broker-b")
    consumer = await starting
    await world.run_for(seconds=5)
    assert len(consumer.assignment) == 10
    assert abs(version_at(shop) - shop.brokers["broker-a"].state.machine.clock.wall_ms()) < 20_000


@pytest.mark.row("H7")
async def test_a_consumer_starts_while_all_brokers_are_silent_and_keeps_trying(
    world: SimulatedWorld, shop: Shop, logged: list[LogLine]
) -> None:
    world.freeze("broker-a")
    world.freeze("broker-b")
    began_ms = world.uptime_ms
    async with asyncio.timeout(30):
        consumer = await shop.start("one", expression="a")
    await world.run_for(minutes=3)
    took_ms = world.uptime_ms - began_ms
    tried = [line for line in logged if line.event == "heartbeat_not_answered"]
    one_by_one = took_ms / shop.settings.mq_client_api_timeout_ms
    of_the_shop = took_ms / shop.settings.heartbeat_broker_interval_ms
    assert 100 < len(tried) <= 2 * (one_by_one + of_the_shop)
    world.thaw("broker-a")
    world.thaw("broker-b")
    await world.run_for(seconds=25)
    assert len(consumer.assignment) == 10
    assert abs(version_at(shop) - shop.brokers["broker-a"].state.machine.clock.wall_ms()) < 30_000
