"""`staticfire send`: messages from the command line or from standard input, one per line."""

import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

import click

from staticfire.cli.family import TOPIC, FamilyCommand, check_names, json_flag
from staticfire.cli.listing import counted
from staticfire.cli.messages import count_of
from staticfire.cli.options import Assignments, Whole, namesrv_flag, protocol_flag
from staticfire.cli.signing import words_of
from staticfire.message_fields import sent_fields
from staticfire.protocol.errors import StaticfireError, UsageError
from staticfire.runtime.exit_codes import EXIT_FAILED, EXIT_SIGNAL_BASE

if TYPE_CHECKING:
    import signal

    from staticfire.client import Message, ProducerSettings, SendResult
    from staticfire.runtime.machine import Machine

GROUP = "STATICFIRE_SEND"
_UNSAFE = {
    "FLUSH_SLAVE_TIMEOUT": "too few slaves confirmed in time; `staticfire replication` shows them",
    "SLAVE_NOT_AVAILABLE": "no slave was there to copy; `staticfire replication` shows them",
    "FLUSH_DISK_TIMEOUT": "the broker's disk didn't confirm in time",
}
CHUNK_BYTES = 256 * 1024
# The number of messages that are in flight at once: enough for good batches, but a failure is still reported soon.
CHUNK_MESSAGES = 5_000


@click.command(cls=FamilyCommand)
@namesrv_flag
@click.option("--tag", default="", help="The tag of every message.")
@click.option("--key", "keys", multiple=True, help="A key by which the message can be found; may be repeated.")
@click.option("--property", "properties", multiple=True, type=Assignments(), help="A property; may be repeated.")
@click.option("--delay-level", type=Whole(0, 18), default=0, help="Delay level: 1 is 1 s, 18 is 2 h.")
@click.option("--count", type=Whole(1), default=1, help="Send each message this number of times.")
@json_flag
@protocol_flag
@click.argument("topic", type=TOPIC)
@click.argument("body", required=False)
def send(
    namesrv: str,
    tag: str,
    keys: tuple[str, ...],
    properties: tuple[tuple[str, str], ...],
    delay_level: int,
    count: int,
    as_json: bool,
    protocol: str,
    topic: str,
    body: str | None,
) -> int:
    """Send BODY to TOPIC. Without BODY, each line of standard input is a message, until its end or Ctrl-C."""
    import asyncio

    from staticfire.client import ClientSettings, Message, ProducerSettings

    if "||" in tag or tag != tag.strip():
        raise UsageError(f"--tag {tag!r}: a message has one tag, and no consumer can subscribe to this one")

    def message(text: bytes) -> Message:
        return Message(topic, text, tags=tag, keys=keys, properties=dict(properties), delay_level=delay_level)

    check_names((topic,))
    settings = ProducerSettings(client=ClientSettings(protocol=protocol))  # type: ignore[arg-type]  # see the flag
    return asyncio.run(_send(namesrv, settings, message, body, count, as_json))


class _Report:
    """Prints the results: each message if there is only one or JSON is wanted, and the total at the end."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self.sent = 0
        self.failures: list[Exception] = []
        self.in_flight = 0
        """Messages whose results aren't known yet."""
        self._unsafe: Counter[str] = Counter()
        """Stored messages by status, but for SEND_OK."""

    def add(self, outcome: "SendResult | Exception") -> None:
        if isinstance(outcome, Exception):
            self.failures.append(outcome)
            return
        self.sent += 1
        if outcome.status.value in _UNSAFE:
            self._unsafe[outcome.status.value] += 1
        if self._as_json:
            click.echo(json.dumps(sent_fields(outcome)))

    def finish(self, last: "SendResult | Exception | None") -> int:
        """Print the total; return the exit code."""
        if self.sent == 1 and not self._as_json and last is not None and not isinstance(last, Exception):
            click.echo(f"{last.message_id} {last.queue} offset {last.queue_offset}")
        elif not self._as_json and (self.sent or not self.failures):
            click.echo(f"sent {count_of(self.sent, 'message')}")
        for status, number in self._unsafe.items():
            words = f"{count_of(number, 'message')} stored with {status}: {_UNSAFE[status]}"
            click.echo(f"staticfire send: {words}", err=True)
        if self.failures:
            click.echo(f"staticfire send: {self._failed()}", err=True)
        if self.in_flight:
            words = f"the results of {count_of(self.in_flight, 'message')} aren't known: they may be stored"
            click.echo(f"staticfire send: {words}", err=True)
        return EXIT_FAILED if self.failures else 0

    def _failed(self) -> str:
        first = words_of(self.failures[0])
        if len(self.failures) > 1:
            return f"{len(self.failures)} messages failed, the first with: {first}"
        return f"1 message failed: {first}" if self.sent else first


