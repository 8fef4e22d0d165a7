"""usage: python -m tests.clients [--through-rocketmqs-proxy] [CLIENT ...]

Runs real RocketMQ clients against clusters and shows client x behaviour; CLIENT is a part of a column's name; then the
quick starts of docs/clients-5x.md, as they stand there; then each with right and wrong keys, without permissions, and
with TLS (`access`: only that). Ends with 1 when something failed. A client whose toolchain is missing is named; with
CI=true that is a failure, too. With the flag: the clients by gRPC, with RocketMQ's own proxy
between them and our brokers.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from rich.console import Console
from rich.table import Table

from staticfire.cluster.cluster import Cluster
from tests.clients.access import ACCESS_CASES, access_outcomes
from tests.clients.behaviours import BEHAVIOURS, BEHAVIOURS_5
from tests.clients.driving import Outcome, drive
from tests.clients.quick_starts import quick_starts
from tests.clients.toolchains import CLIENTS, ClientUnavailable, RealClient

MARKS = {"ok": "[green]ok[/]", "failed": "[bold red]FAILED[/]", "cannot": "[dim]-[/]"}


THROUGH = "--through-rocketmqs-proxy"
ACCESS = "access"
DRIVERS_AT_ONCE = 2
"""Most of the time, drivers wait: for delays, retries and checks of transactions."""
ACCESS_AT_ONCE = 3
"""Most of the time, these clients wait for what they are refused."""


def through_proxy(wanted: list[str]) -> int:
    """Run the clients by gRPC with RocketMQ's own proxy in between; return the exit code."""
    console = Console(width=max(100, Console().width))
    by_grpc = [client for client in CLIENTS if client.by_grpc]
    commands, unavailable = brought(by_grpc, wanted)

    def run(client: RealClient) -> dict[str, Outcome]:
        return drive(commands[client.name], "", by_grpc=True, foreign_proxy=True)

    columns = driven([client for client in by_grpc if client.name in commands], run, console, unavailable)
    show(console, columns, BEHAVIOURS_5)
    tell_of_missing(console, unavailable)
    return verdict(columns, unavailable)


def main(wanted: list[str]) -> int:
    """Run the clients; return the exit code."""
    if THROUGH in wanted:
        return through_proxy([word for word in wanted if word != THROUGH])
    if ACCESS in wanted:
        return only_access([word for word in wanted if word != ACCESS])
    console = Console(width=max(100, Console().width))
    commands, unavailable = brought(CLIENTS, wanted)
    with Cluster(settings={"autoCreateTopicEnable": False}) as strict:

        def run(client: RealClient) -> dict[str, Outcome]:
            return drive(commands[client.name], strict.namesrv, client.by_grpc)

        columns = driven([client for client in CLIENTS if client.name in commands], run, console, unavailable)
    if columns:
        for by_grpc, behaviours in ((False, BEHAVIOURS), (True, BEHAVIOURS_5)):
            names = [client.name for client in CLIENTS if client.by_grpc == by_grpc]
            show(console, {name: columns[name] for name in names if name in columns}, behaviours)
    by_access = access_columns([client for client in CLIENTS if client.name in columns], console, unavailable)
    starts, without_tools = quick_starts(wanted)
    unavailable |= without_tools
    for name, outcome in starts.items():
        words = f"quick start of {name}: {outcome.word}, {outcome.ms / 1000:.0f} s {outcome.detail}"
        console.print(words, highlight=False, markup=False)
    tell_of_missing(console, unavailable)
    if not columns and not unavailable:
        console.print(f"there is no such client: {', '.join(wanted)}")
        return 2
    access_verdicts = {f"{name}, access": column for name, column in by_access.items()}
    return verdict({**columns, **access_verdicts, "quick starts": starts}, unavailable)


