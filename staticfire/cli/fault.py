"""`staticfire fault`: inject faults while the cluster runs.

If the control endpoint of `up` or `run` serves the same cluster, rules go through it: only that process can kill and
suspend the others. Otherwise they go directly to the servers.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

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
# The flags that choose the requests of a rule.
_MATCHING = ("code", "client", "group", "topic", "queue", "broker", "address", "language")
T = TypeVar("T")


@click.group(cls=Commands, epilog=f"All of them: {page('faults')}")
def fault() -> None:
    """Fault injection while the cluster runs: for some requests, clients or groups, a broker, a process.

    Rules are kept in the memory of the servers: a restarted process has none.
    """


def _cluster_flags(command: Command) -> Command:
    return all_flags(
        command,
        namesrv_flag,
        OPTION(
            "--control", envvar="STATICFIRE_CONTROL", metavar="URL",
            help="Address of the control endpoint, as `up` prints it; also STATICFIRE_CONTROL. [default: "
                f"http://127.0.0.1:{CONTROL_PORT}]",
        ),
    )  # fmt: skip


def _with_control(namesrv: str, control: str | None, ask: "Callable[[ControlClient], Awaitable[T]]") -> T:
    """Query the cluster, through its control endpoint or directly.

    The environment names one cluster: NAMESRV_ADDR and STATICFIRE_CONTROL. A nameserver in the command line may be
    another cluster's.
    """
    import asyncio

    from staticfire.cli.control_client import ControlClient

    source = click.get_current_context().get_parameter_source
    is_typed = {name: source(name) is ParameterSource.COMMANDLINE for name in ("namesrv", "control")}

    async def send() -> T:
        return await ask(ControlClient(namesrv, control, is_typed["control"] or not is_typed["namesrv"]))

    return asyncio.run(send())


def _rule_flags(command: Command) -> Command:
    return all_flags(
        command,
        OPTION(
            "--code",
            metavar="CODE",
            multiple=True,
            help="Only requests with this name or number, like SEND_MESSAGE; may be repeated.",
        ),
        OPTION("--client", metavar="ID", help="Only this client: its id, or a part of it, like the instance name."),
        OPTION("--group", metavar="GROUP", type=GROUP, help="Only this group."),
        OPTION("--topic", metavar="TOPIC", type=TOPIC, help="Only this topic."),
        OPTION("--queue", metavar="ID", help="Only queues with this number."),
        OPTION("--broker", metavar="NAME", help="Only on this broker or nameserver; separate several with commas."),
        OPTION("--address", metavar="HOST[:PORT]", help="Only requests from this address."),
        OPTION("--language", metavar="NAME", help="Only clients in this language: JAVA, GO, CPP, PYTHON ..."),
        OPTION(
            "--direction",
            metavar="WHICH",
            help="request, answer (the response), or server (requests that the server itself sends).",
        ),
        OPTION("--delay", metavar="DURATION", help="Delay by this time, like 200ms or 2s."),
        OPTION("--jitter", metavar="DURATION", help="With --delay: vary the delay at random by up to this time."),
        OPTION("--drop", metavar="WHICH", help="Drop the request, or the response (answer)."),
        OPTION("--answer", metavar="CODE", help="Don't execute the request; respond with this code, like SYSTEM_BUSY."),
        OPTION("--remark", metavar="TEXT", help="With --answer: the text of the response."),
        OPTION("--close", is_flag=True, help="Close the connection instead."),
        OPTION("--corrupt", is_flag=True, help="Change one bit of the response."),
        OPTION(
            "--bandwidth", metavar="BYTES", help="Limit the response to this number of bytes per second: 500, 10k, 1m."
        ),
        OPTION("--duplicate", is_flag=True, help="Execute the request twice."),
        OPTION(
            "--skew",
            metavar="DURATION",
            help="Shift the client's clock forward by this time, or back if it begins with a minus.",
        ),
        OPTION("--partition", metavar="A,B/C", help="Cut the connection between two sides: names, a slash, names."),
        OPTION("--read-only", is_flag=True, help="The broker accepts no messages."),
        OPTION("--disk-full", is_flag=True, help="The broker can't store messages."),
        OPTION("--freeze", metavar="DURATION", help="Freeze the process (SIGSTOP) for this time."),
        OPTION("--kill", is_flag=True, help="Kill the process (SIGKILL). Removing the rule starts it again."),
        OPTION("--probability", metavar="P", help="Probability of each hit: above 0, up to 1."),
        OPTION("--seed", metavar="N", help="Seed for --probability: the same seed repeats the same series of hits."),
        OPTION("--after", metavar="N", help="Let this number of matching requests pass first, on each server."),
        OPTION("--times", metavar="N", help="Stop after this number of hits; each server counts its own."),
        OPTION("--lifetime", metavar="DURATION", help="Remove the rule automatically after this time."),
        OPTION("--from", "from_", metavar="TIME", help="Only at this message time or later."),
        OPTION("--until", metavar="TIME", help="Only before this message time."),
    )


@fault.command(short_help="Add a fault rule.")
@_cluster_flags
@_rule_flags
@json_flag
def add(namesrv: str, control: str | None, as_json: bool, **words: Any) -> None:
    """Add a fault rule: which requests it hits, its action, and how often it hits.

    \b
    Examples:
        staticfire fault add --code SEND_MESSAGE --topic orders --answer SYSTEM_BUSY --times 3
        staticfire fault add --client billing-2 --delay 200ms --jitter 50ms
        staticfire fault add --code PULL_MESSAGE --group billing --drop answer --probability 0.1
        staticfire fault add --broker broker-b --freeze 20s
        staticfire fault add --partition broker-a/nameserver --lifetime 1m
    """
    for flag in _MATCHING:
        if words[flag] == "" or (flag == "code" and "" in words[flag]):
            raise UsageError(f"--{flag} is empty, like an unset variable: without the flag, a rule hits every {flag}")
    words["code"] = ",".join(words["code"]) or None
    rule = {name.rstrip("_"): value for name, value in words.items() if value not in (None, False)}
    added = _with_control(namesrv, control, lambda client: client.add(rule))
    if as_json:
        print_json(added)
        return
    click.echo(f"{added['number']}  {printable(added['words'])} ({', '.join(added['hits'])})")
    for note in added["notes"]:
        click.echo(f"   {printable(note)}", err=True)


@fault.command("list", short_help="List all fault rules with their hits.")
@_cluster_flags
@json_flag
@watch_flag
def show(namesrv: str, control: str | None, as_json: bool, watch_s: float | None) -> None:
    """List all fault rules, and how often each has hit."""

    def look() -> int:
        shown = _with_control(namesrv, control, lambda client: client.all())
        if as_json:
            for one in shown["faults"]:
                print_json(one)
        else:
            for line in lines(shown["faults"]):
                click.echo(printable(line))
        for server, words in shown["silent"].items():
            click.echo(printable(f"{server} doesn't respond: {words}"), err=True)
        if not shown["faults"] and not as_json:
            click.echo("no fault rules")
        return 0

    watched(watch_s, look)


@fault.command(short_help="Remove a fault rule.")
@_cluster_flags
@json_flag
@click.argument("number", metavar="ID")
def remove(namesrv: str, control: str | None, as_json: bool, number: str) -> None:
    """Remove a fault rule. A frozen process continues, a killed one is started again."""
    if not (number.isdecimal() and number.isascii() and len(number) <= 9):
        raise UsageError(
            f"fault remove: {number!r} is not the number of a rule; `staticfire fault list` shows the rules"
        )
    _with_control(namesrv, control, lambda client: client.remove(int(number)))
    if as_json:
        print_json({"removed": 1})


@fault.command(short_help="Remove all fault rules.")
@_cluster_flags
@json_flag
def clear(namesrv: str, control: str | None, as_json: bool) -> None:
    """Remove all fault rules. Frozen processes continue, killed ones are started again."""
    removed = _with_control(namesrv, control, lambda client: client.clear())
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
    """Return the rest of a rule's lifetime, in seconds rounded up."""
    return "" if one["leftMs"] < 0 else f"{format_duration(-(-one['leftMs'] // 1_000) * 1_000)} left"
