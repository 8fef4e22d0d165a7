"""`staticfire chaos`: the user's own program under faults that a correct RocketMQ may have, with a verdict."""

import os
from typing import TYPE_CHECKING, Any

import click

from staticfire.cli.options import Assignments, Whole, all_flags, as_settings
from staticfire.protocol.documentation import page
from staticfire.protocol.durations import parse_duration
from staticfire.protocol.errors import UsageError
from staticfire.runtime.exit_codes import EXIT_CLUSTER_FAILED, EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, EXIT_SIGNAL_BASE

if TYPE_CHECKING:
    from staticfire.chaos.session import WantedTrial

SEEDS_MAX = 100_000
STDERR = 2
OPTION = click.option


def _flags(command: Any) -> Any:
    return all_flags(
        command,
        OPTION("--seed", type=Whole(0), help="Try this seed only. [default: 1]"),
        OPTION("--seeds", type=Whole(1, SEEDS_MAX), help="Try this many seeds, from 1 on."),
        OPTION("--until-broken", is_flag=True, help="With --seeds: stop at the first seed that breaks a promise."),
        OPTION(
            "--weather", type=click.Choice(["mild", "rough", "hell"]), default="mild", show_default=True,
            help="How bad the faults are.",
        ),
        OPTION("--only", default="", metavar="KIND,...", help="Only these kinds of faults, like duplicate,rebalance."),
        OPTION("--never", default="", metavar="KIND,...", help="Not these kinds of faults."),
        OPTION("--faults", default="", metavar="N,...", help="Only these faults of the plan, by number."),
        OPTION("--plan", "is_plan", is_flag=True, help="Print the faults as commands, and try nothing."),
        OPTION(
            "--each", "conditions", multiple=True, metavar="CONDITION",
            help="What each message of a topic must bring forth: 'orders -> invoices by key'; may be repeated.",
        ),
        OPTION("--at-rest", default="", metavar="COMMAND", help="A shell command that must succeed after each run."),
        OPTION(
            "--limit", default="10m", show_default=True, metavar="DURATION",
            help="Stop each run after this time, and the command of --at-rest when it has taken as long.",
        ),
        OPTION(
            "--settle", default="10s", show_default=True, metavar="DURATION",
            help="For a program that never ends: the time to consume the rest when the faults are over.",
        ),
        OPTION("--shrink/--no-shrink", default=True, help="Look for fewer faults of a failing seed. [default: on]"),
        OPTION("--page", "page_path", metavar="FILE", help="Write the worst run as a page for a browser."),
        OPTION("--test", "test_path", metavar="FILE", help="Write a failing seed as a pytest test."),
        OPTION(
            "--json", "as_json", is_flag=True,
            help="Print one JSON object for each run. What commands print is on stderr.",
        ),
        OPTION("--show-output", is_flag=True, help="Show what the command prints, not only the end of a failing run."),
        OPTION("--namesrv", hidden=True, help="Refused: the cluster is always one of its own."),
        OPTION(
            "--topic", "topics", multiple=True, metavar="NAME[:TYPE]",
            help="Create a topic first, like orders or steps:FIFO: gRPC clients can't. May be repeated.",
        ),
        OPTION("--brokers", type=Whole(1), default=1, show_default=True, help="Number of brokers."),
        OPTION("--namesrv-port", type=Whole(0, 65535), default=0, help="Port of the nameserver. [default: any]"),
        OPTION("--broker-port", type=Whole(0, 65535), default=0, help="Port of the first broker. [default: any]"),
        OPTION(
            "--set", "assignments", multiple=True, type=Assignments(),
            help="Change a setting, by RocketMQ's name; may be repeated.",
        ),
    )  # fmt: skip


@click.command(
    context_settings={"allow_interspersed_args": False},
    short_help="Run a command under faults that RocketMQ may have, and check that it keeps its promises.",
    epilog=page("chaos"),
)
@_flags
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def chaos(command: tuple[str, ...], **given: Any) -> int:
    """Run a command without faults, then under those of seeds, and say which promises it breaks.

    \b
    Examples:
        staticfire chaos -- mvn test -Dtest=BillingIT
        staticfire chaos --seeds 20 --weather rough -- pytest tests/it
        staticfire chaos --each 'orders -> invoices by key' -- ./billing
        staticfire chaos --seed 7 --only duplicate,rebalance -- go test ./...

    The command finds NAMESRV_ADDR, STATICFIRE_CONTROL and ROCKETMQ_ENDPOINT, as with `run`. The exit code is 0 if all
    promises were kept, 1 if one was broken, 2 if nothing could be tested, 126 and 127 if the command can't be run, the
    command's own exit code if it fails without faults.
    """
    import asyncio

    from staticfire.chaos.report import JsonReport, TextReport
    from staticfire.cli.chaos_runs import Runs

    missing = _not_runnable(command)
    if missing is not None:
        click.echo(f"staticfire: {missing[0]}", err=True)
        return missing[1]
    _refuse_vain_flags(given)
    wanted = _wanted(command, given)
    seeds = _seeds(given)
    report = JsonReport(wanted, click.echo) if given["as_json"] else TextReport(wanted, click.echo)
    runs = Runs(wanted, seeds, report, given["page_path"], given["test_path"], given["is_plan"], given["until_broken"])
    exit_code = asyncio.run(runs.all())
    return EXIT_SIGNAL_BASE + runs.stopped_by if exit_code is None else exit_code


