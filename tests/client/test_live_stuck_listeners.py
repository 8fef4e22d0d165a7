"""Plain listeners that never end: their consumer leaves all the same, and so does the process."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from staticfire.client import ConsumeFromWhere, Message, Producer, PushConsumer, PushSettings
from tests.client.live_cluster import live_cluster
from tests.scenarios.logged import LogLine, logged

__all__ = ["logged"]

pytestmark = pytest.mark.row("C12")

WITHIN_S = 60
LEAVE_MS = 200


@pytest_asyncio.fixture
async def namesrv(tmp_path: Path) -> AsyncIterator[str]:
    async with live_cluster(tmp_path, queues=1) as cluster, Producer("shop", cluster.namesrv) as producer:
        await producer.send(Message("orders", b"x"))
        yield cluster.namesrv


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """What stuck listeners wait for; set in the end."""
    release = threading.Event()
    yield release
    release.set()


def consumer(namesrv: str, listen: Callable[..., Any], is_ordered: bool) -> PushConsumer:
    settings = PushSettings(consume_from_where=ConsumeFromWhere.FIRST_OFFSET, await_termination_ms=LEAVE_MS)
    member = PushConsumer("billing", namesrv, settings)
    member.subscribe("orders")
    (member.ordered_listener if is_ordered else member.listener)(listen)
    return member


@pytest.mark.parametrize("is_ordered", [False, True], ids=["concurrent", "ordered"])
async def test_a_consumer_leaves_without_its_stuck_listener_and_names_it(
    namesrv: str, release: threading.Event, is_ordered: bool, logged: list[LogLine]
) -> None:
    begun, loop = asyncio.Event(), asyncio.get_running_loop()

    def bill_orders(*_: object) -> None:
        loop.call_soon_threadsafe(begun.set)
        release.wait()

    async with asyncio.timeout(WITHIN_S):
        async with consumer(namesrv, bill_orders, is_ordered):
            await begun.wait()
    [line] = [line for line in logged if line.event == "listener_still_runs"]
    assert (line.level, line.fields["group"], line.fields["threads"]) == ("error", "billing", 1)
    assert str(line.fields["listener"]).endswith("bill_orders")


async def test_a_blocking_consumer_leaves_as_well(namesrv: str, release: threading.Event) -> None:
    begun = threading.Event()

    def bill_orders(*_: object) -> None:
        begun.set()
        release.wait()

    def use() -> None:
        with consumer(namesrv, bill_orders, is_ordered=False):
            assert begun.wait(WITHIN_S)

    async with asyncio.timeout(WITHIN_S):
        await asyncio.to_thread(use)


PROGRAM = """
import asyncio, sys, threading
from staticfire.client import ConsumeFromWhere, PushConsumer, PushSettings

async def main():
    begun, loop = asyncio.Event(), asyncio.get_running_loop()
    settings = PushSettings(consume_from_where=ConsumeFromWhere.FIRST_OFFSET, await_termination_ms=100)
    consumer = PushConsumer("billing", sys.argv[1], settings)
    consumer.subscribe("orders")

    @consumer.listener
    def listen(messages, context):
        loop.call_soon_threadsafe(begun.set)
        threading.Event().wait()

    async with consumer:
        await begun.wait()

asyncio.run(main())
print("over")
"""


async def test_a_process_ends_without_its_stuck_listener(namesrv: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, namesrv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(WITHIN_S):
            out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert (process.returncode, out.strip()) == (0, b"over")
