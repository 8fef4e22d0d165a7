"""Connections whose buffers are full again and again: whoever waits for the other side goes on when that has room."""

from random import Random

import pytest

from staticfire.client import ClientSettings, Message, Producer, ProducerSettings
from staticfire.runtime import connection
from staticfire.simulation.world import SimulatedWorld
from staticfire.simulation.world.link import LinkQuality
from tests.cases import first_and_slow
from tests.protocols import PROTOCOLS
from tests.scenarios.consuming import NAMESRV, TOPIC, Shop

BODY_BYTES = 300
FRAME_BYTES = 3 * BODY_BYTES
# A message with its header in JSON.
WINDOW_BYTES, DELAY_MS = 8_000, 5
BYTES_PER_MS = WINDOW_BYTES / (2 * DELAY_MS)
WHO = ("one", "two", "sender")


def narrow(world: SimulatedWorld, shop: Shop, random: Random) -> None:
    """Let little be under way on the links to both brokers."""
    for who in WHO:
        for broker in shop.brokers:
            quality = LinkQuality(DELAY_MS, window_bytes=WINDOW_BYTES, fragments=random.random() < 0.5)
            world.set_link(who, broker, quality)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("seed", first_and_slow(range(5), 2))
async def test_no_caller_waits_for_ever(
    world: SimulatedWorld, monkeypatch: pytest.MonkeyPatch, protocol: str, seed: int
) -> None:
    random = Random(seed)
    for limit, numbers in {
        "WRITE_BUFFER_BYTES_MAX": [512, 4_096, 65_536],
        "OUT_BYTES_MAX": [64, 1_024, 1 << 20],
        "BURST_BYTES": [100, 2_000, 48 * 1_024],
        "PIECES_MAX": [1, 2, 64],
    }.items():
        monkeypatch.setattr(connection, limit, random.choice(numbers))
    settings = ClientSettings(protocol=protocol)  # type: ignore[arg-type]
    shop = await Shop(world, settings).open(brokers=2)
    consumers = [shop.consumer(who) for who in WHO[:2]]
    machine = world.machine("sender", host="10.0.9.1")
    narrow(world, shop, random)
    for who, consumer in zip(WHO, consumers, strict=False):
        await world.start(who, consumer)
    await world.run_for(seconds=3)
    count, began_ms = 500, world.uptime_ms
    async with Producer("sender", NAMESRV, ProducerSettings(client=settings), machine) as producer:
        await producer.send_many([Message(TOPIC, bytes(BODY_BYTES)) for _ in range(count)])
        took_ms = world.uptime_ms - began_ms
        await world.until(lambda: len(shop.heard) == count, within_ms=10_000)
    assert took_ms < 500 + 2 * count * FRAME_BYTES / BYTES_PER_MS
    await shop.close()
