"""The cost of message traces for a producer: with traces off, compared with a producer without any trace code; and on.

Windows of the three producers alternate, and the client's CPU time is compared. So other load on the machine affects
all of them.
"""

import asyncio
import os
from typing import Any

from benchmarks.figures import Stand, Values
from benchmarks.figures.producer import send_single
from benchmarks.figures.throughput import TOPIC, WARM_SECONDS
from benchmarks.frames import BODY
from benchmarks.machine import cpu_ns
from benchmarks.servers import broker, nameserver
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.settings import ProducerSettings
from staticfire.client.produce.producer import Producer
from staticfire.client.produce.selectors import Selector
from staticfire.client.produce.send_result import SendResult
from staticfire.protocol.messages import Message

# Shorter windows would depend too much on other load.
TURNS, SECONDS_MIN = 10, 1.0


class BareProducer(Producer):
    """A producer as it would be without traces: the path of a plain send, without the check for them."""

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: Any = None,
    ) -> SendResult:
        sender = self._sender
        if sender is None or queue is not None or selector is not None:
            return await super().send(message, queue=queue, selector=selector, key=key)
        backpressure = sender.backpressure
        if backpressure.messages >= backpressure.messages_max or backpressure.bytes >= backpressure.bytes_max:
            return await super().send(message)
        return await sender.post(message)


class TraceOff:
    """trace_off: messages per CPU time of a producer with traces off, and with traces on, compared with bare ones."""

    name = "trace_off"
    keys = ("trace_off_ratio", "trace_on_ratio")

    def measure(self, stand: Stand) -> Values:
        with nameserver() as names, broker(stand.folder, namesrv=names.address, traceTopicEnable="true"):
            bare, off, on = asyncio.run(_cpu_us(names.address, max(stand.seconds, SECONDS_MIN)))
        return {"trace_off_ratio": bare / off, "trace_on_ratio": bare / on}


async def _cpu_us(namesrv: str, seconds: float) -> list[float]:
    """Return the client's CPU time per send of each of the three producers."""
    async with (
        BareProducer("bench-bare", namesrv) as bare,
        Producer("bench-off", namesrv) as off,
        Producer("bench-on", namesrv, ProducerSettings(enable_trace=True)) as on,
    ):
        producers, spent_ns, sent = (bare, off, on), [0, 0, 0], [0, 0, 0]
        for producer in producers:
            await producer.send(Message(TOPIC, BODY, tags="paid"))
            await send_single(producer, WARM_SECONDS)
        for _ in range(TURNS):
            for index, producer in enumerate(producers):
                before = cpu_ns(os.getpid())
                sent[index] += await send_single(producer, seconds / TURNS)
                spent_ns[index] += cpu_ns(os.getpid()) - before
    return [ns / 1000 / count for ns, count in zip(spent_ns, sent, strict=True)]
