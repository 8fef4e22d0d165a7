"""A loss of power takes messages that were acknowledged.

staticfire simulate examples/troubles/lost_power.py

A program sends 200 messages a second. After ten seconds the broker's machine loses power; when it is back, its broker
starts from what the disk has.
"""

from typing import Any

from staticfire.client import Message
from staticfire.protocol.errors import StaticfireError
from staticfire.simulation.troubles import Facts, Stage, Trouble

MESSAGES, PAUSE_MS = 1_990, 5


async def story(stage: Stage, **settings: Any) -> Facts:
    """Count what was acknowledged, and what is there in the end."""
    await stage.open("orders", **settings)
    shop = await stage.producer()
    acknowledged = 0
    for number in range(MESSAGES):
        try:
            await shop.send(Message("orders", b"%d" % number))
            acknowledged += 1
        except StaticfireError:
            pass  # No response said that it is stored.
        await stage.run_for(PAUSE_MS)
    stage.world.kill("broker-a", power_loss=True)
    await stage.run_for(seconds=10)
    await stage.start_broker("broker-a", **settings)
    return {"acknowledged": acknowledged, "lost": acknowledged - stage.stored("orders")}


trouble = Trouble(
    title="A loss of power takes messages that were acknowledged",
    threads=["apache/rocketmq#2066", "apache/rocketmq#3129", "apache/rocketmq#5235"],
    story=story,
    ways={"RocketMQ's default": {}, "flushDiskType=SYNC_FLUSH": {"flush_disk_type": "SYNC_FLUSH"}},
)
