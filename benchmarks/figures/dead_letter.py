"""A message that can't be consumed: sixteen retries, over four hours of message time, then %DLQ%.

The clock jumps to the next retry as soon as the consumer has failed, so `dlq_road_ms` is the cost of the steps alone.
`retry_cpu_us` is what a retry costs when many messages fail side by side, as in `make demo`: each with its own due
times, so a clock that stopped at each of them would show.
"""

import asyncio
import time

from benchmarks.asking import ask
from benchmarks.figures import Stand, Values
from benchmarks.frames import BODY, QUEUES
from benchmarks.machine import cpu_ns
from benchmarks.servers import ServerProcess, broker, nameserver
from staticfire.client.admin.clock import ClusterClock
from staticfire.client.consume.results.consume_results import ConsumeContext, ConsumeStatus, Messages
from staticfire.client.produce.producer import Producer
from staticfire.client.push.push_consumer import PushConsumer
from staticfire.protocol.codecs import NATIVE
from staticfire.protocol.messages import Message
from staticfire.protocol.names import dead_letter_topic
from staticfire.protocol.permissions import READ_WRITE
from staticfire.protocol.requests.offsets import GetMaxOffset, OffsetAnswer
from staticfire.protocol.requests.topics import UpdateTopic

TOPIC, GROUP = "unconsumable", "bench-fails"
# Calls of the listener: the first delivery and 16 retries.
CALLS = 17
FIVE_HOURS_MS = 5 * 3_600_000
# Messages that fail side by side, and the time between two of them.
FAILING, QUICK_FAILING = 400, 100
GAP_S = 0.003


class DeadLetter:
    """dlq_road_ms: the real time from the send until the message is in %DLQ%."""

    name = "dlq_road"
    keys = ("dlq_road_ms",)

    def measure(self, stand: Stand) -> Values:
        with nameserver() as names, broker(stand.folder, namesrv=names.address) as server:
            ask(server.port, NATIVE, UpdateTopic(TOPIC, QUEUES, QUEUES, READ_WRITE))
            return {"dlq_road_ms": asyncio.run(_measure(names.address, server))}


class Retries:
    """retry_cpu_us: the CPU time of nameserver and broker for one retry, while the clock skips."""

    name = "retry"
    keys = ("retry_cpu_us",)

    def measure(self, stand: Stand) -> Values:
        failing = QUICK_FAILING if stand.is_quick else FAILING
        with nameserver() as names, broker(stand.folder, namesrv=names.address) as server:
            ask(server.port, NATIVE, UpdateTopic(TOPIC, QUEUES, QUEUES, READ_WRITE))
            pids = (*names.pids, *server.pids)
            before_ns = sum(cpu_ns(pid) for pid in pids)
            asyncio.run(_retry(names.address, failing))
            spent_us = (sum(cpu_ns(pid) for pid in pids) - before_ns) / 1000
            dead = ask(server.port, NATIVE, GetMaxOffset(dead_letter_topic(GROUP), 0))
            if not isinstance(dead, OffsetAnswer) or dead.offset != failing:
                raise SystemExit(f"bench: retry: {failing} messages failed; in %DLQ%: {dead}")
            return {"retry_cpu_us": spent_us / (failing * (CALLS - 1))}


async def _retry(namesrv: str, failing: int) -> None:
    """Send messages that always fail, then let the clock skip until all of them have been retried sixteen times."""
    calls, all_failed, last = 0, asyncio.Event(), asyncio.Event()
    consumer = PushConsumer(GROUP, namesrv=namesrv)
    consumer.subscribe(TOPIC)

    @consumer.listener
    async def fail(messages: Messages, context: ConsumeContext) -> ConsumeStatus:
        nonlocal calls
        calls += len(messages)
        if calls >= failing:
            all_failed.set()
        if calls >= failing * CALLS:
            last.set()
        return ConsumeStatus.RECONSUME_LATER

    async with Producer("bench", namesrv=namesrv) as producer, consumer:
        for _ in range(failing):
            await producer.send(Message(TOPIC, BODY))
            await asyncio.sleep(GAP_S)  # Each has due times of its own.
        await all_failed.wait()
        clock = ClusterClock(producer.client)
        await clock.skip()
        await last.wait()
        await clock.run()
        await clock.advance(by_ms=1)  # It waits until the last one is in %DLQ%.


async def _measure(namesrv: str, server: ServerProcess) -> float:
    calls = 0
    first = asyncio.Event()
    consumer = PushConsumer(GROUP, namesrv=namesrv)
    consumer.subscribe(TOPIC)

    @consumer.listener
    async def fail(messages: Messages, context: ConsumeContext) -> ConsumeStatus:
        nonlocal calls
        calls += len(messages)
        first.set()
        return ConsumeStatus.RECONSUME_LATER

    async with Producer("bench", namesrv=namesrv) as producer, consumer:
        await producer.queues(TOPIC)
        started = time.perf_counter()
        await producer.send(Message(TOPIC, BODY))
        await first.wait()
        await ClusterClock(producer.client).advance(by_ms=FIVE_HOURS_MS)
        road_s = time.perf_counter() - started
    dead = ask(server.port, NATIVE, GetMaxOffset(dead_letter_topic(GROUP), 0))
    if calls != CALLS or not isinstance(dead, OffsetAnswer) or dead.offset != 1:
        raise SystemExit(f"bench: dlq_road: the listener was called {calls} times, not {CALLS}; in %DLQ%: {dead}")
    return road_s * 1000
