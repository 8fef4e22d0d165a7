"""Two members of one group subscribe to different tags, and no member consumes half of the messages.

staticfire simulate examples/troubles/two_tags.py

100 messages have the tag paid, 100 the tag refunded. One program wants the ones, another the others; both call
themselves billing. What is skipped counts as consumed: the console shows no lag.
"""

from collections import Counter

from staticfire.client import ConsumeContext, ConsumeFromWhere, OrderedContext, ReceivedMessage
from staticfire.simulation.troubles import Facts, Stage, Trouble

MESSAGES = 100
FIRST = ConsumeFromWhere.FIRST_OFFSET


async def story(stage: Stage, groups: tuple[str, str]) -> Facts:
    """Count the messages that any member consumes."""
    await stage.open("orders")
    got: Counter[str] = Counter()

    async def listen(messages: tuple[ReceivedMessage, ...], _: ConsumeContext | OrderedContext) -> None:
        got.update(message.tags or "" for message in messages)

    await stage.consumer("one", groups[0], "orders", listen, "paid", consume_from_where=FIRST)
    await stage.consumer("two", groups[1], "orders", listen, "refunded", consume_from_where=FIRST)
    await stage.run_for(minutes=1)
    shop = await stage.producer()
    for tag in ("paid", "refunded"):
        await stage.send(shop, "orders", MESSAGES, every_ms=100, tag=tag)
    await stage.run_for(minutes=1)
    lag = sum(stage.lag(group, "orders") for group in set(groups))
    return {"paid": got["paid"], "refunded": got["refunded"], "lag": lag}


trouble = Trouble(
    title="Members of one group subscribe to different tags, and messages are consumed by nobody",
    threads=["apache/rocketmq#2954", "apache/rocketmq#2836", "apache/rocketmq#92"],
    story=story,
    ways={
        "one group": {"groups": ("billing", "billing")},
        "a group per subscription": {"groups": ("paying", "refunding")},
    },
)
