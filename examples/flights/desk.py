"""One process of the group that handles flights: `python desk.py NAMESRV LEDGER`. Any number of them share the work.

A flight that departed is handled; a cancelled one can't be, so its listener fails, every time. What a desk has done
is in its ledger before the broker knows it:

    done <key> <times tried before> <ms since it was sent> <message id> <ms since 1970>
    failed <key> <times tried before> <message id> <ms since 1970>
    queues <number of queues that are this desk's now>
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence

import msgspec
from data import TOPIC

from staticfire.client import (
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    MessageQueue,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)

GROUP = "flights-desk"


class Departure(msgspec.Struct):
    """What a desk reads of a flight."""

    dep_time: int | None


_departure = msgspec.json.Decoder(Departure).decode


class Ledger:
    """A file to which lines are appended; a line is there when `write` returns, whatever happens to the process."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, *words: object) -> None:
        os.write(self._descriptor, (" ".join(map(str, words)) + "\n").encode())


async def handle_flights(namesrv: str, ledger: Ledger) -> None:
    """Work until SIGTERM."""
    settings = PushSettings(consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    consumer = PushConsumer(GROUP, namesrv, settings)
    consumer.subscribe(TOPIC)

    @consumer.listener
    async def handle(messages: Sequence[ReceivedMessage], context: ConsumeContext) -> ConsumeStatus:
        for message in messages:
            key, tried, wall_ms = message.keys[0], message.reconsume_times, int(time.time() * 1000)
            if _departure(message.body).dep_time is None:
                ledger.write("failed", key, tried, message.message_id, wall_ms)
                return ConsumeStatus.RECONSUME_LATER
            ledger.write("done", key, tried, max(0, wall_ms - message.born_ms), message.message_id, wall_ms)
        return ConsumeStatus.CONSUME_SUCCESS

    @consumer.on_queues_changed
    def changed(topic: str, every: Sequence[MessageQueue], own: Sequence[MessageQueue]) -> None:
        if topic == TOPIC:
            ledger.write("queues", len(own))

    end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
    async with consumer:
        await end.wait()


if __name__ == "__main__":
    asyncio.run(handle_flights(sys.argv[1], Ledger(sys.argv[2])))
