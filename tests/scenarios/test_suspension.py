"""A consumer that is suspended and resumed at once, again and again: each message is heard once, and none is late."""

from random import Random

import pytest

from staticfire.client import ClientSettings, ConsumeStatus, Message, PushConsumer
from staticfire.simulation.world import SimulatedWorld
from staticfire.simulation.world.link import LinkQuality
from tests.cases import first_and_slow
from tests.scenarios.consuming import TOPIC, Heard, Shop

STEPS = 120


async def started(world: SimulatedWorld, shop: Shop, random: Random) -> PushConsumer:
    """Return a consumer whose listener now and then takes its time, or suspends and resumes its consumer."""

    async def react(_: Heard) -> ConsumeStatus:
        if random.random() < 0.1:
            await world.run_for(ms=random.choice([1, 10, 50]))
        if random.random() < 0.05:
            consumer.suspend()
            consumer.resume()
        return ConsumeStatus.CONSUME_SUCCESS

    consumer = shop.consumer(
        "one",
        react,
        pull_threshold_for_queue=random.choice([2, 10, 1_000]),
        pull_interval_ms=random.choice([0, 0, 5]),
        pull_batch_size=random.choice([4, 32]),
        consume_threads=random.choice([1, 20]),
    )
    for broker in shop.brokers:
        world.set_link("one", broker, LinkQuality(delay_ms=random.choice([0.1, 1, 5])))
    return await world.start("one", consumer)


@pytest.mark.parametrize("seed", first_and_slow(range(10), 2))
async def test_each_message_is_heard_once(world: SimulatedWorld, seed: int) -> None:
    random = Random(seed)
    shop = await Shop(world, ClientSettings(protocol=random.choice(["staticfire", "rocketmq"]))).open(brokers=2)
    consumer = await started(world, shop, random)
    sent = 0
    for _ in range(STEPS):
        count = random.choice([0, 0, 1, 5, 40])
        await shop.producer.send_many([Message(TOPIC, b"%d" % (sent + number)) for number in range(count)])
        sent += count
        kind = random.choice(["at once", "at once", "in a while", "twice", "not"])
        if kind != "not":
            consumer.suspend()
            if kind == "in a while":
                await world.run_for(ms=random.choice([0.05, 0.5, 3, 30]))
            consumer.resume()
        if kind == "twice":
            consumer.resume()
        await world.run_for(ms=random.choice([0.05, 0.3, 1, 5, 20]))
    await world.until(lambda: len(set(shop.bodies)) == sent, within_ms=60_000)
    await world.run_for(seconds=2)
    assert len(shop.bodies) == sent
    await shop.close()
