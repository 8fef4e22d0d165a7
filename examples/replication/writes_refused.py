"""Too few replicas in sync: all writes are refused.

staticfire simulate examples/replication/writes_refused.py

minInSyncReplicas=2 with one slave means: without the slave, the master accepts nothing. A third replica, or
minInSyncReplicas=1, keeps the broker writable.
"""

from typing import Any

from staticfire.client import Message
from staticfire.protocol.errors import StaticfireError
from staticfire.simulation.troubles import Facts, Stage, Trouble
from staticfire.simulation.troubles.replica_pair import SLAVE, ReplicaPair


async def story(stage: Stage, **settings: Any) -> Facts:
    """Count sends that succeed and fail without the slave."""
    pair = await ReplicaPair.open(stage, "orders", broker_role="SYNC_MASTER", **settings)
    shop = await stage.producer()
    await stage.send(shop, "orders", 5)
    await pair.caught_up()
    pair.kill(SLAVE)
    await stage.run_for(seconds=20)
    sent, failed = 0, set()
    for number in range(5):
        try:
            await shop.send(Message("orders", b"%d" % number))
            sent += 1
        except StaticfireError as error:
            failed.add("in-sync replicas not enough" if "in-sync replicas" in str(error) else type(error).__name__)
    return {"sent without the slave": sent, "reason": ", ".join(sorted(failed)) or "-"}


trouble = Trouble(
    title="Too few replicas in sync: all writes are refused",
    threads=["apache/rocketmq#5657"],
    story=story,
    ways={
        "minInSyncReplicas=2": {"min_in_sync_replicas": 2, "in_sync_replicas": 2},
        "minInSyncReplicas=1, RocketMQ's default": {"min_in_sync_replicas": 1},
    },
)
