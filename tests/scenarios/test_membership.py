"""Who is in a group: heartbeats, the consumer table, notifications. RocketMQ: ConsumerManager."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.protocol.requests.clients import (
    ConsumerData,
    GetConsumerList,
    Heartbeat,
    HeartbeatAnswer,
    HeartbeatData,
    SubscriptionData,
)
from staticfire.protocol.requests.groups import SubscriptionGroupConfig, UpdateGroup
from staticfire.protocol.requests.topics import GetTopicConfig
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.members import Member
from tests.scenarios.stand import Stand

pytestmark = pytest.mark.row("H3")

TWO_MINUTES_S = 120


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[Stand]:
    stand = await Stand(world).start()
    yield stand
    await stand.close()


@pytest_asyncio.fixture
async def members(stand: Stand) -> AsyncIterator[tuple[Member, Member]]:
    members = Member(stand, "client-a"), Member(stand, "client-b")
    yield members
    for member in members:
        await member.pool.close()


@pytest.mark.row("H4")
async def test_members_are_listed_in_the_order_in_which_they_joined(members: tuple[Member, Member]) -> None:
    first, second = members
    assert await first.ids() == []
    await second.heartbeat()
    await first.heartbeat()
    assert await first.ids() == ["client-b", "client-a"]


async def test_an_empty_group_is_refused_in_rocketmqs_words(stand: Stand) -> None:
    answer = await stand.ask(stand.brokers["broker-a"], GetConsumerList("nobody"))
    assert (answer.code, answer.remark) == (1, "no consumer for this group, nobody")


@pytest.mark.row("H5")
async def test_all_members_are_notified_of_a_newcomer_before_its_answer(
    members: tuple[Member, Member],
) -> None:
    first, second = members
    await first.heartbeat()
    assert first.reported == ["billing"]  # Already, though its heartbeat was answered just now.
    await second.heartbeat()
    await first.stand.world.run_for(ms=5)
    assert (first.reported, second.reported) == (["billing"] * 2, ["billing"])


async def test_a_heartbeat_without_news_notifies_no_member(members: tuple[Member, Member]) -> None:
    first, second = members
    await first.heartbeat()
    await second.heartbeat()
    await first.stand.world.run_for(ms=5)
    before = len(first.reported)
    await second.heartbeat()
    await first.stand.world.run_for(ms=5)
    assert len(first.reported) == before


@pytest.mark.row("H5")
async def test_a_changed_subscription_is_reported(members: tuple[Member, Member]) -> None:
    first, _ = members
    await first.heartbeat()
    await first.heartbeat(topics=("orders", "bills"))
    await first.heartbeat(topics=("bills",))
    assert len(first.reported) == 3


@pytest.mark.row("H5")
@pytest.mark.parametrize("way", ["unregister", "close"])
async def test_remaining_members_are_notified_of_one_that_leaves(members: tuple[Member, Member], way: str) -> None:
    first, second = members
    await first.heartbeat()
    await second.heartbeat()
    await first.stand.world.run_for(ms=5)
    first.reported.clear()
    if way == "close":
        await second.pool.close()
    else:
        await second.goodbye()
    await first.stand.world.run_for(ms=5)
    assert first.reported == ["billing"]
    assert await first.ids() == ["client-a"]


async def test_who_is_silent_for_two_minutes_is_removed_and_disconnected(members: tuple[Member, Member]) -> None:
    first, second = members
    world, broker = first.stand.world, first.stand.brokers["broker-a"]
    await first.heartbeat()
    await second.heartbeat()
    for _ in range(5):
        await world.run_for(seconds=30)
        await first.heartbeat()
    assert await first.ids() == ["client-a"]
    assert second.pool.open_connection(broker) is None


async def test_a_member_that_was_refused_a_queue_is_notified_when_it_is_unlocked(
    members: tuple[Member, Member],
) -> None:
    first, second = members
    await first.heartbeat()
    await second.heartbeat()
    for member in members:
        await member.lock(0, 1)
    await first.stand.world.run_for(ms=5)
    first.reported.clear()
    second.reported.clear()
    await first.unlock(0)
    await first.unlock(0)
    await first.stand.world.run_for(ms=5)
    assert (first.reported, second.reported) == ([], ["billing"])


async def test_no_notification_in_broadcasting_groups(members: tuple[Member, Member]) -> None:
    first, second = members
    await first.heartbeat(message_model="BROADCASTING")
    await second.heartbeat(message_model="BROADCASTING")
    await first.stand.world.run_for(ms=5)
    assert first.reported == second.reported == []


@pytest.mark.parametrize(("way", "reported"), [("unregister", []), ("close", ["billing"])])
async def test_a_group_may_switch_notifications_off_but_those_of_lost_connections(
    members: tuple[Member, Member], stand: Stand, way: str, reported: list[str]
) -> None:
    first, second = members
    quiet = SubscriptionGroupConfig(group_name="billing", notify_consumer_ids_changed_enable=False)
    await stand.ask(stand.brokers["broker-a"], UpdateGroup(body=quiet))
    await first.heartbeat()
    await second.heartbeat()
    await (second.pool.close() if way == "close" else second.goodbye())
    await stand.world.run_for(ms=5)
    assert first.reported == reported


@pytest.mark.row("H2")
async def test_a_new_group_gets_its_retry_topic_with_its_first_heartbeat(members: tuple[Member, Member]) -> None:
    first, _ = members
    await first.heartbeat()
    answer = await first.stand.ask(first.stand.brokers["broker-a"], GetTopicConfig("%RETRY%billing"))
    assert (answer.body.read_queue_nums, answer.body.write_queue_nums, answer.body.perm) == (1, 1, 6)


@pytest.mark.parametrize("group", ["no group", "x" * 256])
async def test_a_group_with_an_illegal_name_is_left_out(members: tuple[Member, Member], group: str) -> None:
    first, _ = members
    assert (await first.heartbeat(group)).code == 0
    assert await first.ids(group) == []


async def test_a_heartbeat_without_a_body_or_a_client_id_is_refused(stand: Stand) -> None:
    broker = stand.brokers["broker-a"]
    assert (await stand.ask(broker, Heartbeat())).code == 1
    assert (await stand.ask(broker, Heartbeat(body=HeartbeatData()))).code == 1


async def test_the_newest_subscription_of_a_topic_counts(members: tuple[Member, Member]) -> None:
    first, second = members
    newer, older = SubscriptionData("orders", "paid", sub_version=9), SubscriptionData("orders", "open", sub_version=3)
    await first.heartbeat(subscription_data_set=[newer])
    await second.heartbeat(subscription_data_set=[older])
    group = first.stand.services["broker-a"].tables.groups.consumers.consumer_table["billing"]
    assert group.subscriptions["orders"].sub_string == "paid"


async def test_short_heartbeats_are_enough_while_the_subscriptions_stay(
    stand: Stand, members: tuple[Member, Member]
) -> None:
    pool = members[0].pool

    async def whole_wanted(fingerprint: int, is_short: bool) -> bool:
        topics = [] if is_short else [SubscriptionData("orders")]
        consumers = [ConsumerData("short", "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", topics)]
        data = HeartbeatData("client-a", [], consumers, fingerprint, is_short)
        answer = await pool.ask(stand.brokers["broker-a"], Heartbeat(body=data), 3_000)
        assert isinstance(answer, HeartbeatAnswer)
        assert answer.is_support_heart_beat_v2
        return bool(answer.is_sub_change)

    assert await whole_wanted(5, is_short=True)  # the broker knows nothing of it
    assert not await whole_wanted(5, is_short=False)
    assert not await whole_wanted(5, is_short=True)
    assert await whole_wanted(6, is_short=True)
    assert not await whole_wanted(6, is_short=False)
    assert await whole_wanted(0, is_short=False)
    assert await whole_wanted(6, is_short=True)
