"""`staticfire mqadmin`: messages of whole topics and queues, without side effects."""

import codecs
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from staticfire.cli.mqadmin.frame import AdminSession, command, option, topic_flag
from staticfire.cli.mqadmin.java_text import object_text, parse_local
from staticfire.cli.mqadmin.output import show
from staticfire.cli.mqadmin.servers import at_each
from staticfire.cli.mqadmin.shown_messages import printed_line, with_ends
from staticfire.cli.options import Whole
from staticfire.client import MessageQueue, PullConsumer
from staticfire.client.cluster.pull_answers import PullResult, PullStatus
from staticfire.protocol.durations import parse_moment
from staticfire.protocol.errors import ClientError, UsageError
from staticfire.protocol.names import TOOLS_GROUP

if TYPE_CHECKING:
    from staticfire.client import Admin

AT_ONCE = 32
CONSUMED_MAX = 128
LINE = "-" * 56


def _charset(_: click.Context, __: click.Parameter, value: str) -> str:
    try:
        return codecs.lookup(value).name
    except LookupError:
        raise UsageError(f"--charsetName {value}: unknown character set; use UTF-8, GBK or the like") from None


def _moment(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    local_ms = parse_local(value)
    return parse_moment(value) if local_ms is None else local_ms


TIME = "milliseconds, 2026-11-21T13:30:00Z, or yyyy-MM-dd#HH:mm:ss:SSS in the local time zone."
end_flag = option(
    "-e",
    "--endTimestamp",
    "end_ms",
    metavar="TIME",
    callback=_moment,
    help=f"Only messages stored before this time: {TIME}",
)


def _queue_text(queue: MessageQueue) -> str:
    fields = {"topic": queue.topic, "brokerName": queue.broker_name, "queueId": queue.queue_id}
    return object_text("MessageQueue ", fields, "[]")


def _end_words(queue: MessageQueue, result: PullResult) -> str:
    words = "no matched msg" if result.status is PullStatus.NO_MATCHED_MSG else "print msg finished"
    return f"{_queue_text(queue)} {words}. status={result.status.name}, offset={result.next_offset}"


@dataclass(frozen=True)
class ReadRange:
    """Offsets of a queue: from `start` on, before `end`."""

    queue: MessageQueue
    start: int
    end: int


async def _range(consumer: PullConsumer, queue: MessageQueue, begin_ms: int | None, end_ms: int | None) -> ReadRange:
    start = await consumer.min_offset(queue) if begin_ms is None else await consumer.search_offset(queue, begin_ms)
    end = await consumer.max_offset(queue) if end_ms is None else await consumer.search_offset(queue, end_ms)
    return ReadRange(queue, start, end)


async def _pulls(consumer: PullConsumer, wanted: ReadRange, expression: str = "*") -> AsyncIterator[PullResult]:
    """Yield the results of pulls, until the end of a range or of the queue."""
    offset = wanted.start
    while offset < wanted.end:
        result = await consumer.pull(wanted.queue, offset, expression, min(AT_ONCE, wanted.end - offset))
        yield result
        if result.next_offset <= offset or result.status in (PullStatus.NO_NEW_MSG, PullStatus.OFFSET_ILLEGAL):
            return
        offset = result.next_offset


async def _of_each_broker(queues: Sequence[MessageQueue], act: Callable[[MessageQueue], Awaitable[None]]) -> None:
    """Act on the queues of each broker, also after one of them hasn't responded."""

    async def act_on_all(broker: str) -> None:
        for queue in queues:
            if queue.broker_name == broker:
                await act(queue)

    await at_each(dict.fromkeys(queue.broker_name for queue in queues), act_on_all)


@command("printMsg")
@topic_flag
@option(
    "-c",
    "--charsetName",
    "charset",
    default="UTF-8",
    show_default=True,
    callback=_charset,
    help="Character set of the bodies.",
)
@option("-s", "--subExpression", "expression", default="*", show_default=True, help="Tags, like 'paid || refunded'.")
@option(
    "-b",
    "--beginTimestamp",
    "begin_ms",
    metavar="TIME",
    callback=_moment,
    help=f"Only messages stored at this time or later: {TIME}",
)
@end_flag
@option("-d", "--printBody", "with_body", type=bool, default=True, show_default=True, help="Also print the bodies.")
@option("-l", "--lmqParentTopic", "parent", metavar="TOPIC", help="Accepted for compatibility; has no effect.")
def print_messages(
    session: AdminSession,
    topic: str,
    charset: str,
    expression: str,
    begin_ms: int | None,
    end_ms: int | None,
    with_body: bool,
    parent: str | None,
) -> None:
    """Print the messages of a topic."""

    async def work(admin: "Admin") -> None:
        async with PullConsumer(TOOLS_GROUP, client=admin.client) as consumer:

            async def print_queue(queue: MessageQueue) -> None:
                wanted = await _range(consumer, queue, begin_ms, end_ms)
                show(f"minOffset={wanted.start}, maxOffset={wanted.end}, {_queue_text(queue)}")
                async for result in _pulls(consumer, wanted, expression):
                    for message in result.messages:
                        show(printed_line(with_ends(message, result), charset, with_body))
                    if not result.messages:
                        show(_end_words(queue, result))
                show(LINE)

            await _of_each_broker(await consumer.queues(topic), print_queue)

    session.run(work)


@command("consumeMessage")
@topic_flag
@option("-b", "--brokerName", "broker", metavar="NAME", help="With -i: the broker of the queue.")
@option("-i", "--queueId", "queue_id", type=Whole(0), metavar="ID", help="With -b: the number of the queue.")
@option("-o", "--offset", type=Whole(0), help="With -b and -i: begin at this queue offset.")
@option(
    "-g",
    "--consumerGroup",
    "group",
    default=TOOLS_GROUP,
    show_default=True,
    metavar="GROUP",
    help="The consumer group to use.",
)
@option(
    "-s",
    "--beginTimestamp",
    "begin_ms",
    metavar="TIME",
    callback=_moment,
    help=f"Only messages stored at this time or later: {TIME}",
)
@end_flag
@option(
    "-c", "--MessageNumber", "count", type=Whole(1), default=CONSUMED_MAX, show_default=True, help="Number of messages."
)
def consume_message(
    session: AdminSession,
    topic: str,
    broker: str | None,
    queue_id: int | None,
    offset: int | None,
    group: str,
    begin_ms: int | None,
    end_ms: int | None,
    count: int,
) -> None:
    """Print messages of a topic, a queue, or from an offset.

    Nothing is committed. To consume as a member of a group, use `staticfire consume`.
    """
    if (broker is None) != (queue_id is None) or (offset is not None and queue_id is None):
        raise UsageError("mqadmin consumeMessage: use -b NAME and -i ID together; -o OFFSET needs both")

    async def work(admin: "Admin") -> None:
        async with PullConsumer(group, client=admin.client) as consumer:
            left, queues = count, await consumer.queues(topic)
            if broker is not None and queue_id is not None:
                queues = [queue for queue in queues if (queue.broker_name, queue.queue_id) == (broker, queue_id)]
                if not queues:
                    raise ClientError(f"mqadmin: topic {topic} has no queue {queue_id} on a broker {broker}")

            async def consume(queue: MessageQueue) -> None:
                nonlocal left
                if left:
                    wanted = await _range(consumer, queue, begin_ms, end_ms)
                    wanted = ReadRange(queue, max(wanted.start, offset or 0), wanted.end)
                    left -= await _consume(consumer, wanted, left)

            await _of_each_broker(queues, consume)

    session.run(work)


async def _consume(consumer: PullConsumer, wanted: ReadRange, count: int) -> int:
    """Print at most `count` messages of a range; return how many were printed."""
    printed, last = 0, wanted.end + 1  # One past the end, as in RocketMQ: it prints the response to that pull, too.
    if wanted.end - wanted.start > count:
        show(f"The older {count} message of the {wanted.queue.queue_id} queue will be provided")
        last = wanted.start + count
    async for result in _pulls(consumer, ReadRange(wanted.queue, wanted.start, last)):
        show("Consume ok" if result.messages else _end_words(wanted.queue, result))
        for message in result.messages:
            show(printed_line(with_ends(message, result), "UTF-8"))
        printed += len(result.messages)
    return printed
