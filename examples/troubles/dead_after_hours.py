"""A message that always fails is a dead letter after nearly five hours.

staticfire simulate examples/troubles/dead_after_hours.py

Who wants to see what a program does with dead letters waits for 16 retries, the last of them after two hours.
"""

from typing import Any

from staticfire.client import ConsumeContext, ConsumeStatus, OrderedContext, ReceivedMessage
from staticfire.simulation.troubles import Facts, Stage, Trouble
from staticfire.simulation.troubles.stage import time_words

WITHIN_MS = 12 * 3_600_000
ONE_SECOND_EACH = " ".join(["1s"] * 18)


async def story(stage: Stage, broker: dict[str, Any], **settings: Any) -> Facts:
    """Measure how long it takes until the message is dead."""
    await stage.open("orders", **broker)
    tries = 0

    async def listen(_: tuple[ReceivedMessage, ...], __: ConsumeContext | OrderedContext) -> ConsumeStatus:
        nonlocal tries
        tries += 1
        return ConsumeStatus.RECONSUME_LATER

    await stage.consumer("billing", "billing", "orders", listen, **settings)
    shop = await stage.producer()
    sent_ms = stage.now_ms
    await stage.send(shop, "orders", 1)
    await stage.world.until(lambda: stage.dead("billing"), WITHIN_MS, "a dead letter")
    return {"tries": tries, "dead after": time_words(stage.now_ms - sent_ms)}


trouble = Trouble(
    title="A message that always fails is a dead letter after nearly five hours",
    threads=["apache/rocketmq#2724", "apache/rocketmq#6461", "apache/rocketmq-spring#366"],
    story=story,
    ways={
        "RocketMQ's default": {"broker": {}},
        "max_reconsume_times=3": {"broker": {}, "max_reconsume_times": 3},
        "messageDelayLevel='1s 1s 1s ...'": {"broker": {"message_delay_level": ONE_SECOND_EACH}},
    },
)
