"""Queue locks over the wire, and what they do to retries."""

import pytest

from staticfire.protocol.requests.locks import LockQueues, MessageQueue, QueuesOfClient, UnlockQueues
from staticfire.simulation.world.world import SimulatedWorld
from tests.scenarios.broker_stand import BrokerStand

pytestmark = pytest.mark.row("O1")


def queues(*ids: int) -> list[MessageQueue]:
    return [MessageQueue("orders", "broker-a", queue_id) for queue_id in ids]


async def lock(stand: BrokerStand, client_id: str, *ids: int) -> list[int]:
    answer = await stand.ask(LockQueues(body=QueuesOfClient("billing", client_id, queues(*ids))))
    assert answer.code == 0
    return [queue.queue_id for queue in answer.body.lock_ok_mq_set]


async def test_a_queue_belongs_to_one_client_until_60_s_after_its_last_renewal(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    assert await lock(stand, "a", 0, 1) == [0, 1]
    assert await lock(stand, "b", 1, 2) == [2]
    await world.run_for(seconds=50)
    assert await lock(stand, "a", 1) == [1]
    await world.run_for(seconds=11)
    assert await lock(stand, "b", 0, 1) == [0]
    await world.run_for(seconds=50)
    assert await lock(stand, "b", 1) == [1]


async def test_an_unlocked_queue_is_free_at_once(stand: BrokerStand) -> None:
    await lock(stand, "a", 0, 1)
    await stand.ask(UnlockQueues(body=QueuesOfClient("billing", "b", queues(0))))
    assert await lock(stand, "b", 0) == []
    await stand.ask(UnlockQueues(body=QueuesOfClient("billing", "a", queues(0))))
    assert await lock(stand, "b", 0, 1) == [0]


async def test_a_request_without_queues_is_an_error(stand: BrokerStand) -> None:
    assert (await stand.ask(LockQueues())).code == 1
    assert (await stand.ask(UnlockQueues())).code == 1


@pytest.mark.row("A5")
async def test_what_a_group_that_consumes_in_order_sends_to_its_retry_topic_is_dead(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    await lock(stand, "a", 0)
    await stand.send("%RETRY%billing", b"given up", reconsume_times=1, DELAY="3")
    assert await stand.bodies("%DLQ%billing") == [b"given up"]
    await world.run_for(seconds=61)
    await stand.send("%RETRY%billing", b"tried again", reconsume_times=1)
    assert await stand.bodies("%RETRY%billing") == [b"tried again"]
