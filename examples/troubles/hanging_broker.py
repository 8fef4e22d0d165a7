"""A broker that hangs fails sends, though another one is well.

staticfire simulate examples/troubles/hanging_broker.py

Two brokers, a program that sends five messages a second for a minute. For that minute one broker is frozen, its
connections stay open. A send has three seconds, the first try takes them all, and no time is left for the second.
"""

from typing import Any

from staticfire.client import Message
from staticfire.protocol.errors import StaticfireError
from staticfire.simulation.troubles import Facts, Stage, Trouble
from staticfire.simulation.troubles.stage import time_words

SECONDS, PAUSE_MS = 60, 200


async def story(stage: Stage, **settings: Any) -> Facts:
    """Count sends, and those that fail."""
    await stage.open("orders", brokers=2)
    shop = await stage.producer(**settings)
    await stage.send(shop, "orders", 16)
    stage.world.freeze("broker-b")
    until_ms = stage.now_ms + SECONDS * 1_000
    took_ms: list[int] = []
    failed = 0
    while stage.now_ms < until_ms:
        began_ms = stage.now_ms
        try:
            await shop.send(Message("orders", b"1 book"))
        except StaticfireError:
            failed += 1
        took_ms.append(stage.now_ms - began_ms)
        await stage.run_for(PAUSE_MS)
    stage.world.thaw("broker-b")
    return {"sends": len(took_ms), "failed": failed, "slowest": time_words(max(took_ms))}


trouble = Trouble(
    title="A broker that hangs fails sends, though another one is well",
    threads=["apache/rocketmq#1921", "apache/rocketmq#8990", "apache/rocketmq#9137"],
    story=story,
    ways={
        "RocketMQ's default": {},
        "send_msg_max_timeout_per_request_ms=500": {"send_msg_max_timeout_per_request_ms": 500},
        "the same, and send_latency_fault_enable=True": {
            "send_msg_max_timeout_per_request_ms": 500,
            "send_latency_fault_enable": True,
        },
    },
)
