"""`staticfire dlq`: the messages that a group could not consume: show, export, resend.

Exit codes: 0; 1 when a group or letter doesn't exist, or not all letters could be resent, with the reasons.
"""

import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from staticfire.cli.command_groups import Commands
from staticfire.cli.family import GROUP, TOPIC, json_flag, watch_flag
from staticfire.cli.listing import (
    add_row,
    busy,
    console,
    counted,
    print_json,
    table_of,
    watched,
    with_admin,
    without_controls,
)
from staticfire.cli.messages import body_text, json_line, printable, stored_text
from staticfire.cli.options import Whole, namesrv_flag, protocol_flag
from staticfire.cli.stand import tell
from staticfire.protocol.errors import UsageError
from staticfire.runtime.exit_codes import EXIT_FAILED, EXIT_SIGNAL_BASE

if TYPE_CHECKING:
    from staticfire.client import Admin, DeadLetter, DeadLetterQueue, ResendReport

T = TypeVar("T")
Command = Callable[..., Any]


@click.group(cls=Commands)
def dlq() -> None:
    """Dead letters: messages that a group failed to consume, after all retries.

    A broker stores them in the topic %DLQ%GROUP. Only retention removes them: a resent dead letter is a new message
    with the same id, keys, tags and properties, and its property DLQ_HISTORY records each death.
    """


def _common_flags(command: Command) -> Command:
    return namesrv_flag(protocol_flag(command))


def _with_dead_letters(namesrv: str, protocol: str, group: str, ask: "Callable[[DeadLetterQueue], Awaitable[T]]") -> T:
    """Query a group's dead letters. Raises: GroupNotFound with similar names, and as `with_admin`."""
    from staticfire.client import DeadLetterQueue

    async def connected(admin: "Admin") -> T:
        async with DeadLetterQueue(group, client=admin.client) as queue:
            return await ask(queue)

    return with_admin(namesrv, protocol, connected, group=group)


# -- show --------------------------------------------------------------------------------------------------------------


@dlq.command("list", short_help="List the groups that have dead letters, or the dead letters of one group.")
@_common_flags
@click.option(
    "--max", "max_letters", type=Whole(1), default=20, show_default=True, help="Maximum number of dead letters to show."
)
@click.option("--last", is_flag=True, help="Show the newest instead of the oldest.")
@json_flag
@watch_flag
@click.argument("group", required=False, type=GROUP)
def list_letters(
    namesrv: str, protocol: str, max_letters: int, last: bool, as_json: bool, watch_s: float | None, group: str | None
) -> None:
    """List the groups that have dead letters, and how many; with GROUP, its dead letters."""

    def look() -> int:
        if group is None:
            _show_groups(with_admin(namesrv, protocol, lambda admin: admin.dead_letters()), as_json)
        else:
            _look_at_letters(group, namesrv, protocol, (max_letters, last), as_json)
        return 0

    watched(watch_s, look)


def _look_at_letters(group: str, namesrv: str, protocol: str, chosen: tuple[int, bool], as_json: bool) -> None:
    async def look(queue: "DeadLetterQueue") -> "tuple[list[DeadLetter], int]":
        return await queue.letters(chosen[0], newest=chosen[1]), await queue.count()

    letters, count = _with_dead_letters(namesrv, protocol, group, look)
    if as_json:
        for letter in letters:
            click.echo(_line(letter))
    else:
        _show_letters(group, letters, count)


def _show_groups(counts: dict[str, int], as_json: bool) -> None:
    if as_json:
        for group, count in counts.items():
            print_json({"group": group, "count": count})
    elif not counts:
        click.echo("no dead letters")
    else:
        width = max(map(len, counts))
        for group, count in counts.items():
            click.echo(f"{group:<{width}}  {count:,}")


