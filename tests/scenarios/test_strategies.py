"""Strategies at work: whoever comes and goes, each queue is consumed by one member, and the retries are, too."""

import pytest

from staticfire.client import (
    AVERAGELY_BY_CIRCLE,
    AllocateStrategy,
    ByConfig,
    ConsistentHash,
    MachineRoom,
    MessageQueue,
    NearbyMachineRoom,
    PushConsumer,
)
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import TOPIC, Shop, failing

pytestmark = pytest.mark.row("R3")


class Rooms:
    """broker-a and members one and three are in one room, broker-b in the other with nobody else."""

    def broker_deploy_in(self, queue: MessageQueue) -> str:
        return queue.broker_name

    def consumer_deploy_in(self, client_id: str) -> str:
        return "broker-a"


@pytest.mark.parametrize(
    "strategy",
    [AVERAGELY_BY_CIRCLE, ConsistentHash(), NearbyMachineRoom(Rooms())],
    ids=lambda strategy: strategy.name,
)
async def test_each_queue_is_consumed_by_one_member_whoever_comes_and_goes(
    world: SimulatedWorld, shop: Shop, strategy: AllocateStrategy
) -> None:
    members: list[PushConsumer] = []
    for who in ("one", "two", "three"):
        members.append(await shop.start(who, allocate_strategy=strategy))
        await world.run_for(ms=300)
        owned = [queue for member in members for queue in member.assignment]
        assert len(owned) == len(set(owned)) == 8 + 2
    await world.stop("two")
    await world.run_for(ms=300)
    assert len({*members[0].assignment, *members[2].assignment}) == 8 + 2
    bodies = await shop.send_many(40)
    await shop.until_heard(40)
    assert sorted(shop.bodies) == sorted(bodies)


async def test_by_machine_room_queues_of_other_rooms_are_for_other_members(world: SimulatedWorld) -> None:
    shop = Shop(world)
    await shop.open(brokers=1)
    await shop.start_broker("east@broker", "10.0.1.7")
    await shop.admin.create_topic(TOPIC, queues=4)
    consumer = await shop.start("one", allocate_strategy=MachineRoom(["east"]))
    assert {queue.broker_name for queue in consumer.assignment} == {"east@broker"}
    assert len(consumer.assignment) == 4 + 1
    await shop.close()


async def test_by_config_a_failed_message_comes_again(world: SimulatedWorld, shop: Shop) -> None:
    """Nobody was given the queues of the retry topic."""
    own = [MessageQueue(TOPIC, name, number) for name in ("broker-a", "broker-b") for number in range(4)]
    await shop.start("one", failing(1), allocate_strategy=ByConfig(own[:5]))
    await shop.start("two", failing(1), allocate_strategy=ByConfig(own[5:]))
    bodies = await shop.send_many(16)
    await shop.until_heard(32)
    assert sorted(shop.bodies) == sorted(bodies * 2)
