"""Groups deleted and forbidden, lists of everything, and what keeps a broker in order."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.requests.clients import ConsumerData, Heartbeat, HeartbeatData, SubscriptionData
from staticfire.protocol.requests.config import UpdateBrokerConfig
from staticfire.protocol.requests.groups import (
    DeleteGroup,
    ForbidGroup,
    GetAllGroups,
    GetGroupConfig,
    GroupConfigList,
    SubscriptionGroupConfig,
    UpdateGroups,
)
from staticfire.protocol.requests.offsets import GetMinOffset, QueryConsumerOffset, UpdateConsumerOffset
from staticfire.protocol.requests.pull import PullMessage
from staticfire.protocol.requests.statistics import GetConsumeStats
from staticfire.protocol.requests.topics import GetAllTopicConfigs, UpdateTopic
from staticfire.protocol.requests.upkeep import (
    CleanQueues,
    CleanTopics,
    DeleteExpired,
    GetAllOffsets,
    GetDelayOffsets,
    GetHighAvailability,
    GetSystemTopics,
)
from staticfire.simulation.world.world import SimulatedWorld
from tests.scenarios.broker_stand import BrokerStand


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[BrokerStand]:
    stand = BrokerStand(world)
    await stand.start()
    await stand.put_topic("orders", 2)
    await stand.put_group("billing")
    yield stand
    await stand.close()


async def test_all_topics_and_groups_are_listed(stand: BrokerStand) -> None:
    topics = (await stand.ask(GetAllTopicConfigs())).body
    assert topics.topic_config_table["orders"].read_queue_nums == 2
    assert topics.data_version.counter > 0
    groups = (await stand.ask(GetAllGroups())).body
    assert groups.subscription_group_table["billing"].retry_max_times == 16
    assert groups.forbidden_table == {}


async def test_groups_are_made_from_a_list_or_not_at_all(stand: BrokerStand) -> None:
    wanted = [SubscriptionGroupConfig("a"), SubscriptionGroupConfig("b", retry_max_times=3)]
    assert (await stand.ask(UpdateGroups(body=GroupConfigList(wanted)))).code == 0
    assert (await stand.ask(GetGroupConfig("b"))).body.retry_max_times == 3
    wanted = [SubscriptionGroupConfig("c", retry_max_times=3), SubscriptionGroupConfig()]
    assert (await stand.ask(UpdateGroups(body=GroupConfigList(wanted)))).code == 1
    assert "c" not in (await stand.ask(GetAllGroups())).body.subscription_group_table
    assert (await stand.ask(UpdateGroups())).code == 1


async def test_a_deleted_group_loses_its_offsets_when_that_is_wanted(stand: BrokerStand) -> None:
    await stand.send("orders", b"a")
    await stand.ask(UpdateConsumerOffset("billing", "orders", 0, 1))
    assert (await stand.ask(DeleteGroup("billing"))).code == 0
    assert (await stand.ask(QueryConsumerOffset("billing", "orders", 0))).offset == 1
    assert (await stand.ask(DeleteGroup("billing", True))).code == 0
    assert (await stand.ask(QueryConsumerOffset("billing", "orders", 0))).offset == 0
    await stand.kill_and_start()
    assert "billing" not in (await stand.ask(GetAllGroups())).body.subscription_group_table
    assert (await stand.ask(GetAllOffsets())).body.offset_table == {}


async def test_a_group_that_is_created_again_has_pulled_nothing(stand: BrokerStand) -> None:
    for body in (b"a", b"b", b"c"):
        await stand.send("orders", body)
    await stand.pull("billing", "orders", 0)
    assert (await stand.ask(DeleteGroup("billing", True))).code == 0
    await stand.put_group("billing")
    await stand.ask(UpdateConsumerOffset("billing", "orders", 0, 1))
    progress = (await stand.ask(GetConsumeStats("billing", "orders"))).body.offset_table
    assert {one.pull_offset for queue, one in progress.items() if queue.queue_id == 0} == {1}


async def test_a_queue_that_is_only_read_takes_messages_and_one_that_isnt_there_doesnt(stand: BrokerStand) -> None:
    """A topic whose write queues were reduced: clients with the old route still send to the others."""
    assert (await stand.ask(UpdateTopic("shrinking", 4, 2, 6))).code == 0
    sent = [await stand.send("shrinking", b"x", queue_id) for queue_id in range(5)]
    assert [answer.code for answer in sent] == [0, 0, 0, 0, ResponseCode.INVALID_PARAMETER]
    assert (sent[4].remark or "").startswith("request queueId[4] is illegal, ")


async def test_a_group_can_be_forbidden_a_topic(stand: BrokerStand) -> None:
    consumer = ConsumerData("billing", "CONSUME_PASSIVELY", "CLUSTERING", None, [SubscriptionData("orders")])
    await stand.ask(Heartbeat(body=HeartbeatData("c1", [], [consumer])))
    assert (await stand.ask(ForbidGroup("billing", "orders"))).body.readable
    assert not (await stand.ask(ForbidGroup("billing", "orders", False))).body.readable
    pull = PullMessage("billing", "orders", 0, 0, 32, 0, 0, 0, None)
    answer = await stand.ask(pull)
    assert (answer.code, answer.remark) == (
        ResponseCode.NO_PERMISSION,
        "the consumer group[billing] is forbidden for topic[orders]",
    )
    await stand.kill_and_start()
    assert (await stand.ask(GetAllGroups())).body.forbidden_table == {"billing": {"orders": 4}}
    assert (await stand.ask(ForbidGroup("billing", "orders", True))).body.readable
    assert (await stand.ask(GetAllGroups())).body.forbidden_table == {}


async def test_what_replicas_copy(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.ask(UpdateConsumerOffset("billing", "orders", 1, 5))
    offsets = (await stand.ask(GetAllOffsets())).body
    assert offsets.offset_table == {"orders@billing": {1: 5}}
    assert offsets.group_topic_map == {"billing": ["orders"]}
    await stand.send("orders", b"a", DELAY="1")
    await world.run_for(seconds=3)
    assert (await stand.ask(GetDelayOffsets())).body.offset_table == {1: 1}
    state = (await stand.ask(GetHighAvailability())).body
    assert (state.master, state.master_commit_log_max_offset) == (True, stand.broker.state.store.max_position)


async def test_offsets_that_were_looked_at_are_saved_all_the_same(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.ask(UpdateConsumerOffset("billing", "orders", 1, 5))
    await stand.ask(GetAllOffsets())
    await world.run_for(seconds=10)
    await stand.kill_and_start()
    assert (await stand.ask(GetAllOffsets())).body.offset_table == {"orders@billing": {1: 5}}


async def test_cleaning_keeps_what_is_in_use(stand: BrokerStand) -> None:
    await stand.send("orders", b"a")
    for request in (CleanQueues(), CleanTopics(), DeleteExpired()):
        assert (await stand.ask(request)).code == 0
    assert await stand.bodies("orders") == [b"a"]
    assert {"SELF_TEST_TOPIC", "DefaultCluster", "broker-a"} <= set(
        (await stand.ask(GetSystemTopics())).body.topic_list
    )


@pytest.mark.parametrize("first_hours", [72, 1])
async def test_expired_messages_are_those_of_the_present_reserved_time(world: SimulatedWorld, first_hours: int) -> None:
    stand = BrokerStand(world, mapped_file_size_commit_log=16 * 1024, file_reserved_time=first_hours)
    await stand.start()
    for _ in range(20):
        assert (await stand.send("orders", b"x" * 4096)).code == 0
    await world.run_for(seconds=3 * 3600)
    hours = 73 - first_hours
    assert (await stand.ask(UpdateBrokerConfig(body=b"fileReservedTime=%d\n" % hours))).code == 0
    assert (await stand.ask(DeleteExpired())).code == 0
    assert (await stand.ask(GetMinOffset("orders", 0))).offset == (18 if hours == 1 else 0)
    await stand.close()
