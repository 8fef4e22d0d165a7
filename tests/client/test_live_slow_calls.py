"""Plain listeners, one of whose calls is slow: the finished calls before it, in the same visit to a thread, count."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from staticfire.broker.server import Broker
from staticfire.client import (
    Admin,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    OrderedStatus,
    Producer,
    PushConsumer,
    PushSettings,
)
from staticfire.client.consume.results.consume_results import Messages
from tests.client.live_cluster import live_cluster
from tests.scenarios.logged import LogLine, logged

__all__ = ["logged"]

WITHIN_S = 60
SLOW = 9
SENT = 12
COMMITS_OFTEN: dict[str, Any] = {"persist_first_ms": 20, "persist_interval_ms": 20}


@dataclass
class Live:
    """A broker with twelve messages in one queue, and what listeners wait for in the slow one."""

    namesrv: str
    broker: Broker
    release: threading.Event = field(default_factory=threading.Event)
    heard: list[int] = field(default_factory=list)
    failing: int = -1
    cancelled: int = -1

    def consumer(self, is_ordered: bool = False, **choices: int) -> PushConsumer:
        settings = PushSettings(consume_from_where=ConsumeFromWhere.FIRST_OFFSET, **choices)  # type: ignore[arg-type]
        member = PushConsumer("billing", self.namesrv, settings)
        member.subscribe("orders")
        (member.ordered_listener if is_ordered else member.listener)(self.listener(is_ordered))
        return member

    def listener(self, is_ordered: bool) -> Callable[..., Any]:
        def listen(messages: Messages, _: object) -> object:
            [message] = messages
            number = int(message.body)
            self.heard.append(number)
            if number == SLOW and message.reconsume_times == 0:
                self.release.wait()
            if number == self.cancelled and message.reconsume_times == 0:
                raise asyncio.CancelledError
            if number == self.failing and message.reconsume_times == 0:
                return ConsumeStatus.RECONSUME_LATER
            return OrderedStatus.SUCCESS if is_ordered else ConsumeStatus.CONSUME_SUCCESS

        return listen

    @property
    def committed(self) -> int:
        return self.broker.tables.groups.offsets.committed("billing", "orders", 0)


@pytest_asyncio.fixture
async def live(tmp_path: Path) -> AsyncIterator[Live]:
    async with live_cluster(tmp_path, queues=1) as cluster, Producer("shop", cluster.namesrv) as producer:
        await producer.send_many([Message("orders", b"%d" % number) for number in range(SENT)])
        live = Live(cluster.namesrv, cluster.brokers[0])
        yield live
        live.release.set()


@pytest.fixture
def overdue(logged: list[LogLine]) -> Callable[[], int]:
    """How many messages were sent back because they took too long."""
    return lambda: sum(line.event == "message_overdue" for line in logged)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not condition():  # noqa: ASYNC110 (listeners run in threads, and brokers report no commits)
            await asyncio.sleep(0.01)  # house: over real sockets


def cached(member: PushConsumer) -> int:
    return sum(member.cached.values())


@pytest.mark.row("C9")
@pytest.mark.row("C10")
@pytest.mark.parametrize("limit", ["resend_after_ms", "consume_timeout_ms"])
async def test_only_the_slow_message_is_sent_back(live: Live, limit: str, overdue: Callable[[], int]) -> None:
    limits: dict[str, Any] = {limit: 100}
    async with live.consumer(consume_threads=2, **limits) as member:
        await until(lambda: overdue() > 0 and cached(member) == 0)
        live.release.set()
    assert overdue() == 1
    assert live.committed == SENT
    assert sorted(live.heard) == list(range(SENT))  # Two threads take turns as the system lets them.


@pytest.mark.row("C12")
async def test_the_calls_before_it_count_while_it_runs(live: Live) -> None:
    live.failing = 3
    async with live.consumer(consume_threads=1, **COMMITS_OFTEN) as member:
        await until(lambda: cached(member) == SENT - SLOW)
        await until(lambda: live.committed == SLOW)
        assert live.heard == list(range(SLOW + 1))
        live.release.set()


@pytest.mark.row("C4")
async def test_a_call_before_it_that_raises_cancelled_error_is_retried(live: Live, logged: list[LogLine]) -> None:
    live.cancelled = 3
    async with live.consumer(consume_threads=1, **COMMITS_OFTEN) as member:
        await until(lambda: cached(member) == SENT - SLOW)
        await until(lambda: live.committed == SLOW)
        live.release.set()
    assert [line.fields["error"] for line in logged if line.event == "listener_raised"] == ["CancelledError()"]


@pytest.mark.row("G2")
async def test_popped_messages_before_it_are_acknowledged_while_it_runs(live: Live) -> None:
    async with Admin(live.namesrv) as admin:
        await admin.set_consume_mode("orders", "billing", "POP")
    async with live.consumer(consume_threads=1, client_rebalance=False) as member:
        await until(lambda: live.heard[-1:] == [SLOW])
        await until(lambda: cached(member) == SENT - SLOW)
        live.release.set()


@pytest.mark.row("O2")
async def test_in_order_the_calls_before_it_count_while_it_runs(live: Live) -> None:
    async with live.consumer(is_ordered=True, **COMMITS_OFTEN) as member:
        await until(lambda: live.committed == SLOW)
        assert cached(member) == SENT - SLOW
        live.release.set()
        await until(lambda: live.committed == SENT)
    assert live.heard == list(range(SENT))


@pytest.mark.row("C12")
@pytest.mark.parametrize("is_ordered", [False, True], ids=["concurrent", "ordered"])
async def test_a_consumer_that_leaves_without_its_stuck_listener_stores_the_results_before_it(
    live: Live, is_ordered: bool
) -> None:
    async with live.consumer(is_ordered, consume_threads=1, await_termination_ms=100):
        await until(lambda: SLOW in live.heard)
    assert live.heard == list(range(SLOW + 1))
    assert live.committed == SLOW