def _show_letters(group: str, letters: "list[DeadLetter]", count: int) -> None:
    if not letters:
        click.echo(f"no dead letters of {group}")
        return
    columns = {"id": "left", "died": "left", "from": "left", "failed": "right", "tag": "left", "keys": "left"}
    table = table_of(**columns, body="rest")
    for letter in letters:
        message = letter.message
        cells = [letter.id, stored_text(message), letter.origin_topic or "?", letter.failed_times]
        cells += [message.tags or "", " ".join(message.keys), body_text(message)]
        add_row(table, cells, style="dim" if letter.is_resent else None)
    console().print(table)
    resent = sum(letter.is_resent for letter in letters)
    words = [f"{len(letters)} of {count:,}"] if count > len(letters) else []
    words += [f"{resent} of these {'was' if resent == 1 else 'were'} resent"] if resent else []
    if words:
        click.echo("; ".join(words))


@dlq.command(short_help="Show one dead letter in full.")
@_common_flags
@json_flag
@click.argument("group", type=GROUP)
@click.argument("letter_id", metavar="ID")
def show(namesrv: str, protocol: str, as_json: bool, group: str, letter_id: str) -> None:
    """Show one dead letter of GROUP: where it came from, how it died, its properties, its body.

    ID is an id that `dlq list` shows, like broker-a/0/17, or the id of the message.
    """
    from staticfire.protocol.durations import format_moment

    letter = _with_dead_letters(namesrv, protocol, group, lambda queue: queue.find(letter_id))
    if as_json:
        click.echo(_line(letter))
        return
    message = letter.message
    rows = {
        "id": letter.id,
        "message id": message.message_id,
        "from": f"topic {letter.origin_topic or '?'}, first record {letter.origin_message_id or '?'}",
        "born": f"{format_moment(message.born_ms)} on {message.born_host}",
        "died": f"{format_moment(letter.died_ms)} of group {group}, after {letter.failed_times} failures",
    }
    for death in letter.earlier_deaths:
        rows[f"before, {death.place}"] = (
            f"{format_moment(death.died_ms)} of group {death.group}, after {death.failed_times} failures"
        )
    rows |= {f"property {name}": value for name, value in sorted(message.properties.items())}
    width = max(map(len, rows))
    for name, text in rows.items():
        click.echo(f"{printable(name):<{width}}  {printable(text)}")
    note = f" ({message.undecoded})" if message.undecoded else ""
    click.echo(f"\n{len(message.body):,} bytes{note}:")
    click.echo(without_controls(message.body.decode("utf-8", "backslashreplace")))


# -- export ------------------------------------------------------------------------------------------------------------


@dlq.command(short_help="Export all dead letters of a group as JSON lines.")
@_common_flags
@click.option(
    "--to", "path", metavar="FILE", help="The file to write. It appears only when it is complete. [default: stdout]"
)
@click.argument("group", type=GROUP)
def export(namesrv: str, protocol: str, path: str | None, group: str) -> int:
    """Write all dead letters of GROUP, one JSON object per line; `bodyBase64` contains the bytes of the body."""

    async def write(queue: "DeadLetterQueue") -> int:
        count = 0
        total = None if path is None else await queue.count()
        with counted("exported", total) as tell_more:
            async with _opened(path) as file:
                async for letter in queue.read():
                    file.write(_line(letter) + "\n")
                    tell_more(1)
                    count += 1
        return count

    try:
        count = _with_dead_letters(namesrv, protocol, group, write)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Otherwise Python would flush stdout again at its end.
        return EXIT_SIGNAL_BASE + signal.SIGPIPE  # as other programs before `| head`
    if path is not None:
        click.echo(f"exported {_count(count)} of {group} to {path}")
    return 0


@asynccontextmanager
async def _opened(path: str | None) -> AsyncIterator[TextIO]:
    """Open the file for an export. It gets its final name when it is complete. Raises: UsageError."""
    if path is None:
        yield sys.stdout
        return
    part = f"{path}.part"
    try:
        file = open(part, "w", encoding="utf-8")  # noqa: ASYNC230, SIM115 (nothing else runs in this event loop)
    except OSError as error:
        raise UsageError(f"--to {path}: {error.strerror}") from None
    try:
        with file:
            yield file
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise


