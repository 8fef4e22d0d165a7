"""The real client: 64 tasks that send one message after the other; it gathers what waits into SEND_MANY requests."""

import asyncio
import os
import time

from benchmarks.figures import Stand, Values
from benchmarks.figures.throughput import TOPIC, WARM_SECONDS
from benchmarks.frames import BODY
from benchmarks.machine import Meter, cpu_ns
from benchmarks.servers import broker, nameserver
from staticfire.client.produce.producer import Producer
from staticfire.protocol.messages import Message

SENDERS = 64


class ProducerFigure:
    """producer_per_s."""

    name = "producer"
    keys = ("producer_per_s",)

    def measure(self, stand: Stand) -> Values:
        with nameserver() as names, broker(stand.folder, namesrv=names.address) as server:
            return asyncio.run(_measure(names.address, server.pids, stand.seconds))


async def _measure(namesrv: str, pids: tuple[int, ...], seconds: float) -> Values:
    async with Producer("bench", namesrv=namesrv) as producer:
        await producer.send(Message(TOPIC, BODY, tags="paid"))
        await _send_for(producer, WARM_SECONDS)
        own_ns = cpu_ns(os.getpid())
        meter = Meter(*pids)
        sent = await _send_for(producer, seconds)
        meter.stop()
        own_us = (cpu_ns(os.getpid()) - own_ns) / 1000
    return {
        "producer_per_s": sent / meter.seconds,
        "producer_cpu_us": meter.server_s * 1e6 / sent,
        "producer_client_cpu_us": own_us / sent,
        "producer_foreign": meter.foreign_cores,
    }


async def _send_for(producer: Producer, seconds: float) -> int:
    end = time.perf_counter() + seconds
    counts = await asyncio.gather(*[_send_until(producer, end, number) for number in range(SENDERS)])
    return sum(counts)


async def _send_until(producer: Producer, end: float, sender: int) -> int:
    sent = 0
    while time.perf_counter() < end:
        await producer.send(Message(TOPIC, BODY, tags="paid", keys=[f"order-{sender}-{sent}"]))
        sent += 1
    return sent
