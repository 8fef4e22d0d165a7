"""A member that hangs keeps its queues for two minutes.

staticfire simulate examples/troubles/silent_member.py

Two members share four queues; a message comes each second. One of their processes is frozen, its connection stays
open: a virtual machine that is moved, a debugger, a cable. Its queues wait until the broker has missed it.
"""

from typing import Any

from staticfire.client import ClientSettings, ConsumeContext, OrderedContext, ReceivedMessage
from staticfire.simulation.troubles import Facts, Stage, Trouble
from staticfire.simulation.troubles.stage import time_words

MESSAGES = 240
QUICK = {"channel_expired_timeout_ms": 15_000, "channel_scan_interval_ms": 1_000}


async def story(stage: Stage, broker: dict[str, Any], heartbeat_ms: int) -> Facts:
    """Measure how long messages wait."""
    await stage.open("orders", **broker)
    waits_ms: list[int] = []

    async def listen(messages: tuple[ReceivedMessage, ...], _: ConsumeContext | OrderedContext) -> None:
        now_ms = stage.machine("shop").clock.wall_ms()
        waits_ms.extend(now_ms - message.born_ms for message in messages)

    client = ClientSettings(heartbeat_broker_interval_ms=heartbeat_ms)
    for name in ("billing-1", "billing-2"):
        await stage.consumer(name, "billing", "orders", listen, client=client)
    await stage.run_for(minutes=1)
    shop = await stage.producer(client=client)
    stage.world.freeze("billing-2")
    await stage.send(shop, "orders", MESSAGES, every_ms=1_000)
    late = [wait_ms for wait_ms in waits_ms if wait_ms > 5_000]
    return {"waited over 5 s": len(late), "longest wait": time_words(max(waits_ms))}


trouble = Trouble(
    title="A member that hangs keeps its queues for two minutes",
    threads=["apache/rocketmq#426", "alibaba/rocketmq#322"],
    story=story,
    ways={
        "RocketMQ's default": {"broker": {}, "heartbeat_ms": 30_000},
        "channelExpiredTimeout=15000, heartbeats each 5 s": {"broker": QUICK, "heartbeat_ms": 5_000},
    },
)