# -- resend ------------------------------------------------------------------------------------------------------------


@dlq.command(short_help="Resend some or all dead letters.")
@_common_flags
@click.option("--all", "is_all", is_flag=True, help="All that were not resent by --all before.")
@click.option("--again", is_flag=True, help="With --all: include those that were resent before.")
@click.option("--from", "start", metavar="ID", help="With --again: leave out those before this one.")
@click.option("--to", metavar="TOPIC", type=TOPIC, help="The target topic. [default: the topic that each came from]")
@click.option("--only-group", is_flag=True, help="Resend to this group only, not to the other groups of the topic.")
@json_flag
@click.argument("group", type=GROUP)
@click.argument("ids", metavar="[ID]...", nargs=-1)
def resend(
    namesrv: str,
    protocol: str,
    is_all: bool,
    again: bool,
    start: str | None,
    to: str | None,
    only_group: bool,
    as_json: bool,
    group: str,
    ids: tuple[str, ...],
) -> int:
    """Resend dead letters of GROUP: those with the given IDs, or --all.

    They go to the topic that they came from, and all groups of that topic receive them; with --only-group, only GROUP
    does. They keep id, keys, tags and properties, start with all their retries, and also remain in the dead letters.
    If a resend of all was interrupted, the next one continues it; with --again, it continues at --from. Dead letters
    that can't be sent stay, and the next resend of all tries them again. A second resend of all at once is refused.
    """

    from staticfire.control.dlq import report_as_json

    if is_all == bool(ids):
        raise UsageError("dlq resend: give either ids of dead letters or --all")
    if again and not is_all:
        raise UsageError("dlq resend: --again needs --all; dead letters that are named by id are always resent")
    if start is not None and not again:
        raise UsageError("dlq resend: --from needs --again; without it, a resend of all continues by itself")

    def send(queue: "DeadLetterQueue") -> "Awaitable[ResendReport]":
        return queue.resend(ids, to=to, only_group=only_group, again=again, start=start)

    report = _resent(namesrv, protocol, group, send, as_json)
    if as_json:
        print_json(report_as_json(report))
    else:
        _tell_report(report, group)
    for left in report.left:
        tell(printable(f"{left.id} was not resent: {left.reason}"))
    for reason in report.other_groups_unknown:
        tell(printable(f"other groups may receive them, too: {reason}"))
    return EXIT_FAILED if report.left else 0


def _resent(
    namesrv: str,
    protocol: str,
    group: str,
    send: "Callable[[DeadLetterQueue], Awaitable[ResendReport]]",
    as_json: bool,
) -> "ResendReport":
    """Return the report of a resend. If it ends early, print what was sent and where to continue."""
    import asyncio

    from staticfire.client import ResendInterrupted
    from staticfire.control.dlq import interrupted_as_json

    async def noted(queue: "DeadLetterQueue") -> "ResendReport":
        try:
            return await send(queue)
        except asyncio.CancelledError as cancelled:
            for note in getattr(cancelled, "__notes__", ()):
                tell(note)
            raise

    try:
        with busy(f"resending dead letters of {group}"):
            return _with_dead_letters(namesrv, protocol, group, noted)
    except ResendInterrupted as interrupted:
        if as_json:
            print_json(interrupted_as_json(interrupted))
        raise


def _tell_report(report: "ResendReport", group: str) -> None:

    from staticfire.client.admin.resending import in_words

    if report.resent:
        click.echo(f"resent {in_words(report.resent)}")
    elif not report.left:
        click.echo(f"{group} has no dead letters left to resend")
    if report.skipped:
        click.echo(f"{_count(report.skipped)} had been resent before")
    if report.other_groups:
        click.echo(f"these groups also receive them: {', '.join(report.other_groups)} (use --only-group to avoid that)")


def _line(letter: "DeadLetter") -> str:
    return json_line(letter.as_json())


def _count(number: int) -> str:
    return f"{number:,} dead letter" if number == 1 else f"{number:,} dead letters"
