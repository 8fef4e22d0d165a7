"""A consumer of our own, for mqadmin to look at beside the Java one."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from staticfire.client import (
    ClientSettings,
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)

START_TIMEOUT_S = 30
SETTINGS = PushSettings(
    enable_trace=True, client=ClientSettings(protocol="rocketmq"), consume_from_where=ConsumeFromWhere.FIRST_OFFSET
)


@contextmanager
def our_member(namesrv: str, topic: str, group: str) -> Iterator[str]:
    """Let a consumer live in a thread; yield its client id."""
    started = threading.Event()
    ends: list[tuple[asyncio.AbstractEventLoop, asyncio.Event, str]] = []

    async def live() -> None:
        consumer = PushConsumer(group, namesrv, SETTINGS)
        consumer.subscribe(topic)

        @consumer.listener
        async def listen(_: tuple[ReceivedMessage, ...], __: ConsumeContext) -> ConsumeStatus:
            return ConsumeStatus.CONSUME_SUCCESS

        async with consumer:
            end = asyncio.Event()
            ends.append((asyncio.get_running_loop(), end, consumer.client.client_id))
            started.set()
            await end.wait()

    thread = threading.Thread(target=asyncio.run, args=(live(),), name="our member")
    thread.start()
    try:
        if not started.wait(START_TIMEOUT_S):
            raise SystemExit(f"mqadmin: our consumer has not started within {START_TIMEOUT_S} s")
        yield ends[0][2]
    finally:
        for loop, end, _ in ends:
            loop.call_soon_threadsafe(end.set)
        thread.join()
