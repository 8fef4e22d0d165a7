"""Where queues end and where groups stand. RocketMQ: ConsumerManageProcessor, ConsumerOffsetManager."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.protocol.command import Request
from staticfire.protocol.requests.groups import SubscriptionGroupConfig, UpdateGroup
from staticfire.protocol.requests.offsets import (
    GetEarliestStoreTime,
    GetMaxOffset,
    GetMinOffset,
    QueryConsumerOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from staticfire.protocol.requests.topics import DeleteTopic
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.stand import Stand

pytestmark = pytest.mark.row("F1")


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[Stand]:
    stand = await Stand(world).start()
    await stand.create_topic("orders", queues=2)
    await stand.ask(stand.brokers["broker-a"], UpdateGroup(body=SubscriptionGroupConfig(group_name="billing")))
    yield stand
    await stand.close()


async def offset(stand: Stand, request: Request) -> int:
    answer = await stand.ask(stand.brokers["broker-a"], request)
    assert answer.code == 0, answer.remark
    found: int = answer.offset
    return found


async def commit(
    stand: Stand, value: int | None, group: str = "billing", topic: str = "orders"
) -> tuple[int, str | None]:
    answer = await stand.ask(stand.brokers["broker-a"], UpdateConsumerOffset(group, topic, 0, value))
    return answer.code, answer.remark


async def test_a_new_group_on_a_young_queue_starts_at_its_beginning(stand: Stand) -> None:
    await stand.send("orders")
    assert await offset(stand, QueryConsumerOffset("billing", "orders", 0)) == 0


async def test_a_new_group_on_an_empty_queue_has_no_offset(stand: Stand) -> None:
    answer = await stand.ask(stand.brokers["broker-a"], QueryConsumerOffset("billing", "orders", 0))
    assert (answer.code, "maybe this group consumer boot first" in str(answer.remark)) == (22, True)
    answer = await stand.ask(stand.brokers["broker-a"], QueryConsumerOffset("billing", "orders", 0, False))
    assert (answer.code, "do not set to zero" in str(answer.remark)) == (22, True)


async def test_any_offset_is_stored_and_a_negative_one_reads_as_absent(stand: Stand) -> None:
    await stand.send("orders")
    for value in (5, 3, 1_000_000):
        assert await commit(stand, value) == (0, None)
        assert await offset(stand, QueryConsumerOffset("billing", "orders", 0)) == value
    await commit(stand, -7)
    assert await offset(stand, QueryConsumerOffset("billing", "orders", 0)) == 0


async def test_refused_commits(stand: Stand) -> None:
    assert await commit(stand, 1, group="nobody") == (26, "Group nobody not exist!")
    assert await commit(stand, 1, topic="nowhere") == (17, "Topic nowhere not exist!")
    assert await commit(stand, None) == (29, "Offset is null, topic is orders")


async def test_offsets_survive_a_stop_and_a_kill_a_while_later(world: SimulatedWorld, stand: Stand) -> None:
    await commit(stand, 5)
    await world.run_for(seconds=6)
    world.kill("broker-a")
    await stand.start_broker("broker-a")
    assert await offset(stand, QueryConsumerOffset("billing", "orders", 0)) == 5
    await commit(stand, 6)
    await world.stop("broker-a")
    await stand.start_broker("broker-a")
    assert await offset(stand, QueryConsumerOffset("billing", "orders", 0)) == 6


async def test_ends_of_queues(stand: Stand) -> None:
    for _ in range(3):
        await stand.send("orders")
    assert await offset(stand, GetMaxOffset("orders", 0)) == 3
    assert await offset(stand, GetMinOffset("orders", 0)) == 0
    for request in (GetMaxOffset("orders", 99), GetMaxOffset("nowhere", 0), GetMinOffset("nowhere", 0)):
        assert await offset(stand, request) == 0


async def test_searching_by_time(world: SimulatedWorld, stand: Stand) -> None:
    clock = stand.services["broker-a"].state.clock
    times = []
    for _ in range(3):
        await world.run_for(seconds=1)
        await stand.send("orders")
        times.append(clock.message_ms())
    wanted: list[tuple[int, str | None, int]] = [
        (times[1], None, 1),
        (times[1] + 1, None, 2),
        (times[2] + 5_000, None, 3),
        (0, None, 0),
    ]
    wanted += [(times[1], "UPPER", 1), (times[2] + 5_000, "upper", 2), (0, "UPPER", 0)]
    for message_ms, boundary, expected in wanted:
        found = await offset(stand, SearchOffset("orders", 0, message_ms, boundary))
        assert abs(found - expected) <= (1 if message_ms == times[1] + 1 else 0), (message_ms, boundary)
    answer = await stand.ask(stand.brokers["broker-a"], GetEarliestStoreTime("orders", 0))
    assert abs(answer.timestamp - times[0]) <= 5
    answer = await stand.ask(stand.brokers["broker-a"], GetEarliestStoreTime("orders", 1))
    assert answer.timestamp == -1


async def test_a_deleted_topic_takes_its_offsets_along(stand: Stand) -> None:
    await stand.send("orders")
    await commit(stand, 1)
    await stand.ask(stand.brokers["broker-a"], DeleteTopic("orders"))
    await stand.create_topic("orders")
    assert await offset(stand, GetMaxOffset("orders", 0)) == 0
    answer = await stand.ask(stand.brokers["broker-a"], QueryConsumerOffset("billing", "orders", 0))
    assert answer.code == 22
