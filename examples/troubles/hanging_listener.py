"""One listener that hangs holds back its group's offset, and a restart brings again all that was consumed behind it.

staticfire simulate examples/troubles/hanging_listener.py

The second of 500 messages waits ten minutes for another system. The others are consumed. Then the program is killed
and started again.
"""

from typing import Any

from staticfire.client import ConsumeContext, ConsumeFromWhere, OrderedContext, ReceivedMessage
from staticfire.simulation.troubles import Facts, Stage, Trouble

MESSAGES, HANGS = 500, b"1"
FIRST = ConsumeFromWhere.FIRST_OFFSET


async def story(stage: Stage, **settings: Any) -> Facts:
    """Count what is consumed again after the restart."""
    await stage.open("orders", queues=1)
    got: list[bytes] = []

    async def listen(messages: tuple[ReceivedMessage, ...], _: ConsumeContext | OrderedContext) -> None:
        if messages[0].body == HANGS and HANGS not in got:
            await stage.run_for(minutes=10)
        got.extend(message.body for message in messages)

    await stage.consumer("billing", "billing", "orders", listen, consume_from_where=FIRST, **settings)
    await stage.send(await stage.producer(), "orders", MESSAGES, every_ms=50)
    await stage.run_for(minutes=2)
    lag = stage.lag("billing", "orders")
    stage.world.kill("billing")
    before = set(got)
    got.clear()
    await stage.consumer("billing", "billing", "orders", listen, consume_from_where=FIRST, **settings)
    await stage.run_for(minutes=20)
    return {"consumed": len(before), "lag": lag, "consumed again": len([body for body in got if body in before])}


trouble = Trouble(
    title="One listener that hangs, and a restart brings everything behind its message again",
    threads=["alibaba/rocketmq#281", "apache/rocketmq#7134", "apache/rocketmq#2422"],
    story=story,
    ways={"RocketMQ's default": {}, "resend_after_ms=30_000": {"resend_after_ms": 30_000}},
)