def brought(clients: Sequence[RealClient], wanted: Sequence[str]) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Bring the wanted clients, one after the other; return their commands, and why others are unavailable."""
    commands: dict[str, list[str]] = {}
    unavailable: dict[str, str] = {}
    for client in clients:
        if wanted and not any(part in client.name for part in wanted):
            continue
        try:
            commands[client.name] = client.command()
        except ClientUnavailable as error:
            unavailable[client.name] = str(error)
    return commands, unavailable


def driven(
    clients: Sequence[RealClient],
    run: Callable[[RealClient], dict[str, Outcome]],
    console: Console,
    unavailable: dict[str, str],
    at_once: int = DRIVERS_AT_ONCE,
    suffix: str = "",
) -> dict[str, dict[str, Outcome]]:
    """Run clients, some at once; print a line about each that has ended, and return their outcomes.

    What can't be run gets into `unavailable`.
    """
    columns: dict[str, dict[str, Outcome]] = {}

    def run_and_tell(client: RealClient) -> None:
        began = time.monotonic()
        try:
            column = run(client)
        except ClientUnavailable as error:
            unavailable[client.name] = str(error)
            return
        columns[client.name] = column
        console.print(summary(f"{client.name}{suffix}", column, time.monotonic() - began), highlight=False)

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(run_and_tell, clients))
    return {client.name: columns[client.name] for client in clients if client.name in columns}


def access_columns(
    clients: Sequence[RealClient], console: Console, unavailable: dict[str, str]
) -> dict[str, dict[str, Outcome]]:
    """Run the clients with keys and TLS, show client x case, and return the outcomes."""
    os.environ.setdefault("STATICFIRE_LOG_LEVEL", "error")  # Each refusal is a line otherwise.

    # Those without TLS wait longest for a port that takes only TLS. They begin, so that the others wait beside them.
    slowest_first = sorted(clients, key=lambda client: not client.why_no_tls)
    columns = driven(slowest_first, access_outcomes, console, unavailable, ACCESS_AT_ONCE, ", access")
    show(console, {client.name: columns[client.name] for client in clients if client.name in columns}, ACCESS_CASES)
    return columns


def only_access(wanted: list[str]) -> int:
    """Run only the cases of access; return the exit code."""
    console = Console(width=max(100, Console().width))
    commands, unavailable = brought(CLIENTS, wanted)
    columns = access_columns([client for client in CLIENTS if client.name in commands], console, unavailable)
    for name, column in columns.items():
        for case, outcome in column.items():
            console.print(f"{name}, {case}: {outcome.word}: {outcome.detail}", highlight=False, markup=False)
    tell_of_missing(console, unavailable)
    return verdict(columns, unavailable)


def tell_of_missing(console: Console, unavailable: dict[str, str]) -> None:
    """Say which clients were not run, and why."""
    for name, reason in unavailable.items():
        console.print(f"[yellow]{name} was not tested:[/] ", end="")
        console.print(reason, markup=False, highlight=False)


def summary(name: str, column: dict[str, Outcome], took_s: float) -> str:
    """Return a client's line while the others still run."""
    failed = sum(outcome.word == "failed" for outcome in column.values())
    slowest = max(column, key=lambda behaviour: column[behaviour].ms)
    words = f"{failed} failed" if failed else "fine"
    return f"{name}: {words}, {took_s:.0f} s (slowest: {slowest}, {column[slowest].ms / 1000:.0f} s)"


def verdict(columns: dict[str, dict[str, Outcome]], unavailable: dict[str, str]) -> int:
    """Return 1 when something failed, or couldn't be tried where everything has to be."""
    failed = any(outcome.word == "failed" for column in columns.values() for outcome in column.values())
    return int(failed or (bool(unavailable) and os.environ.get("CI") == "true"))


def show(console: Console, columns: dict[str, dict[str, Outcome]], behaviours: dict[str, str]) -> None:
    """Print the table, then what is behind each failure and each dash."""
    if not columns:
        return
    table = Table("behaviour", *columns)
    for behaviour in behaviours:
        table.add_row(behaviour, *[MARKS[column[behaviour].word] for column in columns.values()])
    console.print(table)
    for word in ("cannot", "failed"):
        for name, column in columns.items():
            for behaviour, outcome in column.items():
                if outcome.word == word:
                    console.print(f"{MARKS[word]} {name}, {behaviour} ", end="")
                    console.print(f"({behaviours[behaviour]}): {outcome.detail}", markup=False, highlight=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