def _not_runnable(command: tuple[str, ...]) -> tuple[str, int] | None:
    """Return why a command can't be run, and the exit code for it."""
    import shutil

    name = command[0]
    if shutil.which(name) is not None:
        return None
    if os.path.exists(name):
        return f"{name} can't be run: it is a folder, or not executable (chmod +x {name})", EXIT_NOT_EXECUTABLE
    return f"{name}: command not found", EXIT_NOT_FOUND


def _refuse_vain_flags(given: dict[str, Any]) -> None:
    """Raises: UsageError (a flag would have no effect)."""
    if given["until_broken"] and given["seeds"] is None:
        raise UsageError("--until-broken stops a series of seeds: use it with --seeds N")
    if given["is_plan"] and (given["page_path"] or given["test_path"]):
        raise UsageError("--plan tries nothing, so there is nothing for --page and --test to write: leave them out")


def _seeds(given: dict[str, Any]) -> list[int]:
    if given["seed"] is not None and given["seeds"] is not None:
        raise UsageError("use either --seed or --seeds, not both")
    if given["seeds"] is not None:
        return list(range(1, given["seeds"] + 1))
    return [1 if given["seed"] is None else given["seed"]]


def _wanted(command: tuple[str, ...], given: dict[str, Any]) -> "WantedTrial":
    from staticfire.chaos.each import parse_each
    from staticfire.chaos.running import TriedProgram
    from staticfire.chaos.session import WantedTrial
    from staticfire.chaos.shrinking import RUNS_MAX
    from staticfire.chaos.topics import parse_topic
    from staticfire.chaos.weather import check_kinds
    from staticfire.launch.grpc_extra import grpc_is_installed
    from staticfire.launch.plan import HOST
    from staticfire.runtime.ports import listen_on

    if real := given["namesrv"] or os.environ.get("ROCKETMQ_TARGET"):
        raise UsageError(
            f"{real} can't be used: faults of a cluster that runs elsewhere, such as a real RocketMQ, can't be "
            "controlled from here. `staticfire chaos` starts its own; leave --namesrv and ROCKETMQ_TARGET out"
        )
    only, never = _names(given["only"]), _names(given["never"])
    check_kinds((*only, *never))
    if only and not set(only) - set(never):
        raise UsageError("--never leaves nothing of --only")
    limit_ms = parse_duration(given["limit"])
    if not limit_ms:
        raise UsageError("--limit 0s: a run needs some time")
    for port in filter(None, (given["namesrv_port"], given["broker_port"])):
        listen_on(HOST, port, "stop it, or choose another port with --namesrv-port or --broker-port").close()
    program = TriedProgram(
        command,
        limit_ms / 1_000,
        parse_duration(given["settle"]) / 1_000,
        given["at_rest"],
        given["brokers"],
        given["namesrv_port"],
        given["broker_port"],
        grpc_is_installed(),
        as_settings(given["assignments"]),
        given["show_output"],
        STDERR if given["as_json"] else None,
        tuple(dict.fromkeys(parse_topic(text) for text in given["topics"])),
        dict(os.environ),
        limit_ms / 1_000,
    )
    # Servers log each fault; here they are expected. Nothing is logged as critical.
    os.environ.setdefault("STATICFIRE_LOG_LEVEL", "critical")
    each = tuple(parse_each(text) for text in given["conditions"])
    runs_max = RUNS_MAX if given["shrink"] else 0
    return WantedTrial(program, given["weather"], only, never, each, _numbers(given["faults"]), runs_max)


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _numbers(text: str) -> tuple[int, ...]:
    names = _names(text)
    if wrong := [name for name in names if not (name.isascii() and name.isdecimal() and len(name) < 9)]:
        raise UsageError(f"--faults {wrong[0]}: write the numbers of the faults as --plan shows them, like 1,3")
    return tuple(map(int, names))


__all__ = ["EXIT_CLUSTER_FAILED", "chaos"]
