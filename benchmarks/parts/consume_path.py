"""Where the time goes between a pull's answer and a listener that is done: nanoseconds per message, stage by stage.

    python -m benchmarks.parts.consume_path [--batch 32] [--rounds 2000] [--body 1024] [--profile]

Each row leaves one stage more in place than the one above it. Nothing is sent: what is missing is the socket, the
frame's envelope and the next pull, which are per pull.
"""

import argparse
import asyncio
import cProfile
import os
import pstats
import time
from collections.abc import Awaitable, Callable
from statistics import median

from staticfire.client.cluster.pull_answers import PullResult, read_pull
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.subscriptions import Subscription, Subscriptions
from staticfire.client.consume.listeners.concurrent_consumption import ConcurrentConsumption
from staticfire.client.consume.queues.concurrent_policy import ConcurrentPolicy
from staticfire.client.consume.queues.consumer_state import ConsumerState
from staticfire.client.consume.queues.instructions import Commit, Deliver, Instructions
from staticfire.client.consume.queues.process_queue import ProcessQueue
from staticfire.client.consume.queues.queue_decisions import AssignedQueue
from staticfire.client.consume.results.consume_results import ConsumeContext, ConsumeStatus, Listener, Messages
from staticfire.client.settings.push_settings import PushSettings
from staticfire.protocol.command import RecordBatch
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.properties import format_properties
from staticfire.protocol.record import decode_records, join_records, pack_record, pack_topic
from staticfire.protocol.requests.clients import SubscriptionData
from staticfire.protocol.requests.pull import PullAnswer
from staticfire.protocol.tags import EVERY_TAG
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.live import live_machine

QUEUE = MessageQueue("orders", "broker-a", 0)
HOST = bytes([127, 0, 0, 1, 0, 0, 42, 159])
PROPERTIES = format_properties({"UNIQ_KEY": "7F000001" + "0" * 24, "WAIT": "true", "TAGS": "paid", "KEYS": "42"})


def pulled(first_offset: int, batch: int, body: bytes) -> bytes:
    """Return the body of a pull's response."""
    topic = pack_topic(QUEUE.topic)
    return join_records(
        [
            pack_record(offset * 1200, 0, offset, 0, 0, 0, 0, 0, 0, HOST, topic, PROPERTIES, body)
            for offset in range(first_offset, first_offset + batch)
        ]
    )


class Commits:
    """Replaces the driver: records the group's offset."""

    def __init__(self) -> None:
        self.offset = -1

    def carry_out(self, queue: AssignedQueue[ConcurrentPolicy], instructions: Instructions) -> None:
        for instruction in instructions:
            if type(instruction) is Commit:
                self.offset = instruction.queue_offset


async def quick(messages: Messages, context: ConsumeContext) -> ConsumeStatus:
    return ConsumeStatus.CONSUME_SUCCESS


async def waits(messages: Messages, context: ConsumeContext) -> ConsumeStatus:
    await asyncio.sleep(0)
    return ConsumeStatus.CONSUME_SUCCESS


def plain(messages: Messages, context: ConsumeContext) -> ConsumeStatus:
    return ConsumeStatus.CONSUME_SUCCESS


class Path:
    """One consumer without a network."""

    def __init__(self, listener: Listener, bodies: list[bytes]) -> None:
        self.machine = live_machine()
        self.commits = Commits()
        self.bodies = bodies
        settings = PushSettings()
        subscriptions = Subscriptions()
        subscriptions.put(Subscription(SubscriptionData(QUEUE.topic), EVERY_TAG))
        state = ConsumerState("billing", settings, subscriptions, topic_retry_ms=1_000)
        cache = ProcessQueue()
        policy = ConcurrentPolicy(cache, "billing", settings)
        self.queue = AssignedQueue(QUEUE, cache, policy, state, UptimeMs(0))
        self.queue.assigned(UptimeMs(0))
        self.consumption = ConcurrentConsumption(
            "billing", listener, settings, self.machine, self._send_back, self.commits, self._spawn
        )

    async def _send_back(self, message: ReceivedMessage, delay_level: int) -> None: ...

    def _spawn(self, coroutine: object, name: str) -> "asyncio.Task[None]":
        return asyncio.get_running_loop().create_task(coroutine, name=name)  # type: ignore[arg-type]

    def decode(self, body: bytes) -> PullResult:
        batch = RecordBatch(decode_records(body))
        answer = PullAnswer(0, batch.records[-1].queue_offset + 1, body=batch)
        return read_pull(answer, QUEUE, EVERY_TAG, HOST)

    async def decoded(self, body: bytes) -> None:
        self.decode(body)

    async def cached(self, body: bytes) -> None:
        messages = self.queue.cache.put(self.decode(body).messages)
        self.queue.cache.remove(messages)

    async def decided(self, body: bytes) -> None:
        result = self.decode(body)
        self.queue.pulled(result, UptimeMs(0))
        self.queue.done(result.messages, UptimeMs(0))

    async def consumed(self, body: bytes) -> None:
        result = self.decode(body)
        end = result.next_offset
        for instruction in self.queue.pulled(result, UptimeMs(0)):
            if type(instruction) is Deliver:
                self.consumption.submit(self.queue, instruction.messages)
        while self.commits.offset != end:  # noqa: ASYNC110 (turns of the loop are part of what is measured)
            await asyncio.sleep(0)


async def spent_ns(step: Callable[[bytes], Awaitable[None]], bodies: list[bytes]) -> float:
    """Return the CPU time of the median pull, for all threads together."""
    times = []
    for body in bodies:
        started = time.process_time_ns()
        await step(body)
        times.append(time.process_time_ns() - started)
    return median(times)


async def measure(arguments: argparse.Namespace) -> None:
    """Print one row per stage."""
    body = bytes(arguments.body)
    bodies = [pulled(number * arguments.batch, arguments.batch, body) for number in range(arguments.rounds)]
    rows: list[tuple[str, Listener, str]] = [
        ("decode", quick, "decoded"),
        ("+ process queue", quick, "cached"),
        ("+ decisions", quick, "decided"),
        ("+ async listener", quick, "consumed"),
        ("... that waits once", waits, "consumed"),
        ("+ plain listener", plain, "consumed"),
    ]
    for name, listener, step in rows:
        path = Path(listener, bodies)
        spent = await spent_ns(getattr(path, step), bodies)
        if arguments.profile and step == "consumed":
            profile = cProfile.Profile()
            path = Path(listener, bodies)
            with profile:
                await spent_ns(path.consumed, bodies)
            pstats.Stats(profile).sort_stats("tottime").print_stats(16)
        await path.consumption.leave()
        await path.machine.workers.close()
        print(f"{name:20s} {spent / arguments.batch:8.0f} ns per message")


def main() -> None:
    """Parse the arguments, and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--body", type=int, default=1024)
    parser.add_argument("--profile", action="store_true", help="where the time goes, function by function")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {(os.cpu_count() or 1) - 1})
    asyncio.run(measure(arguments))


if __name__ == "__main__":
    main()
