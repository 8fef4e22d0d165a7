"""Consumers that pop get nothing while the master is away.

staticfire simulate examples/replication/pops_without_master.py

A pop writes a check-point, and only a master may write. RocketMQ's clients send pops to no slave, and neither do ours:
`receive` raises the reason. With a failover there is a master again; what was popped before and not acknowledged comes
again.
"""

from staticfire.client import ConsumeFromWhere, SimpleConsumer, SimpleSettings
from staticfire.protocol.errors import StaticfireError
from staticfire.simulation.troubles import Facts, Stage, Trouble
from staticfire.simulation.troubles.replica_pair import MASTER, ReplicaPair
from staticfire.simulation.troubles.stage import NAMESRV

FIRST = ConsumeFromWhere.FIRST_OFFSET


async def story(stage: Stage, takes_over: bool) -> Facts:
    """Count what a simple consumer receives, and the calls of `receive` that fail."""
    pair = await ReplicaPair.open(stage, "orders")
    await stage.send(await stage.producer(), "orders", 20)
    await pair.caught_up()
    await stage.run_for(seconds=2)
    pair.kill(MASTER)
    await stage.run_for(seconds=1)
    if takes_over:
        await pair.failover()
    consumer = SimpleConsumer("billing", NAMESRV, SimpleSettings(consume_from_where=FIRST), stage.machine("billing"))
    consumer.subscribe("orders")
    await stage.world.start("billing", consumer)
    received, failed = 0, 0
    until_ms = stage.now_ms + 30_000
    while stage.now_ms < until_ms:
        try:
            messages = await consumer.receive(16, 60_000, 2_000)
        except StaticfireError:
            failed += 1
            await stage.run_for(seconds=2)
        else:
            received += len(messages)
            for message in messages:
                await consumer.ack(message)
    return {"received": received, "failed calls": failed}


trouble = Trouble(
    title="Consumers that pop get nothing while the master is away",
    threads=["alibaba/rocketmq#399"],
    story=story,
    ways={"no master": {"takes_over": False}, "the slave takes over": {"takes_over": True}},
)
