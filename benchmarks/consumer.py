"""A push consumer in its own process, as in a real program. `benchmarks.consuming` starts it.

    python -m benchmarks.consumer count|stamp|first|poll NAMESRV TOPIC

It prints `ready` when it consumes, and ends when its standard input is closed. Times are nanoseconds of the monotonic
clock, which all processes of a machine share.

- count: each line of input is a number. It prints when the listener received the message with that count.
- stamp: it prints for each message when the listener received it.
- first: each line of input is the name of a group, which starts at the beginning of the topic. It prints the time from
  the start to the first call of the listener.
- poll: each line of input has the number of messages in the topic and a number of seconds. A lite pull consumer polls
  the topic repeatedly for that long. It prints how many messages it received.
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
    """Run a task until there is no more input."""
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
    """Poll for that long. At the end of a queue, start again at its beginning."""
    polled, end_ns = 0, _now_ns() + int(seconds * 1e9)
    while _now_ns() < end_ns:
        messages = await consumer.poll()
        polled += len(messages)
        last = messages[-1]
        if last.queue_offset == per_queue - 1:
            await consumer.seek_to_begin(MessageQueue(last.topic, last.broker_name, last.queue_id))
    return polled


class Counter:
    """The listener, which counts messages."""

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
        """Wait until there were that many messages."""
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
    """Return the next line of the input, or "" at its end."""
    line: str = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    return line.strip()


def _tell(what: object) -> None:
    os.write(1, b"%b\n" % str(what).encode())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
