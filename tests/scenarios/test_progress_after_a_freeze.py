"""A member that was away for so long that others have its queues: what the group has committed never goes back."""

import pytest

from staticfire.client import ClientSettings, OrderedContext, OrderedStatus
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import Messages, Shop
from tests.scenarios.polling import Program, Progress

OURS, ROCKETMQS = ClientSettings(), ClientSettings(protocol="rocketmq")
# Brokers forget a client that has been silent for 120 s.
FROZEN = pytest.mark.parametrize(
    ("frozen_s", "shop"),
    [(20, ROCKETMQS), (90, OURS), (200, ROCKETMQS)],
    ids=["20-rocketmq", "90-staticfire", "200-rocketmq"],
    indirect=["shop"],
)

pytestmark = pytest.mark.row("F1")


async def thaw_later(world: SimulatedWorld, shop: Shop, progress: Progress, frozen_s: int) -> list[bytes]:
    """Freeze one of two members while messages come; return what was sent. Then all is committed."""
    bodies = await shop.send_many(200)
    await progress.watch(8)
    world.freeze("one")
    more = [b"frozen %d" % number for number in range(80)]
    await shop.send(*more)
    await progress.watch(frozen_s)
    world.thaw("one")
    await progress.watch_closely(ms=2_000)
    last = [b"thawed %d" % number for number in range(80)]
    await shop.send(*last)
    await progress.watch(30)
    assert shop.is_committed()
    return [*bodies, *more, *last]


@FROZEN
async def test_push_consumers(world: SimulatedWorld, shop: Shop, frozen_s: int) -> None:
    await shop.start("one")
    await shop.start("two")
    await world.run_for(seconds=1)
    wanted = await thaw_later(world, shop, Progress(shop), frozen_s)
    assert set(shop.bodies) == set(wanted)
    if frozen_s < 120:
        assert len(shop.bodies) == len(wanted), "nobody else had its queues"


@FROZEN
async def test_ordered_consumers(world: SimulatedWorld, shop: Shop, frozen_s: int) -> None:
    heard: list[bytes] = []
    for who in ("one", "two"):
        consumer = shop.consumer(who)

        @consumer.ordered_listener
        async def listen(messages: Messages, _: OrderedContext) -> OrderedStatus:
            heard.append(messages[0].body)
            return OrderedStatus.SUCCESS

        await world.start(who, consumer)
    await world.run_for(seconds=1)
    wanted = await thaw_later(world, shop, Progress(shop), frozen_s)
    assert set(heard) == set(wanted)


@FROZEN
async def test_lite_pull_consumers(world: SimulatedWorld, shop: Shop, frozen_s: int) -> None:
    one, two = Program(shop, "one"), Program(shop, "two")
    await one.start()
    await two.start()
    await world.run_for(seconds=1)
    wanted = await thaw_later(world, shop, Progress(shop), frozen_s)
    polled = one.bodies + two.bodies
    assert set(polled) == set(wanted)
    if frozen_s < 120:
        assert len(polled) == len(wanted), "nobody else had its queues"
