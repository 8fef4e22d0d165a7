"""A slave that hangs keeps the consumers that were sent to it.

staticfire simulate examples/replication/stuck_at_the_slave.py

The master suggests its slave, the slave hangs, its connections stay open, and the route still has it. Each pull waits
until it times out.
"""

from typing import Any

from staticfire.client import ConsumeFromWhere
from staticfire.simulation.troubles import Facts, Stage, Trouble
from staticfire.simulation.troubles.replica_pair import MASTER, SLAVE, ReplicaPair
from staticfire.simulation.troubles.stage import time_words

FIRST = ConsumeFromWhere.FIRST_OFFSET


async def story(stage: Stage, readable: bool) -> Facts:
    """Measure how long a new consumer needs for 100 messages."""
    pair = await ReplicaPair.open(stage, "orders", slave_read_enable=readable, access_message_in_memory_max_ratio=0)
    await stage.send(await stage.producer(), "orders", 100)
    await pair.caught_up()
    heard: list[bytes] = []

    async def listen(messages: Any, _: Any) -> None:
        heard.extend(message.body for message in messages)

    stage.world.freeze(SLAVE)
    began_ms = stage.now_ms
    await stage.consumer("billing", "billing", "orders", listen, consume_from_where=FIRST, pull_batch_size=10)
    await stage.world.until(lambda: len(heard) >= 100, 600_000)
    took = time_words(stage.now_ms - began_ms)
    stage.world.thaw(SLAVE)
    return {"messages": pair.end(MASTER, "orders"), "consumed after": took}


trouble = Trouble(
    title="A slave that hangs keeps the consumers that were sent to it",
    threads=["apache/rocketmq#9879"],
    story=story,
    ways={
        "slaveReadEnable=true": {"readable": True},
        "slaveReadEnable=false, RocketMQ's default": {"readable": False},
    },
)
