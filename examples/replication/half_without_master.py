"""A transaction stays undecided while the master is away.

staticfire simulate examples/replication/half_without_master.py

The half message is at the slave, but only a master accepts the end of a transaction, and only a master checks it.
"""

from typing import Any

from staticfire.client import Message, TransactionProducer, TransactionState
from staticfire.simulation.troubles import Facts, Stage, Trouble
from staticfire.simulation.troubles.replica_pair import MASTER, ReplicaPair
from staticfire.simulation.troubles.stage import NAMESRV, time_words

QUICK = {"transaction_check_interval": 5_000, "transaction_time_out": 2_000}


async def story(stage: Stage, takes_over: bool) -> Facts:
    """Measure when the message of an open transaction comes. The master is lost after a second, for three minutes."""
    pair = await ReplicaPair.open(stage, "orders", **QUICK)
    heard_ms: list[int] = []

    async def listen(_: Any, __: Any) -> None:
        heard_ms.append(stage.now_ms)

    await stage.consumer("billing", "billing", "orders", listen)
    shop = TransactionProducer("shop", NAMESRV, machine=stage.machine("shop"), check=lambda _: TransactionState.COMMIT)
    await stage.world.start("shop", shop)
    sent_ms = stage.now_ms
    await shop.send_in_transaction(Message("orders", b"1 book"), lambda _, __: TransactionState.UNKNOWN)
    await pair.caught_up()
    await stage.run_for(seconds=1)
    pair.kill(MASTER)
    await stage.run_for(seconds=1)
    if takes_over:
        await pair.failover()
    await stage.run_for(seconds=180)
    if not takes_over:
        await pair.start(MASTER)
    await stage.run_for(seconds=90)
    return {"consumed after": time_words(heard_ms[0] - sent_ms) if heard_ms else "never"}


trouble = Trouble(
    title="A transaction stays undecided while the master is away",
    threads=["apache/rocketmq#2259"],
    story=story,
    ways={"the master is back after 3 minutes": {"takes_over": False}, "the slave takes over": {"takes_over": True}},
)
