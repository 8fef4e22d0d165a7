"""After a failover that loses messages, new ones are skipped, too.

staticfire simulate examples/replication/skipped_after_truncation.py

The group has consumed messages that the new master does not have. Its offset is beyond the end of the queue. New
messages get the lost offsets. When the consumer pulls, the broker answers "offset moved" with the end of the queue: the
new messages before it are never delivered.
"""

from typing import Any

from staticfire.simulation.troubles import Facts, Stage, Trouble
from staticfire.simulation.troubles.replica_pair import MASTER, ReplicaPair


async def story(stage: Stage, lags: bool) -> Facts:
    """Count the new messages that are delivered."""
    pair = await ReplicaPair.open(stage, "orders")
    shop = await stage.producer()
    heard: list[bytes] = []

    async def listen(messages: Any, _: Any) -> None:
        heard.extend(message.body for message in messages)

    await stage.consumer("billing", "billing", "orders", listen)
    await stage.send(shop, "orders", 10)
    await pair.caught_up()
    if lags:
        await pair.hold()
    await stage.send(shop, "orders", 5)
    await stage.world.until(lambda: len(heard) >= 15, 60_000)
    if not lags:
        await pair.caught_up()
    pair.kill(MASTER)
    await stage.run_for(seconds=10)  # The consumer commits its offset at the slave.
    await stage.world.stop("billing")
    await pair.failover(losing=5 if lags else None)
    before = len(heard)
    await stage.run_for(seconds=1)
    await stage.send(shop, "orders", 3)
    await stage.consumer("billing", "billing", "orders", listen)
    await stage.run_for(seconds=30)
    return {"new messages": 3, "delivered": len(heard) - before}


trouble = Trouble(
    title="After a failover that loses messages, new ones are skipped, too",
    threads=["apache/rocketmq#6662"],
    story=story,
    ways={
        "the slave had no copy of the last 5 messages": {"lags": True},
        "it had everything": {"lags": False},
    },
)
