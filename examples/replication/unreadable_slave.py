"""The slave isn't readable: nothing is consumed while the master is away, and no program sees an error.

staticfire simulate examples/replication/unreadable_slave.py

`slaveReadEnable` is off in RocketMQ. The slave then refuses each pull with `[REJECTREQUEST]system busy`. Clients ask
again every three seconds for each queue. `staticfire explain billing` names it.
"""

from typing import Any

from staticfire.client import Admin, ConsumeFromWhere
from staticfire.client.explain.explainer import explain_group
from staticfire.simulation.troubles import Facts, Stage, Trouble
from staticfire.simulation.troubles.replica_pair import MASTER, ReplicaPair
from staticfire.simulation.troubles.stage import NAMESRV

FIRST = ConsumeFromWhere.FIRST_OFFSET


async def story(stage: Stage, readable: bool) -> Facts:
    """Count what is consumed while the master is away."""
    pair = await ReplicaPair.open(stage, "orders", slave_read_enable=readable)
    await stage.send(await stage.producer(), "orders", 20)
    heard: list[bytes] = []

    async def listen(messages: Any, _: Any) -> None:
        heard.extend(message.body for message in messages)

    await pair.caught_up()
    await stage.run_for(seconds=2)
    pair.kill(MASTER)
    await stage.run_for(seconds=1)
    await stage.consumer("billing", "billing", "orders", listen, consume_from_where=FIRST)
    await stage.run_for(seconds=30)
    async with Admin(NAMESRV, machine=stage.machine("admin")) as admin:
        found = await explain_group(admin, "billing")
    return {"consumed": len(heard), "explain finds": ", ".join(one.kind for one in found.findings)}


trouble = Trouble(
    title="The slave isn't readable",
    threads=["apache/rocketmq#4840", "apache/rocketmq#2484", "apache/rocketmq#9879"],
    story=story,
    ways={
        "slaveReadEnable=false, RocketMQ's default": {"readable": False},
        "slaveReadEnable=true": {"readable": True},
    },
)
