"""`staticfire consume`: one member of a consumer group in the foreground, which prints its messages.

A message counts as consumed when its line is written. However the command ends, unprinted messages remain with the
group.
"""

import os
import signal
from typing import TYPE_CHECKING

import click

from staticfire.cli.family import GROUP, TOPIC, FamilyCommand, check_names, json_flag
from staticfire.cli.listing import missing_ones
from staticfire.cli.messages import body_text, message_json, printable, queue_text, stored_text
from staticfire.cli.options import Whole, namesrv_flag, protocol_flag
from staticfire.cli.stand import tell
from staticfire.protocol.durations import parse_duration, parse_moment
from staticfire.protocol.errors import UsageError
from staticfire.runtime.exit_codes import EXIT_FAILED, EXIT_SIGNAL_BASE, EXIT_STOPPED

if TYPE_CHECKING:
    import asyncio

    from staticfire.client import Admin, ConsumeStatus, PushConsumer, PushSettings, ReceivedMessage

# The time for a send-back that is in progress. Printing takes no time.
LEAVE_MS = 1_000


@click.command(cls=FamilyCommand)
@namesrv_flag
@click.option(
    "-g",
    "--group",
    required=True,
    metavar="GROUP",
    type=GROUP,
    help="The consumer group; it is created if it doesn't exist.",
)
@click.option("--tag", default="*", metavar="TAGS", help="Only messages with these tags, like 'paid || refunded'.")
@click.option(
    "--from", "start", metavar="first|last|TIME",
    help="Where a new group begins: at the oldest message, after the newest, or at a time, like "
    "2026-11-21T13:30:00Z (or milliseconds since 1970). [default: last; first in queues that still have their first "
    "message]",
)  # fmt: skip
@click.option(
    "--broadcast",
    is_flag=True,
    help="Receive all messages, regardless of other members (broadcasting). Offsets are stored on this machine.",
)
@click.option(
    "--max",
    "max_messages",
    type=Whole(1),
    help="End after this number of messages; the exit code is 1 if there were fewer.",
)
@click.option("--timeout", metavar="DURATION", help="End after this time, like 10s or 1m30s. [default: never]")
@click.option("--fail", is_flag=True, help="Return RECONSUME_LATER for every message, so that it is redelivered.")
@json_flag
@protocol_flag
@click.argument("topics", nargs=-1, required=True, type=TOPIC)
def consume(
    namesrv: str,
    group: str,
    tag: str,
    start: str | None,
    broadcast: bool,
    max_messages: int | None,
    timeout: str | None,
    fail: bool,
    as_json: bool,
    protocol: str,
    topics: tuple[str, ...],
) -> int:
    """Consume TOPICS as a member of a group and print each message, until Ctrl-C."""
    import asyncio

    from staticfire.client import ConsumeStatus

    timeout_ms = None if timeout is None else parse_duration(timeout)
    if timeout_ms == 0:
        raise UsageError(f"--timeout {timeout}: the timeout must be above 0")
    check_tags(tag)
    check_names(topics, group)
    settings = _settings(protocol, broadcast, start)
    status = ConsumeStatus.RECONSUME_LATER if fail else ConsumeStatus.CONSUME_SUCCESS
    printer = _Printer(status, as_json, max_messages)
    try:
        return asyncio.run(_consume(namesrv, group, topics, tag, settings, printer, timeout_ms))
    except asyncio.CancelledError:
        return EXIT_SIGNAL_BASE + signal.SIGINT


def _settings(protocol: str, broadcast: bool, start: str | None) -> "PushSettings":
    """Return the settings of the consumer from the flags. Raises: UsageError."""
    from staticfire.client import ClientSettings, ConsumeFromWhere, MessageModel, PushSettings

    last, first = ConsumeFromWhere.LAST_OFFSET, ConsumeFromWhere.FIRST_OFFSET
    starts = {None: last, "first": first, "last": last}
    return PushSettings(
        client=ClientSettings(protocol=protocol),  # type: ignore[arg-type]  # one of its words: see the flag
        message_model=MessageModel.BROADCASTING if broadcast else MessageModel.CLUSTERING,
        consume_from_where=starts.get(start, ConsumeFromWhere.TIMESTAMP),
        consume_timestamp_ms=None if start in starts or start is None else parse_moment(start),
        skip_young_history=start is not None,
        consume_threads=1,
        await_termination_ms=LEAVE_MS,
        local_offset_store_dir=os.path.expanduser("~/.rocketmq_offsets"),
    )


