"""Delayed messages that are due while the master is away come when it is back.

staticfire simulate examples/replication/delayed_without_master.py

A slave has the delayed messages, but delivers none of them: they are written to their topic when they are due, and only
a master writes. A slave that takes over delivers them.
"""

from typing import Any

from staticfire.client import Message
from staticfire.simulation.troubles import Facts, Stage, Trouble
from staticfire.simulation.troubles.replica_pair import MASTER, ReplicaPair
from staticfire.simulation.troubles.stage import time_words

LEVEL, DUE_S = 3, 10


async def story(stage: Stage, takes_over: bool) -> Facts:
    """Measure when a message that is due after ten seconds comes. The master is away from 2 s to 60 s."""
    pair = await ReplicaPair.open(stage, "orders")
    shop = await stage.producer()
    heard_ms: list[int] = []

    async def listen(_: Any, __: Any) -> None:
        heard_ms.append(stage.now_ms)

    await stage.consumer("billing", "billing", "orders", listen)
    sent_ms = stage.now_ms
    await shop.send(Message("orders", b"1 book", delay_level=LEVEL))
    await pair.caught_up()
    await stage.run_for(seconds=2)
    pair.kill(MASTER)
    await stage.run_for(seconds=1)
    if takes_over:
        await pair.failover()
    await stage.run_for(seconds=57)
    if not takes_over:
        await pair.start(MASTER)
    await stage.run_for(seconds=30)
    late_ms = heard_ms[0] - sent_ms - DUE_S * 1_000 if heard_ms else -1
    return {"late by": time_words(max(late_ms, 0)), "times delivered": len(heard_ms)}


trouble = Trouble(
    title="Delayed messages that are due while the master is away come late",
    threads=["apache/rocketmq#8006", "apache/rocketmq#7601", "apache/rocketmq#2259"],
    story=story,
    ways={"the master is back after a minute": {"takes_over": False}, "the slave takes over": {"takes_over": True}},
)