async def _send(
    namesrv: str,
    settings: "ProducerSettings",
    message: "Callable[[bytes], Message]",
    body: str | None,
    count: int,
    as_json: bool,
) -> int:
    from asyncio import CancelledError

    from staticfire.cli.stay import signals_call
    from staticfire.client import Producer
    from staticfire.runtime.client_machine import client_machine

    report, last = _Report(as_json), None
    machine, stop = client_machine(), _EndOfInput()
    try:
        with signals_call(stop):
            async with Producer(GROUP, namesrv, settings, machine) as producer:
                with counted("sent", None if body is None else count) as tell_more:
                    async for texts in _bodies(machine, stop, body, count):
                        report.in_flight = len(texts)
                        for last in await producer.send_many([message(text) for text in texts], return_exceptions=True):
                            report.add(last)
                        report.in_flight = 0
                        tell_more(len(texts))
    except UsageError:
        raise
    except StaticfireError as error:
        report.add(error)
    except CancelledError:
        if stop.number is None:
            raise
    finally:
        await machine.workers.close()
    exit_code = report.finish(last)
    return exit_code if stop.number is None else EXIT_SIGNAL_BASE + stop.number


class _EndOfInput:
    """Handles signals: after the first, nothing more is read, and messages in flight get their results.

    The second cancels what the command waits for, such as a nameserver. Sends still end first, by their timeout of 3 s.
    Created in the event loop, by the task that it cancels.
    """

    def __init__(self) -> None:
        from asyncio import current_task, get_running_loop

        self._main = current_task()
        self._signalled = get_running_loop().create_future()
        self.number: signal.Signals | None = None
        """The first signal."""

    def __call__(self, number: "signal.Signals") -> None:
        if self.number is None:
            self.number = number
            self._signalled.set_result(None)
        elif self._main is not None:
            self._main.cancel()

    async def read(self, machine: "Machine") -> bytes:
        """Return the next bytes of standard input; none at its end, or after a signal.

        A read can't be interrupted. So its thread is one that the end of this process doesn't wait for.
        """
        from asyncio import FIRST_COMPLETED, ensure_future, wait

        reading = ensure_future(machine.workers.run_foreign(os.read, 0, CHUNK_BYTES))
        await wait((reading, self._signalled), return_when=FIRST_COMPLETED)
        if self.number is None:
            return reading.result()
        reading.cancel()
        return b""


async def _bodies(machine: "Machine", stop: _EndOfInput, body: str | None, count: int) -> AsyncIterator[list[bytes]]:
    """Yield bodies in chunks, as they arrive, until a signal."""
    chunks = _given(os.fsencode(body)) if body is not None else _lines(machine, stop)
    async for texts in chunks:
        for first in range(0, len(texts) * count, CHUNK_MESSAGES):
            if stop.number is not None:
                return
            last = min(first + CHUNK_MESSAGES, len(texts) * count)
            yield [texts[index // count] for index in range(first, last)]


async def _given(body: bytes) -> AsyncIterator[list[bytes]]:
    yield [body]


async def _lines(machine: "Machine", stop: _EndOfInput) -> AsyncIterator[list[bytes]]:
    """Yield the lines of standard input that arrived together, without empty ones."""
    rest = b""
    while data := await stop.read(machine):
        *lines, rest = (rest + data).split(b"\n")
        yield [line for line in lines if line]
    if rest:
        yield [rest]
