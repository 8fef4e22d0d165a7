"""One message that always fails stops an ordered queue for ever.

staticfire simulate examples/troubles/poison_in_order.py

100 messages lie in one queue. The listener fails at the eleventh, whenever it comes. An hour passes.
"""

from typing import Any

from staticfire.client import ConsumeContext, ConsumeFromWhere, OrderedContext, OrderedStatus, ReceivedMessage
from staticfire.simulation.troubles import Facts, Stage, Trouble

MESSAGES, POISON = 100, b"10"


async def story(stage: Stage, **settings: Any) -> Facts:
    """Count what is consumed within an hour."""
    await stage.open("orders", queues=1)
    done: list[bytes] = []
    tries = 0

    async def listen(messages: tuple[ReceivedMessage, ...], _: ConsumeContext | OrderedContext) -> OrderedStatus:
        nonlocal tries
        if messages[0].body == POISON:
            tries += 1
            return OrderedStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
        done.append(messages[0].body)
        return OrderedStatus.SUCCESS

    first = ConsumeFromWhere.FIRST_OFFSET
    await stage.consumer("billing", "billing", "orders", listen, ordered=True, consume_from_where=first, **settings)
    await stage.send(await stage.producer(), "orders", MESSAGES)
    await stage.run_for(hours=1)
    return {"consumed": len(done), "tries of the eleventh": tries, "dead letters": stage.dead("billing")}


trouble = Trouble(
    title="One message that always fails stops an ordered queue for ever",
    threads=["alibaba/spring-cloud-alibaba#1847", "apache/rocketmq#6163", "apache/rocketmq-spring#557"],
    story=story,
    ways={"RocketMQ's default": {}, "max_reconsume_times=3": {"max_reconsume_times": 3}},
)
