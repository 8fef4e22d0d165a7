"""Ordered consumers stop while the master is away, without any error.

staticfire simulate examples/replication/order_without_master.py

Each queue of an ordered consumer is locked at the master. RocketMQ's clients ask no slave for a lock, and neither do
ours. staticfire's client logs it, and `staticfire explain billing` names it. After a failover there is a master again.
"""

from typing import Any

from staticfire.client import Admin
from staticfire.client.explain.explainer import explain_group
from staticfire.simulation.troubles import Facts, Stage, Trouble
from staticfire.simulation.troubles.replica_pair import MASTER, ReplicaPair
from staticfire.simulation.troubles.stage import NAMESRV


async def story(stage: Stage, ordered: bool, takes_over: bool = False) -> Facts:
    """Count the messages of the last moment that are consumed within a minute after the loss of the master."""
    pair = await ReplicaPair.open(stage, "orders")
    shop = await stage.producer()
    heard: list[bytes] = []

    async def listen(messages: Any, _: Any) -> None:
        await stage.run_for(500)  # So that some are left when the master is lost.
        heard.extend(message.body for message in messages)

    await stage.consumer("billing", "billing", "orders", listen, ordered=ordered, consume_threads=1)
    await stage.send(shop, "orders", 20)
    await pair.caught_up()
    await stage.run_for(seconds=2)
    pair.kill(MASTER)
    await stage.run_for(seconds=2)
    before = len(heard)
    if takes_over:
        await pair.failover()
    await stage.run_for(seconds=30)
    async with Admin(NAMESRV, machine=stage.machine("admin")) as admin:
        found = await explain_group(admin, "billing")
    kinds = ", ".join(one.kind for one in found.findings) or "nothing"
    return {"left at the loss": 20 - before, "consumed then": len(heard) - before, "explain finds": kinds}


trouble = Trouble(
    title="Ordered consumers stop while the master is away",
    threads=["alibaba/rocketmq#399"],
    story=story,
    ways={
        "in order": {"ordered": True},
        "in any order": {"ordered": False},
        "in order, and the slave takes over": {"ordered": True, "takes_over": True},
    },
)
