"""`staticfire clock`: message time, which delayed messages, retries and retention use.

Each command ends with a short report of the clock. `advance` returns when consumers have consumed everything that fell
due on the way. If they don't settle, it exits with code 3 and names them.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from staticfire.cli.command_groups import Commands
from staticfire.cli.family import json_flag, watch_flag
from staticfire.cli.listing import busy, console, print_json, watched
from staticfire.cli.messages import count_of
from staticfire.cli.options import namesrv_flag
from staticfire.protocol.durations import format_duration, format_moment, parse_duration, parse_moment
from staticfire.protocol.errors import UsageError

if TYPE_CHECKING:
    from staticfire.client.admin.clock import ClockReport, ClusterClock

Command = Callable[..., None]
NAME_CHARS = 14


@click.group(cls=Commands, default="now")
def clock() -> None:
    """Message time: show it, freeze it, move it forward, make it run faster, or skip idle time.

    Heartbeats, locks and timeouts always use real time. Without a command, message time is shown.
    """


def _common_flags(command: Command) -> Command:
    return namesrv_flag(json_flag(command))


@clock.command()
@_common_flags
@watch_flag
def now(namesrv: str, as_json: bool, watch_s: float | None) -> None:
    """Show message time, and when the next message is due."""

    def look() -> int:
        _show(_moved(namesrv, lambda cluster: cluster.now()), as_json)
        return 0

    watched(watch_s, look)


@clock.command()
@_common_flags
def freeze(namesrv: str, as_json: bool) -> None:
    """Stop message time."""
    _show(_moved(namesrv, lambda cluster: cluster.freeze()), as_json)


@clock.command()
@_common_flags
def run(namesrv: str, as_json: bool) -> None:
    """Let message time run at real speed, from its current value."""
    _show(_moved(namesrv, lambda cluster: cluster.run()), as_json)


@clock.command(short_help="Skip idle time automatically: jump to each next due time.")
@_common_flags
def skip(namesrv: str, as_json: bool) -> None:
    """Jump to the next due time, again and again, whenever all consumers have finished."""
    _show(_moved(namesrv, lambda cluster: cluster.skip()), as_json)


@clock.command(short_help="Let message time run faster.")
@_common_flags
@click.argument("rate", type=float)
def scale(namesrv: str, as_json: bool, rate: float) -> None:
    """Let message time run RATE times faster: with 60, each second is a minute."""
    if not rate > 0:
        still = "to stop message time, use `staticfire clock freeze`"
        raise UsageError(f"clock scale {rate:g}: the rate must be above 0; {still}")
    _show(_moved(namesrv, lambda cluster: cluster.scale(rate)), as_json)


@clock.command(short_help="Move message time forward, and wait until the consumers have finished.")
@_common_flags
@click.option(
    "--to",
    "moment",
    metavar="TIME",
    help="The target time: 2026-11-21T13:30:00Z (UTC if there is no zone), or milliseconds.",
)
@click.option(
    "--settle", metavar="DURATION", help="Maximum time that consumers may need after each step. [default: 30s]"
)
@click.argument("duration", required=False)
def advance(namesrv: str, as_json: bool, moment: str | None, settle: str | None, duration: str | None) -> None:
    """Move message time forward by DURATION (2h, 1h30m, 90s, 500ms, 2d) or to a time, and wait for the consumers."""
    if (moment is None) == (duration is None):
        raise UsageError("clock advance: give either a duration (like 2h) or --to TIME")
    by_ms = None if duration is None else parse_duration(duration)
    to_ms = None if moment is None else parse_moment(moment)
    settle_ms_max = None if settle is None else parse_duration(settle)
    with busy("message time advances"):
        report = _moved(namesrv, lambda cluster: cluster.advance(by_ms, to_ms, settle_ms_max))
    _show(report, as_json, has_delivered=True)


def _moved(namesrv: str, move: "Callable[[ClusterClock], Awaitable[ClockReport]]") -> "ClockReport":
    """Read or change the clock of a cluster."""
    import asyncio

    from staticfire.client.admin.clock import ClusterClock
    from staticfire.runtime.client_machine import client_machine
    from staticfire.runtime.pool import ConnectionPool

    async def on_a_connection() -> "ClockReport":
        machine = client_machine()
        pool = ConnectionPool(machine)
        try:
            return await move(ClusterClock(pool, namesrv))
        finally:
            await pool.close()
            await machine.workers.close()

    return asyncio.run(on_a_connection())


def _show(report: "ClockReport", as_json: bool, has_delivered: bool = False) -> None:
    if as_json:
        print_json(report.as_json())
        return
    output = console()
    for name, words in _lines(report, has_delivered):
        output.print(f"[bold]{name.ljust(NAME_CHARS)}[/bold]{words}", soft_wrap=True)


def _lines(report: "ClockReport", has_delivered: bool) -> list[tuple[str, str]]:
    """Return the report as pairs of a name and a text."""
    from staticfire.protocol.requests.clock import SCALED

    pace = f", {report.rate:g} times as fast as real time" if report.mode == SCALED else ""
    lines = [
        ("message time", f"{format_moment(report.message_ms)} ({_ahead(report.ahead_ms)})"),
        ("wall time", format_moment(report.wall_ms)),
        ("mode", report.mode + pace),
        ("next due", _due(report)),
    ]
    if has_delivered:
        lines.append(("delivered", f"{count_of(report.delivered, 'message')} in {count_of(report.steps, 'step')}"))
    if report.checked:
        lines.append(
            ("checked", f"{count_of(report.checked, 'open transaction')}: the broker sent checks to their producers")
        )
    if report.expired:
        lines.append(("expired", f"{count_of(report.expired, 'popped message')}: redelivered"))
    return lines


def _ahead(ahead_ms: int) -> str:
    seconds = round(ahead_ms / 1_000)
    if not seconds:
        return "same as the wall clock"
    return f"{format_duration(abs(seconds) * 1_000)} {'ahead' if seconds > 0 else 'behind'}"


def _due(report: "ClockReport") -> str:
    if report.next_due_ms is None:
        return "nothing"
    left_ms = report.next_due_ms - report.message_ms
    return f"{format_moment(report.next_due_ms)} ({'in ' + format_duration(left_ms) if left_ms > 0 else 'now'})"
