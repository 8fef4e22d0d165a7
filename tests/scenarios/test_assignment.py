"""Who takes which queues, decided by the broker, and by pulls or pops."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from staticfire.protocol.requests.assignment import (
    AssignmentQuestion,
    GetMessageRequestModes,
    MessageRequestMode,
    QueryAssignment,
    SetMessageRequestMode,
)
from staticfire.protocol.requests.clients import ConsumerData, Heartbeat, HeartbeatData, SubscriptionData
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world.world import SimulatedWorld
from tests.scenarios.broker_stand import ADDRESS, BrokerStand
from tests.scenarios.stand import Stand

pytestmark = pytest.mark.row("G2")


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[BrokerStand]:
    stand = BrokerStand(world)
    await stand.start()
    await stand.put_topic("orders")
    yield stand
    await stand.close()


async def join(world: SimulatedWorld, count: int, address: str = ADDRESS) -> list[ConnectionPool]:
    """Let c1, c2, ... be members of the group."""
    pools = []
    for number in range(1, count + 1):
        pool = ConnectionPool(world.machine(f"c{number}", f"10.0.1.{number}"))
        subscription = SubscriptionData("orders", "*", sub_version=1)
        consumer = ConsumerData(
            "billing", "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", [subscription]
        )
        answer = await pool.ask(address, Heartbeat(body=HeartbeatData(f"c{number}", [], [consumer])), 3_000)
        assert answer.code == 0
        pools.append(pool)
    return pools


async def assigned(
    stand: BrokerStand, client_id: str, strategy: str = "AVG", model: str = "CLUSTERING", topic: str = "orders"
) -> list[Any] | None:
    question = AssignmentQuestion(topic, model, "billing", client_id, strategy)
    answer = await stand.ask(QueryAssignment(body=question))
    assert answer.code == 0
    found = answer.body.message_queue_assignments
    return None if found is None else [one.message_queue.queue_id for one in found]


async def set_mode(stand: BrokerStand, share: int, topic: str = "orders", mode: str | None = "POP") -> Any:
    return await stand.ask(SetMessageRequestMode(body=MessageRequestMode(topic, "billing", mode, share)))


async def test_no_client_is_online(stand: BrokerStand) -> None:
    assert await assigned(stand, "c1") is None
    assert await assigned(stand, "c1", topic="NOPE") is None
    assert await assigned(stand, "c1", model="BROADCASTING") == [0, 1, 2, 3]


async def test_pulled_queues_are_shared(world: SimulatedWorld, stand: BrokerStand) -> None:
    pools = await join(world, 2)
    answers = [("c1", "AVG"), ("c2", "AVG_BY_CIRCLE"), ("zz", "AVG"), ("c1", "CONSISTENT_HASH"), ("", "AVG")]
    found = [await assigned(stand, *requested) for requested in answers]
    assert found == [[0, 1], [1, 3], [], None, None]
    for pool in pools:
        await pool.close()


@pytest.mark.parametrize(
    ("members", "share", "expected"),
    [
        (2, 0, {"c1": [-1], "zz": [-1]}),
        (3, 2, {"c1": [-1]}),
        (3, 1, {"c1": [0, 1, 2], "c3": [3, 0, 1], "zz": []}),
        (6, 1, {"c1": [0], "c2": [1], "c3": [2], "c4": [3], "c5": [0], "c6": [1], "zz": []}),
    ],
)
async def test_popped_queues_overlap(
    world: SimulatedWorld, stand: BrokerStand, members: int, share: int, expected: dict[str, list[int]]
) -> None:
    pools = await join(world, members)
    assert (await set_mode(stand, share)).code == 0
    assert {client_id: await assigned(stand, client_id) for client_id in expected} == expected
    for pool in pools:
        await pool.close()


@pytest.mark.parametrize(
    ("topic", "code", "remark"),
    [
        ("%RETRY%billing", 16, "retry topic is not allowed to set mode"),
        ("NOPE", 17, "topic[NOPE] not exist"),
        ("orders", 0, None),
    ],
)
async def test_where_a_mode_can_be_set(stand: BrokerStand, topic: str, code: int, remark: str | None) -> None:
    answer = await set_mode(stand, 0, topic)
    assert (answer.code, answer.remark) == (code, remark)


async def test_modes_outlive_a_kill(world: SimulatedWorld, stand: BrokerStand) -> None:
    assert (await set_mode(stand, 3)).code == 0
    await stand.put_topic("odd")
    assert (await set_mode(stand, 0, "odd", "SOMEHOW")).code == 0
    await stand.kill_and_start()
    modes = (await stand.ask(GetMessageRequestModes())).body.message_request_mode_map
    assert modes["orders"]["billing"] == MessageRequestMode("orders", "billing", "POP", 3)
    assert modes["odd"]["billing"].mode is None


async def test_queues_are_those_of_the_route(world: SimulatedWorld) -> None:
    stand = await Stand(world, brokers=2).start()
    for broker in ("broker-a", "broker-b"):
        await stand.create_topic("orders", 2, broker)
    question = AssignmentQuestion("orders", "BROADCASTING", "billing", "c1", "AVG")
    answer = await stand.ask(stand.brokers["broker-a"], QueryAssignment(body=question))
    found = [
        (one.message_queue.broker_name, one.message_queue.queue_id) for one in answer.body.message_queue_assignments
    ]
    assert sorted(found) == [("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1)]
    await stand.close()


@pytest.mark.parametrize(
    ("settings", "mode", "expected"),
    [
        ({"default_message_request_mode": "POP"}, "POP", [-1]),
        ({"server_load_balancer_enable": False}, "PULL", [0, 1, 2, 3]),
        ({"default_message_request_mode": "POP", "default_pop_share_queue_num": 1}, "POP", [0, 1, 2]),
    ],
)
async def test_what_a_broker_does_by_default(
    world: SimulatedWorld, stand: BrokerStand, settings: dict[str, Any], mode: str, expected: list[int]
) -> None:
    await stand.restart(**settings)
    pools = await join(world, 3)
    assert await assigned(stand, "c1") == expected
    question = AssignmentQuestion("orders", "CLUSTERING", "billing", "c1", "AVG")
    answer = await stand.ask(QueryAssignment(body=question))
    assert {one.mode for one in answer.body.message_queue_assignments} == {mode}
    for pool in pools:
        await pool.close()
