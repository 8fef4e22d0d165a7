"""From a producer through a broker to a listener in another process: throughput, latency, and latency after a start."""

import asyncio
import os
import time
from statistics import median

from benchmarks.asking import ask
from benchmarks.consuming import ConsumerProcess, consumer_process
from benchmarks.figures import Stand, Values
from benchmarks.figures.throughput import TOPIC, WARM_SECONDS, fill
from benchmarks.frames import BODY, QUEUES
from benchmarks.machine import Meter, cpu_ns
from benchmarks.servers import broker, nameserver
from staticfire.client.produce.producer import Producer
from staticfire.protocol.codecs import NATIVE
from staticfire.protocol.messages import Message
from staticfire.protocol.permissions import READ_WRITE
from staticfire.protocol.requests.topics import UpdateTopic

# As in a service that handles many requests at once: queues are pulled while more messages are stored.
SENDERS = 256
STARTS = 7
ONE_BY_ONE_WARM = 200
WORD_BYTES = 4096


class EndToEnd:
    """end_to_end_per_s: from the first send to the last call of the listener."""

    name = "end_to_end"
    keys = ("end_to_end_per_s",)

    def measure(self, stand: Stand) -> Values:
        with nameserver() as names, broker(stand.folder, namesrv=names.address) as server:
            _create_topic(server.port)
            with consumer_process("count", names.address, TOPIC) as consumer:
                return asyncio.run(self._measure(names.address, consumer, server.pids, stand.seconds))

    async def _measure(self, namesrv: str, consumer: ConsumerProcess, pids: tuple[int, ...], seconds: float) -> Values:
        async with Producer("bench", namesrv=namesrv) as producer:
            warm = await _send_for(producer, WARM_SECONDS)
            consumer.ask(warm)
            own_ns, meter = cpu_ns(os.getpid()), Meter(*pids, consumer.pid)
            consumer_ns, broker_ns = cpu_ns(consumer.pid), sum(map(cpu_ns, pids))
            started_ns = time.monotonic_ns()
            sent = await _send_for(producer, seconds)
            sent_ns = time.monotonic_ns()
            ended_ns = consumer.ask(warm + sent)
            meter.stop()
        return {
            "end_to_end_per_s": sent * 1e9 / (ended_ns - started_ns),
            "end_to_end_cpu_us": (sum(map(cpu_ns, pids)) - broker_ns) / 1000 / sent,
            "end_to_end_producer_cpu_us": (cpu_ns(os.getpid()) - own_ns) / 1000 / sent,
            "end_to_end_consumer_cpu_us": (cpu_ns(consumer.pid) - consumer_ns) / 1000 / sent,
            "end_to_end_behind_ms": (ended_ns - sent_ns) / 1e6,
            "end_to_end_foreign": meter.foreign_cores,
        }


class ListenerLatency:
    """listener_p50_us: one message at a time, from its send to the listener's call."""

    name = "listener"
    keys = ("listener_p50_us", "listener_p99_us")

    def measure(self, stand: Stand) -> Values:
        with nameserver() as names, broker(stand.folder, namesrv=names.address) as server:
            _create_topic(server.port)
            with consumer_process("stamp", names.address, TOPIC) as consumer:
                meter = Meter(*server.pids, consumer.pid)
                latencies_us = asyncio.run(self._measure(names.address, consumer, stand.seconds))
                meter.stop()
        return {
            "listener_p50_us": latencies_us[len(latencies_us) // 2],
            "listener_p99_us": latencies_us[len(latencies_us) * 99 // 100],
            "listener_foreign": meter.foreign_cores,
        }

    async def _measure(self, namesrv: str, consumer: ConsumerProcess, seconds: float) -> list[float]:
        loop = asyncio.get_running_loop()
        stamps: asyncio.Queue[int] = asyncio.Queue()
        loop.add_reader(consumer.output, lambda: stamps.put_nowait(int(os.read(consumer.output, WORD_BYTES))))
        latencies_us = []
        async with Producer("bench", namesrv=namesrv) as producer:
            end = time.perf_counter() + WARM_SECONDS + seconds
            while time.perf_counter() < end:
                sent_ns = time.monotonic_ns()
                sending = producer.post(Message(TOPIC, BODY, tags="paid"))
                latencies_us.append((await stamps.get() - sent_ns) / 1000)
                await sending
        loop.remove_reader(consumer.output)
        return sorted(latencies_us[min(ONE_BY_ONE_WARM, len(latencies_us) // 2) :])


class FirstMessage:
    """consumer_first_message_ms: from a consumer's start to the first call of its listener, with messages waiting."""

    name = "consumer_first_message"
    keys = ("consumer_first_message_ms",)

    def measure(self, stand: Stand) -> Values:
        with nameserver() as names, broker(stand.folder, namesrv=names.address) as server:
            _create_topic(server.port)
            fill(server, NATIVE)
            with consumer_process("first", names.address, TOPIC) as consumer:
                starts_ms = [consumer.ask(f"bench-start-{number}") / 1e6 for number in range(STARTS)]
        return {"consumer_first_message_ms": median(starts_ms), "consumer_first_message_max_ms": max(starts_ms)}


def _create_topic(port: int) -> None:
    ask(port, NATIVE, UpdateTopic(TOPIC, QUEUES, QUEUES, READ_WRITE))


async def _send_for(producer: Producer, seconds: float) -> int:
    end = time.perf_counter() + seconds
    return sum(await asyncio.gather(*[_send_until(producer, end) for _ in range(SENDERS)]))


async def _send_until(producer: Producer, end: float) -> int:
    sent = 0
    while time.perf_counter() < end:
        await producer.send(Message(TOPIC, BODY, tags="paid"))
        sent += 1
    return sent
