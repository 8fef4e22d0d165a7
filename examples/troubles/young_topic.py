"""A new group that wants only what is new gets the whole history.

staticfire simulate examples/troubles/young_topic.py

A topic has 100 messages that are an hour old. A new group starts with RocketMQ's default, CONSUME_FROM_LAST_OFFSET, and
then ten more messages come.
"""

from typing import Any

from staticfire.client import ConsumeContext, OrderedContext, ReceivedMessage
from staticfire.simulation.troubles import Facts, Stage, Trouble

OLD, NEW = 100, 10


async def story(stage: Stage, **settings: Any) -> Facts:
    """Count what the group gets before and after the new messages are sent."""
    await stage.open("orders")
    shop = await stage.producer()
    await stage.send(shop, "orders", OLD)
    await stage.run_for(hours=1)
    got: list[bytes] = []

    async def listen(messages: tuple[ReceivedMessage, ...], _: ConsumeContext | OrderedContext) -> None:
        got.extend(message.body for message in messages)

    await stage.consumer("billing", "billing", "orders", listen, **settings)
    await stage.run_for(minutes=1)
    old = len(got)
    await stage.send(shop, "orders", NEW)
    await stage.run_for(minutes=1)
    return {"old messages consumed": old, "new ones": len(got) - old}


trouble = Trouble(
    title="A new group that wants only what is new gets the whole history",
    threads=["apache/rocketmq#334", "apache/rocketmq#1135", "apache/rocketmq#9083"],
    story=story,
    ways={"RocketMQ's default": {}, "skip_young_history=True": {"skip_young_history": True}},
)
