"""The real client: 64 tasks that send one message after another, combined into SEND_MANY requests; and `send_many`."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable

from benchmarks.figures import Stand, Values
from benchmarks.figures.throughput import TOPIC, WARM_SECONDS
from benchmarks.frames import BODY
from benchmarks.machine import Meter, cpu_ns
from benchmarks.servers import broker, nameserver
from staticfire.client.produce.producer import Producer
from staticfire.client.produce.send_result import SendResult
from staticfire.protocol.messages import Message

SENDERS = 64


# The number of messages in one send_many.
MESSAGES = 1_000

SendFor = Callable[[Producer, float], Awaitable[int]]


class ProducerFigure:
    """producer_per_s, send_many_per_s."""

    def __init__(self, name: str, send_for: SendFor) -> None:
        self.name = name
        self._send_for = send_for

    @property
    def keys(self) -> tuple[str, ...]:
        return f"{self.name}_per_s", f"{self.name}_cpu_us", f"{self.name}_client_cpu_us"

    def measure(self, stand: Stand) -> Values:
        with nameserver() as names, broker(stand.folder, namesrv=names.address) as server:
            return asyncio.run(self._measure(names.address, server.pids, stand.seconds))

    async def _measure(self, namesrv: str, pids: tuple[int, ...], seconds: float) -> Values:
        async with Producer("bench", namesrv=namesrv) as producer:
            await producer.send(Message(TOPIC, BODY, tags="paid"))
            await self._send_for(producer, WARM_SECONDS)
            own_ns = cpu_ns(os.getpid())
            meter = Meter(*pids)
            sent = await self._send_for(producer, seconds)
            meter.stop()
            own_us = (cpu_ns(os.getpid()) - own_ns) / 1000
        return {
            f"{self.name}_per_s": sent / meter.seconds,
            f"{self.name}_cpu_us": meter.server_s * 1e6 / sent,
            f"{self.name}_client_cpu_us": own_us / sent,
            f"{self.name}_foreign": meter.foreign_cores,
        }


async def send_single(producer: Producer, seconds: float) -> int:
    end = time.perf_counter() + seconds
    counts = await asyncio.gather(*[_send_until(producer, end, number) for number in range(SENDERS)])
    return sum(counts)


async def send_many(producer: Producer, seconds: float) -> int:
    """Send a thousand messages at a time, each while the previous ones are in flight."""
    end, sent = time.perf_counter() + seconds, 0
    sending: asyncio.Task[list[SendResult]] | None = None
    while time.perf_counter() < end:
        messages = (Message(TOPIC, BODY, tags="paid", keys=f"order-{number}") for number in range(MESSAGES))
        following = asyncio.create_task(producer.send_many(messages))
        sent += 0 if sending is None else len(await sending)
        sending = following
    return sent + (0 if sending is None else len(await sending))


async def _send_until(producer: Producer, end: float, sender: int) -> int:
    sent = 0
    while time.perf_counter() < end:
        await producer.send(Message(TOPIC, BODY, tags="paid", keys=[f"order-{sender}-{sent}"]))
        sent += 1
    return sent


SINGLE, MANY = ProducerFigure("producer", send_single), ProducerFigure("send_many", send_many)
