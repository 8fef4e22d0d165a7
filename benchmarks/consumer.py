"""A push consumer in a process of its own, as a program has one. Started by `benchmarks.consuming`.

    python -m benchmarks.consumer count|stamp|first|poll NAMESRV TOPIC

It says `ready` when it consumes and ends with its standard input. Times are those of the monotonic clock in
nanoseconds, which all processes of a machine share.

- count: for each line with a number it answers when the listener got the message that made it so many.
- stamp: it tells of each message when the listener got it.
- first: for each line with a group's name that group starts at the begin of the topic; it answers how long the start
  took until the listener was called.
- poll: for each line with a number of messages and one of seconds a lite pull consumer polls the topic, which has so
  many, over and over for that long; it answers how many it got.
"""

import asyncio
import os
import sys
import time
from collections.abc import Sequence

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.consume.results.consume_results import ConsumeContext, ConsumeStatus
from staticfire.client.lite_pull.lite_pull_consumer import LitePullConsumer
from staticfire.client.push.push_consumer import PushConsumer
from staticfire.client.settings.lite_pull_settings import LitePullSettings
from staticfire.client.settings.push_settings import ConsumeFromWhere, PushSettings
from staticfire.protocol.limits import PULL_MESSAGES_MAX
from staticfire.protocol.messages import ReceivedMessage

GROUP = "bench-listeners"
_SUCCESS = ConsumeStatus.CONSUME_SUCCESS
_now_ns = time.monotonic_ns


async def main(task: str, namesrv: str, topic: str) -> None:
    """Do a task until there is no more input."""
    if task == "first":
        await _first(namesrv, topic)
        return
    if task == "poll":
        await _poll(namesrv, topic)
        return
    counter = Counter(tells_each=task == "stamp")
    async with _consumer(namesrv, topic, GROUP, counter):
        _tell("ready")
        while wanted := await _line():
            await counter.reach(int(wanted))
            _tell(counter.last_ns)


async def _first(namesrv: str, topic: str) -> None:
    _tell("ready")
    while group := await _line():
        counter = Counter()
        started_ns = _now_ns()
        async with _consumer(namesrv, topic, group, counter):
            await counter.reach(1)
            _tell(counter.first_ns - started_ns)


async def _poll(namesrv: str, topic: str) -> None:
    settings = LitePullSettings(consume_from_where=ConsumeFromWhere.FIRST_OFFSET, pull_batch_size=PULL_MESSAGES_MAX)
    async with LitePullConsumer(GROUP, namesrv=namesrv, settings=settings) as consumer:
        queues = await consumer.queues(topic)
        await consumer.assign(queues)
        _tell("ready")
        while wanted := await _line():
            messages, seconds = wanted.split()
            _tell(await _poll_for(consumer, int(messages) // len(queues), float(seconds)))


async def _poll_for(consumer: LitePullConsumer, per_queue: int, seconds: float) -> int:
    """Poll for so long; whoever gets to the end of a queue begins anew there."""
    polled, end_ns = 0, _now_ns() + int(seconds * 1e9)
    while _now_ns() < end_ns:
        messages = await consumer.poll()
        polled += len(messages)
        last = messages[-1]
        if last.queue_offset == per_queue - 1:
            await consumer.seek_to_begin(MessageQueue(last.topic, last.broker_name, last.queue_id))
    return polled


class Counter:
    """The listener."""

    def __init__(self, tells_each: bool = False) -> None:
        self._tells_each = tells_each
        self._seen = 0
        self._wanted = 0
        self._reached = asyncio.Event()
        self.first_ns = 0
        self.last_ns = 0

    async def listen(self, messages: Sequence[ReceivedMessage], context: ConsumeContext) -> ConsumeStatus:
        self.last_ns = now_ns = _now_ns()
        self._seen = seen = self._seen + len(messages)
        if self._tells_each:
            _tell(now_ns)
        if not self.first_ns:
            self.first_ns = now_ns
        if seen == self._wanted:
            self._reached.set()
        return _SUCCESS

    async def reach(self, wanted: int) -> None:
        """Wait until so many messages were there."""
        self._wanted = wanted
        if self._seen < wanted:
            self._reached.clear()
            await self._reached.wait()


def _consumer(namesrv: str, topic: str, group: str, counter: Counter) -> PushConsumer:
    settings = PushSettings(consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    consumer = PushConsumer(group, namesrv=namesrv, settings=settings)
    consumer.subscribe(topic)
    consumer.listener(counter.listen)
    return consumer


async def _line() -> str:
    """Return the next line of the input, empty at its end."""
    line: str = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    return line.strip()


def _tell(what: object) -> None:
    os.write(1, b"%b\n" % str(what).encode())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
