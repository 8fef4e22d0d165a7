"""A slave takes over the older offsets of its master.

staticfire simulate examples/replication/offsets_overwritten.py

The slave copies all offsets of its master once a minute, also those that are below its own. After that no broker knows
any more how far the group was: when the master is lost again, its messages are consumed again at the slave.
"""

from typing import Any

from staticfire.client import ConsumeFromWhere
from staticfire.simulation.troubles import Facts, Stage, Trouble
from staticfire.simulation.troubles.replica_pair import MASTER, SLAVE, ReplicaPair

FIRST = ConsumeFromWhere.FIRST_OFFSET


async def story(stage: Stage, runs_on: bool) -> Facts:
    """Count the messages that are consumed again at the slave. `runs_on`: a consumer runs when the master returns."""
    pair = await ReplicaPair.open(stage, "orders", slave_sync_period=60_000)
    shop = await stage.producer()
    heard: list[bytes] = []

    async def listen(messages: Any, _: Any) -> None:
        heard.extend(message.body for message in messages)

    async def consume(count: int) -> None:
        await stage.consumer("billing", "billing", "orders", listen, consume_from_where=FIRST)
        await stage.world.until(lambda: len(heard) >= count, 60_000)
        await stage.run_for(seconds=6)

    await stage.send(shop, "orders", 3)
    await consume(3)
    await stage.world.stop("billing")
    await stage.send(shop, "orders", 7)
    await pair.caught_up()
    await stage.run_for(seconds=61)
    pair.kill(MASTER)
    await consume(10)
    before = pair.committed(SLAVE, "billing", "orders")
    if not runs_on:
        await stage.world.stop("billing")
    await pair.start(MASTER)
    await stage.run_for(seconds=120)
    after = pair.committed(SLAVE, "billing", "orders")
    if runs_on:
        await stage.world.stop("billing")
    pair.kill(MASTER)
    await stage.run_for(seconds=1)
    await stage.consumer("billing", "billing", "orders", listen, consume_from_where=FIRST)
    await stage.run_for(seconds=20)
    return {"at the slave": before, "after the copy": after, "consumed again": len(heard) - 10}


trouble = Trouble(
    title="A slave takes over the older offsets of its master",
    threads=["apache/rocketmq#1094"],
    story=story,
    ways={
        "no consumer runs when the master returns": {"runs_on": False},
        "one runs: it commits its offsets again": {"runs_on": True},
    },
)
