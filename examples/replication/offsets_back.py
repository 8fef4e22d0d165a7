"""Offsets go back when the master returns: messages are consumed again.

staticfire simulate examples/replication/offsets_back.py

While the master is away, a group reads from the slave, and commits its offsets there. The master comes back with those
that it had. A consumer that starts now begins there.
"""

from typing import Any

from staticfire.client import ConsumeFromWhere
from staticfire.simulation.troubles import Facts, Stage, Trouble
from staticfire.simulation.troubles.replica_pair import MASTER, SLAVE, ReplicaPair

FIRST = ConsumeFromWhere.FIRST_OFFSET


async def story(stage: Stage, restarts: bool) -> Facts:
    """Count the messages that are consumed a second time."""
    pair = await ReplicaPair.open(stage, "orders", slave_sync_period=60_000)
    await stage.send(await stage.producer(), "orders", 30)
    heard: list[bytes] = []

    async def listen(messages: Any, _: Any) -> None:
        heard.extend(message.body for message in messages)

    await pair.caught_up()
    await stage.run_for(seconds=61)
    pair.kill(MASTER)
    await stage.consumer("billing", "billing", "orders", listen, consume_from_where=FIRST)
    await stage.world.until(lambda: len(heard) >= 30, 60_000)
    await stage.run_for(seconds=6)
    at_slave = pair.committed(SLAVE, "billing", "orders")
    if restarts:
        await stage.world.stop("billing")
    await pair.start(MASTER)
    await stage.run_for(seconds=5)
    at_master = pair.committed(MASTER, "billing", "orders")
    if restarts:
        await stage.consumer("billing", "billing", "orders", listen, consume_from_where=FIRST)
    await stage.run_for(seconds=20)
    return {
        "committed at the slave": at_slave,
        "at the master, when it is back": max(at_master, 0),
        "consumed again": len(heard) - 30,
    }


trouble = Trouble(
    title="Offsets go back when the master returns",
    threads=["apache/rocketmq#1094", "alibaba/rocketmq#28"],
    story=story,
    ways={
        "the consumer restarts meanwhile": {"restarts": True},
        "the consumer runs on: it commits its offsets again": {"restarts": False},
    },
)
