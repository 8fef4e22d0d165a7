"""A message that can't be consumed: sixteen retries, over four hours of message time, then %DLQ%.

The clock jumps to the next retry as soon as the consumer has failed, so the figure is the cost of the steps alone.
"""

import asyncio
import time

from benchmarks.asking import ask
from benchmarks.figures import Stand, Values
from benchmarks.frames import BODY, QUEUES
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


class DeadLetter:
    """dlq_road_ms: the real time from the send until the message is in %DLQ%."""

    name = "dlq_road"
    keys = ("dlq_road_ms",)

    def measure(self, stand: Stand) -> Values:
        with nameserver() as names, broker(stand.folder, namesrv=names.address) as server:
            ask(server.port, NATIVE, UpdateTopic(TOPIC, QUEUES, QUEUES, READ_WRITE))
            return {"dlq_road_ms": asyncio.run(_measure(names.address, server))}


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
