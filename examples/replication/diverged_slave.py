"""The master loses its tail to a power cut, and the slave has more than its master.

staticfire simulate examples/replication/diverged_slave.py

RocketMQ's slave then waits, and continues in the middle of a record when the master's log has grown past its own end. A
slave of staticfire removes what its asynchronous master lost, so that both are equal. When it takes over, nothing is
lost. A synchronous master that lost its tail doesn't begin again: it waits for the slave to take over.
"""

from staticfire.simulation.troubles import Facts, Stage, Trouble
from staticfire.simulation.troubles.replica_pair import MASTER, SLAVE, ReplicaPair


async def story(stage: Stage, takes_over: bool) -> Facts:
    """Count the messages that were sent, and those that both have afterwards."""
    pair = await ReplicaPair.open(stage, "orders")
    shop = await stage.producer()
    await stage.send(shop, "orders", 20)
    await stage.run_for(seconds=2)
    await stage.send(shop, "orders", 20, every_ms=5)
    await pair.caught_up()
    sent = pair.end(SLAVE, "orders")
    pair.kill(MASTER, power_loss=True)
    await stage.run_for(seconds=1)
    if takes_over:
        await pair.failover()
    await pair.start(MASTER)
    await stage.run_for(seconds=10)
    now = SLAVE if takes_over else MASTER
    other = MASTER if takes_over else SLAVE
    return {"sent": sent, "the master has": pair.end(now, "orders"), "the slave has": pair.end(other, "orders")}


trouble = Trouble(
    title="The slave has more than its master",
    threads=["apache/rocketmq#3388", "apache/rocketmq#2706"],
    story=story,
    ways={"the master comes back": {"takes_over": False}, "the slave takes over": {"takes_over": True}},
)
