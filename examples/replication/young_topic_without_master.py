"""A topic that is younger than a minute can't be read at the slave.

staticfire simulate examples/replication/young_topic_without_master.py

The slave has the messages at once, because it copies the whole log. But it copies the table of topics only once a
minute, and refuses to read a topic that it doesn't know.
"""

from typing import Any

from staticfire.client import Admin, ConsumeFromWhere
from staticfire.client.explain.explainer import explain_group
from staticfire.simulation.troubles import Facts, Stage, Trouble
from staticfire.simulation.troubles.replica_pair import MASTER, ReplicaPair
from staticfire.simulation.troubles.stage import NAMESRV

FIRST = ConsumeFromWhere.FIRST_OFFSET


async def story(stage: Stage, slave_sync_period: int) -> Facts:
    """Count what is consumed at the slave of a topic that is ten seconds old when its master is lost."""
    pair = await ReplicaPair.open(stage, "bills", slave_sync_period=slave_sync_period)
    await stage.run_for(seconds=5)
    async with Admin(NAMESRV, machine=stage.machine("admin")) as admin:
        await admin.create_topic("orders", 1)
        await stage.send(await stage.producer(), "orders", 20)
        await stage.run_for(seconds=10)
        pair.kill(MASTER)
        heard: list[bytes] = []

        async def listen(messages: Any, _: Any) -> None:
            heard.extend(message.body for message in messages)

        await stage.run_for(seconds=1)
        await stage.consumer("billing", "billing", "orders", listen, consume_from_where=FIRST)
        await stage.run_for(seconds=30)
        found = await explain_group(admin, "billing")
    return {"consumed": len(heard), "explain finds": ", ".join(one.kind for one in found.findings)}


trouble = Trouble(
    title="A topic that is younger than a minute can't be read at the slave",
    threads=["apache/rocketmq#4840"],
    story=story,
    ways={
        "slaveSyncPeriod=60000, RocketMQ's default": {"slave_sync_period": 60_000},
        "slaveSyncPeriod=1000, as with --replicas": {"slave_sync_period": 1_000},
    },
)
