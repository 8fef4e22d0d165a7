"""A topic that was made by its first message stays on one broker.

staticfire simulate examples/troubles/lonely_topic.py

Two brokers make topics by themselves. A program sends one message, then none for 35 seconds, then 99: meanwhile its
route has been refreshed, and knows the one broker that has the topic.
"""

from typing import Any

from staticfire.simulation.troubles import Facts, Stage, Trouble

MESSAGES = 100


async def story(stage: Stage, topics: tuple[str, ...], **settings: Any) -> Facts:
    """Count what lies where."""
    await stage.open(*topics, brokers=2, **settings)
    shop = await stage.producer()
    await stage.send(shop, "orders", 1)
    await stage.run_for(seconds=35)
    await stage.send(shop, "orders", MESSAGES - 1)
    return {name: stage.stored("orders", name) for name in ("broker-a", "broker-b")}


trouble = Trouble(
    title="A topic that was made by its first message stays on one broker",
    threads=["apache/rocketmq#566", "apache/rocketmq#2744", "apache/rocketmq#6657"],
    story=story,
    ways={
        "RocketMQ's default: made by the first message": {"topics": ()},
        "autoCreateTopicEnable=false, made before": {"topics": ("orders",), "auto_create_topic_enable": False},
    },
)
