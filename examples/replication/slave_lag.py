"""A consumer that is far behind is sent to the slave, and the slave is behind, too.

staticfire simulate examples/replication/slave_lag.py

The master suggests its slave to consumers that are far behind, so that old messages don't take the place of new ones in
its memory. Here the copy is held for ten seconds meanwhile. The slave says that there is nothing more, and the consumer
is sent back to the master.
"""

from typing import Any

from staticfire.client import ConsumeFromWhere
from staticfire.simulation.troubles import Facts, Stage, Trouble
from staticfire.simulation.troubles.replica_pair import MASTER, SLAVE, ReplicaPair
from staticfire.simulation.troubles.stage import time_words

FIRST = ConsumeFromWhere.FIRST_OFFSET


async def story(stage: Stage, **settings: Any) -> Facts:
    """Measure how long a new consumer needs for all messages."""
    pair = await ReplicaPair.open(stage, "orders", access_message_in_memory_max_ratio=0, **settings)
    shop = await stage.producer()
    await stage.send(shop, "orders", 50)
    await pair.caught_up()
    await pair.hold()
    await stage.send(shop, "orders", 50)
    behind = pair.end(MASTER, "orders") - pair.end(SLAVE, "orders")
    heard: list[bytes] = []

    async def listen(messages: Any, _: Any) -> None:
        heard.extend(message.body for message in messages)

    began_ms = stage.now_ms
    await stage.consumer("billing", "billing", "orders", listen, consume_from_where=FIRST)
    await stage.world.until(lambda: len(heard) >= 100, 60_000)
    return {"the slave is behind by": behind, "all consumed after": time_words(stage.now_ms - began_ms)}


trouble = Trouble(
    title="A slave that is behind answers the consumers that are sent to it",
    threads=["apache/rocketmq#9879"],
    story=story,
    ways={
        "slaveReadEnable=true": {},
        "slaveReadEnable=false, RocketMQ's default": {"slave_read_enable": False},
    },
)
