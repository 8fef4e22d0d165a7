"""A transaction that a program isn't sure of yet takes more than a minute.

staticfire simulate examples/troubles/open_transaction.py

A program sends a half message and answers UNKNOWN: its database isn't done. The broker checks it; the answer is UNKNOWN
twice more, and then COMMIT.
"""

from typing import Any

from staticfire.client import (
    ConsumeContext,
    Message,
    OrderedContext,
    ReceivedMessage,
    TransactionProducer,
    TransactionState,
)
from staticfire.simulation.troubles import Facts, Stage, Trouble
from staticfire.simulation.troubles.stage import NAMESRV, time_words

UNSURE = 2
QUICK = {"transaction_check_interval": 1_000, "transaction_time_out": 1_000}


async def story(stage: Stage, **settings: Any) -> Facts:
    """Measure how long it takes from the half message to the listener."""
    await stage.open("orders", **settings)
    heard_ms: list[int] = []
    checked_ms: list[int] = []

    async def listen(_: tuple[ReceivedMessage, ...], __: ConsumeContext | OrderedContext) -> None:
        heard_ms.append(stage.now_ms)

    def check(_: ReceivedMessage) -> TransactionState:
        checked_ms.append(stage.now_ms)
        return TransactionState.UNKNOWN if len(checked_ms) <= UNSURE else TransactionState.COMMIT

    await stage.consumer("billing", "billing", "orders", listen)
    shop = TransactionProducer("shop", NAMESRV, machine=stage.machine("shop"), check=check)
    await stage.world.start("shop", shop)
    sent_ms = stage.now_ms
    await shop.send_in_transaction(Message("orders", b"1 book"), lambda _, __: TransactionState.UNKNOWN)
    await stage.run_for(minutes=5)
    return {
        "first check after": time_words(checked_ms[0] - sent_ms),
        "times": len(checked_ms),
        "consumed after": time_words(heard_ms[0] - sent_ms),
    }


trouble = Trouble(
    title="A transaction that a program isn't sure of yet takes more than a minute",
    threads=["apache/rocketmq#1565", "apache/rocketmq#7415", "apache/rocketmq-site#637"],
    story=story,
    ways={"RocketMQ's default": {}, "transactionCheckInterval=1000, transactionTimeOut=1000": QUICK},
)
