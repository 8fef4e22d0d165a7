"""KeyboardInterrupt in a listener: the program ends with it, and what was done before it counts."""

import asyncio
from pathlib import Path

import pytest

from staticfire.client import (
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    OrderedContext,
    OrderedStatus,
    Producer,
    PushConsumer,
    PushSettings,
)
from staticfire.client.consume.results.consume_results import Messages
from tests.client.live_cluster import live_cluster

WITHIN_S = 60


def look(messages: Messages) -> None:
    if messages[0].body == b"interrupt":
        raise KeyboardInterrupt


def attach(consumer: PushConsumer, kind: str) -> None:
    async def waits(messages: Messages, context: ConsumeContext) -> ConsumeStatus:
        look(messages)
        return ConsumeStatus.CONSUME_SUCCESS

    def plain(messages: Messages, context: ConsumeContext) -> ConsumeStatus:
        look(messages)
        return ConsumeStatus.CONSUME_SUCCESS

    async def waits_in_order(messages: Messages, context: OrderedContext) -> OrderedStatus:
        look(messages)
        return OrderedStatus.SUCCESS

    def plain_in_order(messages: Messages, context: OrderedContext) -> OrderedStatus:
        look(messages)
        return OrderedStatus.SUCCESS

    if "order" in kind:
        consumer.ordered_listener(waits_in_order if "async" in kind else plain_in_order)
    else:
        consumer.listener(waits if "async" in kind else plain)


class Program:
    """A cluster and a consumer in one event loop, until something ends it."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder = folder
        self.kind = kind
        self.committed = -1

    async def run(self) -> None:
        async with live_cluster(self.folder, queues=1) as cluster:
            await self._send(cluster.namesrv)
            try:
                await self._consume(cluster.namesrv)
            finally:
                self.committed = cluster.brokers[0].tables.groups.offsets.committed("billing", "orders", 0)

    async def _send(self, address: str) -> None:
        async with Producer("shop", address) as producer:
            await producer.send_many([Message("orders", body) for body in (b"1", b"2", b"interrupt", b"3")])

    async def _consume(self, address: str) -> None:
        chosen = PushSettings(consume_from_where=ConsumeFromWhere.FIRST_OFFSET, consume_threads=1)
        consumer = PushConsumer("billing", address, chosen)
        consumer.subscribe("orders")
        attach(consumer, self.kind)
        async with consumer, asyncio.timeout(WITHIN_S):
            await consumer.wait()


@pytest.mark.parametrize("kind", ["async", "plain", "async, in order", "plain, in order"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_ends_the_program_and_forgets_nothing(tmp_path: Path, kind: str) -> None:
    program = Program(tmp_path, kind)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(program.run())
    assert program.committed == 2
