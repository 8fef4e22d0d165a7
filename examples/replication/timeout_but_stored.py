"""FLUSH_SLAVE_TIMEOUT: the message is stored all the same, and sent twice.

staticfire simulate examples/replication/timeout_but_stored.py

With SYNC_MASTER and inSyncReplicas=2 a send waits for a slave, up to slaveTimeout. After that its status is
FLUSH_SLAVE_TIMEOUT. The message is stored and is delivered. A program that sends it again has it twice. With the
default settings of both sides the client gives up first, and sees only a timeout.
"""

from typing import Any

from staticfire.client import Message, SendStatus
from staticfire.protocol.errors import StaticfireError
from staticfire.simulation.troubles import Facts, Stage, Trouble
from staticfire.simulation.troubles.replica_pair import ReplicaPair

SYNC = {"broker_role": "SYNC_MASTER", "in_sync_replicas": 2}


async def story(stage: Stage, slave_timeout: int, sends_again: bool) -> Facts:
    """Count the messages that a consumer gets of ten orders."""
    pair = await ReplicaPair.open(stage, "orders", slave_timeout=slave_timeout, **SYNC)
    shop = await stage.producer(retry_times_when_send_failed=0)
    heard: list[bytes] = []

    async def listen(messages: Any, _: Any) -> None:
        heard.extend(message.body for message in messages)

    await stage.consumer("billing", "billing", "orders", listen)
    await stage.send(shop, "orders", 1)
    await pair.caught_up()
    await pair.hold()
    outcomes: dict[str, int] = {}
    for number in range(1, 10):
        message = Message("orders", b"%d" % number)
        try:
            outcome = (await shop.send(message)).status.value
        except StaticfireError as error:
            outcome = type(error).__name__
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        if sends_again and outcome != SendStatus.SEND_OK.value:
            await pair.hold(False)
            await shop.send(Message("orders", b"%d" % number))
            await pair.hold()
    await stage.run_for(seconds=5)
    seen = ", ".join(f"{count} x {outcome}" for outcome, count in outcomes.items())
    return {"the program sees": seen, "orders": 10, "delivered": len(heard)}


trouble = Trouble(
    title="FLUSH_SLAVE_TIMEOUT: the message is stored all the same",
    threads=["apache/rocketmq#1244", "apache/rocketmq#5657"],
    story=story,
    ways={
        "slaveTimeout=3000, the program sends again": {"slave_timeout": 3_000, "sends_again": True},
        "slaveTimeout=1000, the program sends again": {"slave_timeout": 1_000, "sends_again": True},
        "slaveTimeout=1000, it counts as sent": {"slave_timeout": 1_000, "sends_again": False},
    },
)
