"""What consumers see of a protected group: restarts, failing networks, and whatever else happens to members."""

from collections.abc import AsyncIterator
from random import Random

import pytest
import pytest_asyncio

from staticfire.client import ClientSettings, PushConsumer
from staticfire.simulation.world import SimulatedWorld
from tests.cases import first_and_slow
from tests.scenarios.consuming import TOPIC, Shop

pytestmark = pytest.mark.row("H8")

STABLE_MS, GRACE_MS = 30_000, 10_000


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld) -> AsyncIterator[Shop]:
    shop = Shop(world, broker_settings={"stable_time_ms": STABLE_MS, "grace_time_ms": GRACE_MS})
    yield await shop.open(brokers=2)
    await shop.close()


def named(shop: Shop, who: str, instance: str) -> PushConsumer:
    """Return a consumer whose client id is the same after a restart, if it has an instance name."""
    shop.settings = ClientSettings(instance_name=instance)
    return shop.consumer(who)


@pytest.mark.parametrize(("instance", "changes"), [("billing-2", 0), ("DEFAULT", 1)], ids=["with", "without"])
async def test_a_killed_process_takes_its_queues_up_again_if_it_has_an_instance_name(
    world: SimulatedWorld, shop: Shop, instance: str, changes: int
) -> None:
    """Without one it is somebody else: it waits, and nobody has its old share until the grace time is over."""
    first = await world.start("one", named(shop, "one", "billing-1"))
    await world.start("two", named(shop, "two", instance))
    await world.run_for(ms=STABLE_MS)
    seen: list[str] = []
    first.on_queues_changed(lambda topic, _, own: seen.append(topic))
    world.kill("two")
    await world.run_for(seconds=3)
    second = await world.start("two", named(shop, "two", instance))
    await shop.send_many(80)
    await world.run_for(seconds=3)
    assert len(first.assignment) == 5
    assert len(second.assignment) == (0 if changes else 5)
    assert len(shop.bodies) == (40 if changes else 80)
    await world.run_for(ms=GRACE_MS)
    assert seen.count(TOPIC) == changes
    assert sorted(first.assignment + second.assignment) == sorted({*first.assignment, *second.assignment})
    assert len(first.assignment + second.assignment) == 10
    assert len(set(shop.bodies)) == 80


async def test_a_network_that_fails_for_a_moment_moves_no_queue(world: SimulatedWorld, shop: Shop) -> None:
    consumers = [await shop.start(who) for who in ("one", "two", "three")]
    await world.run_for(ms=STABLE_MS)
    before = [consumer.assignment for consumer in consumers]
    seen: list[str] = []
    for consumer in consumers:
        consumer.on_queues_changed(lambda topic, _, own: seen.append(topic))
    world.isolate("two")
    await world.run_for(seconds=5)
    world.heal("two")
    await world.run_for(minutes=1)
    assert (seen, [consumer.assignment for consumer in consumers]) == ([], before)
    bodies = await shop.send_many(40)
    await shop.until_heard(40)
    assert sorted(shop.bodies) == sorted(bodies)


async def test_after_a_start_of_the_brokers_all_members_are_there_at_once(world: SimulatedWorld, shop: Shop) -> None:
    consumers = [await shop.start(who) for who in ("one", "two", "three")]
    await world.run_for(ms=STABLE_MS)
    for name in ("broker-a", "broker-b"):
        world.kill(name)
        await shop.start_broker(name)
    await world.run_for(seconds=5)
    assert sorted(len(consumer.assignment) for consumer in consumers) == [2, 4, 4]


@pytest.mark.parametrize("seed", first_and_slow(range(8)))
async def test_whatever_happens_to_members_all_queues_find_an_owner_and_nothing_is_lost(
    world: SimulatedWorld, shop: Shop, seed: int
) -> None:
    random = Random(seed)
    names = ("one", "two", "three", "four")
    running: dict[str, PushConsumer] = {}
    sent: list[bytes] = []
    for step in range(25):
        who = random.choice(names)
        what = random.choice(["kill", "stop", "isolate"])
        if who not in running:
            running[who] = await world.start(who, named(shop, who, random.choice([who, "DEFAULT"])))
        elif what == "kill":
            world.kill(who)
            del running[who]
        elif what == "stop":
            await world.stop(who)
            del running[who]
        else:
            world.isolate(who)
            await world.run_for(seconds=random.choice([1, 5, 12]))
            world.heal(who)
        bodies = [b"%d-%d" % (step, number) for number in range(16)]
        await shop.send(*bodies)
        sent += bodies
        await world.run_for(seconds=random.choice([0.2, 3, 8, 40]))
    for who in names:
        if who not in running:
            running[who] = await world.start(who, named(shop, who, who))
    await world.run_for(ms=STABLE_MS + GRACE_MS + 25_000)
    owned = sorted(queue for consumer in running.values() for queue in consumer.assignment)
    assert len(owned) == len(set(owned)) == 10
    assert {len(consumer.assignment) for consumer in running.values()} <= {2, 3, 4}
    assert set(shop.bodies) == set(sent)
    await world.until(shop.is_committed, within_ms=20_000)
