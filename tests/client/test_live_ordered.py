"""Ordered consumption over real sockets, with real threads."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from staticfire.broker.server import Broker
from staticfire.client import (
    ClientSettings,
    ConsumeFromWhere,
    Message,
    MessageQueue,
    OrderedContext,
    OrderedStatus,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushSettings,
)
from staticfire.client.consume.results.consume_results import Messages
from staticfire.protocol.requests.locks import MessageQueue as LockedQueue
from tests.client.live_cluster import live_cluster
from tests.protocols import in_both_protocols

BOTH_PROTOCOLS = in_both_protocols("settings", indirect=False)
WITHIN_S = 60


@dataclass
class Live:
    """A nameserver and a broker on free ports."""

    namesrv: str
    broker: Broker

    def holder(self, queue_id: int) -> str | None:
        queue, uptime_ms = LockedQueue("orders", "broker-a", queue_id), self.broker.state.machine.clock.uptime_ms()
        return self.broker.tables.groups.queue_locks.holder("billing", queue, uptime_ms)


@pytest_asyncio.fixture
async def live(tmp_path: Path) -> AsyncIterator[Live]:
    async with live_cluster(tmp_path, queues=2) as cluster:
        yield Live(cluster.namesrv, cluster.brokers[0])


Listen = Callable[[Messages, OrderedContext], OrderedStatus]


def consumer(live: Live, listen: Listen, settings: ClientSettings, **choices: int) -> PushConsumer:
    first = ConsumeFromWhere.FIRST_OFFSET
    push = PushSettings(client=settings, consume_from_where=first, **choices)  # type: ignore[arg-type]
    member = PushConsumer("billing", live.namesrv, push)
    member.subscribe("orders")
    member.ordered_listener(listen)
    return member


@BOTH_PROTOCOLS
@pytest.mark.row("O1")
@pytest.mark.row("O2")
async def test_plain_functions_of_members_that_come_and_go(live: Live, settings: ClientSettings) -> None:
    heard: list[tuple[int, int]] = []
    at_work: dict[int, int] = {0: 0, 1: 0}
    most = 0
    news = asyncio.Condition()
    loop = asyncio.get_running_loop()

    async def tell() -> None:
        async with news:
            news.notify_all()

    def listen(messages: Messages, context: OrderedContext) -> OrderedStatus:
        nonlocal most
        queue = context.queue.queue_id
        at_work[queue] += 1
        most = max(most, at_work[queue])
        heard.extend((queue, int(message.body)) for message in messages)
        at_work[queue] -= 1
        asyncio.run_coroutine_threadsafe(tell(), loop)
        return OrderedStatus.SUCCESS

    async def until(count: int) -> None:
        async with asyncio.timeout(WITHIN_S), news:
            await news.wait_for(lambda: len(heard) >= count)

    async with Producer("shop", live.namesrv, ProducerSettings(client=settings)) as producer:

        async def feed(first: int, last: int) -> None:
            for number in range(first, last):
                for queue in range(2):
                    to = MessageQueue("orders", "broker-a", queue)
                    await producer.send(Message("orders", b"%d" % number), queue=to)

        async with consumer(live, listen, settings):
            feeding = asyncio.create_task(feed(0, 300))
            await until(100)
            async with consumer(live, listen, settings):
                await until(300)
            await feeding
            await until(600)
    for queue in range(2):
        assert [number for where, number in heard if where == queue] == list(range(300))
    assert most == 1
    assert live.holder(0) is live.holder(1) is None


@pytest.mark.row("O1")
async def test_a_thread_that_cant_be_ended_keeps_its_queue_locked(live: Live) -> None:
    begun, release = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def hang(messages: Messages, context: OrderedContext) -> OrderedStatus:
        loop.call_soon_threadsafe(begun.set)
        release.wait(WITHIN_S)
        return OrderedStatus.SUCCESS

    member = consumer(live, hang, ClientSettings(), await_termination_ms=50)
    async with Producer("shop", live.namesrv) as producer:
        await producer.send(Message("orders", b"x"), queue=MessageQueue("orders", "broker-a", 0))
        await member.__aenter__()
        await begun.wait()
        held_by = member.client.client_id
        assert live.holder(0) == live.holder(1) == held_by
        leaving = asyncio.create_task(member.__aexit__())
        members = live.broker.tables.groups.consumers
        async with asyncio.timeout(WITHIN_S):
            while members.client_ids("billing"):  # noqa: ASYNC110 (a broker tells nobody of a goodbye)
                await asyncio.sleep(0.01)  # house: over real sockets
        assert live.holder(0) == held_by
        assert live.holder(1) is None
        release.set()
        await leaving
