"""`staticfire fault`: inject faults while the cluster runs.

If the control endpoint of `up` or `run` serves the same cluster, rules go through it: only that process can kill and
suspend the others. Otherwise they go directly to the servers.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from staticfire.cli.command_groups import Commands
from staticfire.cli.family import GROUP, TOPIC, json_flag, watch_flag
from staticfire.cli.listing import print_json, watched
from staticfire.cli.messages import count_of, printable
from staticfire.cli.options import Command, all_flags, namesrv_flag
from staticfire.launch.plan import CONTROL_PORT
from staticfire.protocol.documentation import page
from staticfire.protocol.durations import format_duration
from staticfire.protocol.errors import UsageError

if TYPE_CHECKING:
    from staticfire.cli.control_client import ControlClient

OPTION = click.option
T = TypeVar("T")


@click.group(cls=Commands, epilog=f"All of them: {page('faults')}")
def fault() -> None:
    """What goes wrong on purpose, while the cluster runs: for some requests, clients or groups, a broker, a process.

    Rules live in the servers' memory: a process that is started again has none.
    """


def _cluster_flags(command: Command) -> Command:
    return all_flags(
        command,
        namesrv_flag,
        OPTION(
            "--control", envvar="STATICFIRE_CONTROL", metavar="URL",
            help=f"The control endpoint, as `up` prints it; also STATICFIRE_CONTROL. [default: http://127.0.0.1:{CONTROL_PORT}]",
        ),
    )  # fmt: skip


def _asked(namesrv: str, control: str | None, ask: "Callable[[ControlClient], Awaitable[T]]") -> T:
    """Query the cluster, through its control endpoint or directly."""
    import asyncio

    from staticfire.cli.control_client import ControlClient

    async def asked() -> T:
        return await ask(ControlClient(namesrv, control))

    return asyncio.run(asked())


def _rule_flags(command: Command) -> Command:
    return all_flags(
        command,
        OPTION("--code", metavar="CODE", help="Requests of that name or number, like SEND_MESSAGE, or several."),
        OPTION("--client", metavar="ID", help="Of this client: its id, or one part of it, as the instance name."),
        OPTION("--group", metavar="GROUP", type=GROUP, help="Only of this group."),
        OPTION("--topic", metavar="TOPIC", type=TOPIC, help="Only of this topic."),
        OPTION("--queue", metavar="ID", help="Only of the queues with this number."),
        OPTION("--broker", metavar="NAME", help="On this broker (or nameserver) only; several with commas."),
        OPTION("--address", metavar="HOST[:PORT]", help="From this address."),
        OPTION("--language", metavar="NAME", help="From clients in JAVA, GO, CPP, PYTHON ..."),
        OPTION("--direction", metavar="WHICH", help="request, answer, or server: what the server itself asks."),
        OPTION("--delay", metavar="DURATION", help="Later by 200ms, 2s ..."),
        OPTION("--jitter", metavar="DURATION", help="With --delay: that much earlier or later, by chance."),
        OPTION("--drop", metavar="WHICH", help="Nothing is done (request), or nothing answered (answer)."),
        OPTION("--answer", metavar="CODE", help="Not done, but answered with a code, like SYSTEM_BUSY."),
        OPTION("--remark", metavar="TEXT", help="With --answer: its words."),
        OPTION("--close", is_flag=True, help="The connection is closed instead."),
        OPTION("--corrupt", is_flag=True, help="A bit of the answer is changed."),
        OPTION("--bandwidth", metavar="BYTES", help="The answer comes with so many bytes per second: 500, 10k, 1m."),
        OPTION("--duplicate", is_flag=True, help="Done twice."),
        OPTION("--skew", metavar="DURATION", help="The client's clock is that much fast, or with a minus slow."),
        OPTION("--partition", metavar="A,B/C", help="Servers and clients that don't hear of those behind the slash."),
        OPTION("--read-only", is_flag=True, help="The broker takes no messages."),
        OPTION("--disk-full", is_flag=True, help="The broker can't store messages."),
        OPTION("--freeze", metavar="DURATION", help="The process stands still (SIGSTOP) for so long."),
        OPTION("--kill", is_flag=True, help="The process is killed (SIGKILL); removing the rule starts it again."),
        OPTION("--probability", metavar="P", help="Above 0, up to 1."),
        OPTION("--seed", metavar="N", help="Of the probability: the same seed, the same series."),
        OPTION("--times", metavar="N", help="So many hits (each server counts for itself), then none."),
        OPTION("--lifetime", metavar="DURATION", help="Removed by itself after that."),
        OPTION("--from", "from_", metavar="TIME", help="Hits only from this message time on."),
        OPTION("--until", metavar="TIME", help="Hits only before this message time."),
    )


@fault.command(short_help="Let something go wrong.")
@_cluster_flags
@_rule_flags
@json_flag
def add(namesrv: str, control: str | None, as_json: bool, **words: Any) -> None:
    """Let something go wrong from now on: whom, what (one of the actions), and how often.

    \b
    Examples:
        staticfire fault add --code SEND_MESSAGE --topic orders --answer SYSTEM_BUSY --times 3
        staticfire fault add --client billing-2 --delay 200ms --jitter 50ms
        staticfire fault add --code PULL_MESSAGE --group billing --drop answer --probability 0.1
        staticfire fault add --broker broker-b --freeze 20s
        staticfire fault add --partition broker-a/nameserver --lifetime 1m
    """
    said = {name.rstrip("_"): value for name, value in words.items() if value not in (None, False)}
    added = _asked(namesrv, control, lambda client: client.add(said))
    if as_json:
        print_json(added)
        return
    click.echo(f"{added['number']}  {printable(added['words'])} ({', '.join(added['hits'])})")
    for note in added["notes"]:
        click.echo(f"   {printable(note)}", err=True)


@fault.command("list", short_help="Show all rules, with their hits.")
@_cluster_flags
@json_flag
@watch_flag
def show(namesrv: str, control: str | None, as_json: bool, watch_s: float | None) -> None:
    """Show all rules, and how often each has hit."""

    def look() -> int:
        shown = _asked(namesrv, control, lambda client: client.all())
        if as_json:
            for one in shown["faults"]:
                print_json(one)
        else:
            for line in lines(shown["faults"]):
                click.echo(printable(line))
        for server, words in shown["silent"].items():
            click.echo(printable(f"{server} doesn't answer: {words}"), err=True)
        if not shown["faults"] and not as_json:
            click.echo("nothing goes wrong on purpose")
        return 0

    watched(watch_s, look)


@fault.command(short_help="Let it go right again.")
@_cluster_flags
@json_flag
@click.argument("number", metavar="ID")
def remove(namesrv: str, control: str | None, as_json: bool, number: str) -> None:
    """Remove a rule: frozen processes go on, killed ones are started again."""
    if not (number.isdecimal() and number.isascii() and len(number) <= 9):
        raise UsageError(f"fault remove: {number!r} is no number of a rule; `staticfire fault list` has them")
    _asked(namesrv, control, lambda client: client.remove(int(number)))
    if as_json:
        print_json({"removed": 1})


@fault.command(short_help="Let everything go right again.")
@_cluster_flags
@json_flag
def clear(namesrv: str, control: str | None, as_json: bool) -> None:
    """Remove all rules: frozen processes go on, killed ones are started again."""
    removed = _asked(namesrv, control, lambda client: client.clear())
    if as_json:
        print_json({"removed": removed})
    else:
        click.echo(f"removed {count_of(removed, 'rule')}")


def lines(faults: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each rule: number, description, hits by server, remaining lifetime."""
    rows = [(str(one["number"]), one["words"], _hits(one), _left(one)) for one in faults]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _hits(one: Mapping[str, Any]) -> str:
    return ", ".join(f"{server} {hits:,}" for server, hits in one["hits"].items())


def _left(one: Mapping[str, Any]) -> str:
    return "" if one["leftMs"] < 0 else f"{format_duration(one['leftMs'])} left"