def check_tags(text: str) -> None:
    """Refuse text that looks like tags but would match nothing, or something else. Raises: UsageError."""
    from staticfire.protocol.tags import ALL_TAGS

    tags = [tag.strip() for tag in text.split("||")]
    if text == ALL_TAGS:
        return
    fault = ""
    if not all(tags):
        fault = "a tag is missing"
    elif ALL_TAGS in tags:
        fault = "`*` means all tags and can't be combined with others"
    elif any("|" in tag for tag in tags):
        fault = "tags are separated by two bars"
    if fault:
        raise UsageError(f"--tag {text!r}: {fault}; write `paid`, `paid || refunded`, or `*` for all")


class _Printer:
    """The listener: prints messages, and stops the consumer when it has printed enough."""

    def __init__(self, status: "ConsumeStatus", as_json: bool, max_messages: int | None) -> None:
        self._status = status
        self._as_json = as_json
        self.max_messages = max_messages
        self.seen = 0
        self.error: OSError | None = None
        """The reason why nothing can be printed any more."""

    def listen(self, consumer: "PushConsumer") -> None:
        """Register as the listener of a consumer."""
        from staticfire.client import ConsumeContext, ConsumeStatus, ReceivedMessage

        @consumer.listener
        async def show(messages: tuple[ReceivedMessage, ...], _: ConsumeContext) -> ConsumeStatus:
            if self.seen != self.max_messages and self.error is None:
                self._print(messages[0])
                if self.seen == self.max_messages or self.error is not None:
                    consumer.suspend()
                    consumer.stop()
                if self.error is None:
                    return self._status
            await _leave_it()
            return self._status

    def _print(self, message: "ReceivedMessage") -> None:
        try:
            click.echo(message_json(message) if self._as_json else _line(message))
            self.seen += 1
        except OSError as error:
            self.error = error
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Otherwise Python would flush stdout again at its end.

    def exit_code(self) -> int:
        """Return the exit code. If it isn't 0, print the reason on stderr."""
        if isinstance(self.error, BrokenPipeError):
            return EXIT_SIGNAL_BASE + signal.SIGPIPE  # as other programs before `| head`
        if self.error is not None:
            tell(f"the message can't be printed: {self.error}")
            return EXIT_FAILED
        if self.max_messages is not None and self.seen < self.max_messages:
            tell(f"{self.seen} of {self.max_messages} messages arrived")
            return EXIT_FAILED
        return EXIT_STOPPED


class _Signalled:
    """Handles signals: the first stops the consumer in order, the second at once."""

    def __init__(self, consumer: "PushConsumer", main: "asyncio.Task[object] | None") -> None:
        self._consumer = consumer
        self._main = main
        self._is_interrupted = False

    def __call__(self, _: signal.Signals) -> None:
        if self._is_interrupted and self._main is not None:
            self._main.cancel()
        self._is_interrupted = True
        self._consumer.stop()


async def _leave_it() -> None:
    """End the listener's call without a result: the message remains with the group and is redelivered."""
    import asyncio

    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


def _line(message: "ReceivedMessage") -> str:
    """Return one line for a user."""
    times = f"(retry {message.reconsume_times})" if message.reconsume_times else ""
    words = [message.tags or "", " ".join(message.keys), times, body_text(message)]
    place = f"{message.topic} {queue_text(message)} {message.queue_offset}"
    return printable(f"{place:<28} {stored_text(message)}  {' '.join(word for word in words if word)}")


async def _tell_of_typos(admin: "Admin", topics: tuple[str, ...]) -> None:
    """Warn of topics that may be mistyped. The consumer itself waits for them silently, since they may be created."""
    for words in await missing_ones(admin, topics):
        tell(words)


async def _consume(
    namesrv: str,
    group: str,
    topics: tuple[str, ...],
    tag: str,
    settings: "PushSettings",
    printer: _Printer,
    timeout_ms: int | None,
) -> int:
    """Consume until there are enough messages, the time is over, or a signal arrives."""
    import asyncio

    from staticfire.cli.stay import signals_call
    from staticfire.client import Admin, PushConsumer
    from staticfire.runtime.client_machine import client_machine

    machine = client_machine()
    try:
        consumer = PushConsumer(group, namesrv, settings, machine)
        for topic in topics:
            consumer.subscribe(topic, tag)
        printer.listen(consumer)
        with signals_call(_Signalled(consumer, asyncio.current_task())):
            async with consumer:
                await _tell_of_typos(Admin(client=consumer.client), topics)
                try:
                    async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                        await consumer.wait()
                except TimeoutError:
                    pass  # The time is over.
    finally:
        await machine.workers.close()
    return printer.exit_code()
