"""Messages that were acknowledged are gone after a failover.

staticfire simulate examples/replication/lost_after_failover.py

An asynchronous master answers SEND_OK before any slave has the message. If it is lost then, and a slave takes over, the
message never was. With SYNC_MASTER and inSyncReplicas=2 a send waits for the slave.
"""

from typing import Any

from staticfire.client import Message, SendStatus
from staticfire.protocol.errors import StaticfireError
from staticfire.simulation.troubles import Facts, Stage, Trouble
from staticfire.simulation.troubles.replica_pair import MASTER, SLAVE, ReplicaPair


async def story(stage: Stage, **settings: Any) -> Facts:
    """Count the messages with SEND_OK, and those that the new master has."""
    pair = await ReplicaPair.open(stage, "orders", **settings)
    shop = await stage.producer(send_msg_timeout_ms=10_000)
    await stage.send(shop, "orders", 10)
    await pair.caught_up()
    await pair.hold()
    safe = 10
    for number in range(5):
        try:
            safe += (await shop.send(Message("orders", b"%d" % number))).status is SendStatus.SEND_OK
        except StaticfireError:
            pass
    pair.kill(MASTER)
    await stage.run_for(seconds=1)
    await pair.failover(losing=5)
    has = pair.end(SLAVE, "orders")
    return {"SEND_OK": safe, "the new master has": has, "lost": max(0, safe - has)}


trouble = Trouble(
    title="Messages that were acknowledged are gone after a failover",
    threads=["apache/rocketmq#6662", "apache/rocketmq#7689"],
    story=story,
    ways={
        "ASYNC_MASTER, RocketMQ's default": {},
        "SYNC_MASTER": {"broker_role": "SYNC_MASTER"},
        "SYNC_MASTER, inSyncReplicas=2": {"broker_role": "SYNC_MASTER", "in_sync_replicas": 2},
    },
)
