"""Measures staticfire on this machine: `make bench`, or `python -m benchmarks [--quick] [--large] [--only KEY,KEY]
[--oracle]`; with `--curves` what more topics, connections, messages cost.

The servers run on one core and the load on another; every round measures every family, beside a bare asyncio echo
server with the same frame sizes, and the median counts. Goals are shown, not enforced: the exit code is 0 whatever the
figures are, and 1 when a server answered with an error.
"""

import argparse
import os
import sys
import tempfile
import time
from statistics import median

from rich.console import Console

from benchmarks import history, machine
from benchmarks.figures import Family, Stand, Values
from benchmarks.figures.clusters import Clusters
from benchmarks.figures.conditions import Conditions
from benchmarks.figures.dead_letter import DeadLetter, Retries
from benchmarks.figures.delayed import Delayed
from benchmarks.figures.delayed_kills import DelayedKills
from benchmarks.figures.first_pull import FIRST_PULLS
from benchmarks.figures.groups import MembersJoin, Rebalance
from benchmarks.figures.grpc import GrpcReceives, GrpcSends, GrpcStart
from benchmarks.figures.held import Held
from benchmarks.figures.key_queries import KeyIndex, KeyQueries
from benchmarks.figures.latency import Latency
from benchmarks.figures.listeners import EndToEnd, FirstMessage, ListenerLatency
from benchmarks.figures.lite_pull import LitePull
from benchmarks.figures.many_topics import ManyTopics
from benchmarks.figures.pops import Pops
from benchmarks.figures.producer import MANY, SINGLE
from benchmarks.figures.redelivery import Redelivery
from benchmarks.figures.scale_out import ScaleOut
from benchmarks.figures.simulation import Simulation
from benchmarks.figures.starts import Starts
from benchmarks.figures.sync_flush import SyncFlush
from benchmarks.figures.testers import BigExplain, Fixture, Imports
from benchmarks.figures.throughput import THROUGHPUT
from benchmarks.figures.timers import Timers
from benchmarks.figures.tracing import TraceOff
from benchmarks.figures.transactions import Transactions
from benchmarks.load import UnexpectedAnswerError
from benchmarks.report import medians, number, show, show_steps_back, write
from benchmarks.spark import SparkRead, spark_missing

ROUNDS, QUICK_ROUNDS = 3, 2
TOUCHED_MIB = 1536
KEY_MESSAGES, QUICK_KEY_MESSAGES = 1_000_000, 100_000

# This one computes its own medians.
SPARK = SparkRead()
# This one measures CPU time of its own process.
SIMULATION = Simulation()
# These must create 10,000 queues first.
EXPLAIN, TOPICS = BigExplain(), ManyTopics()
# A million messages and more in each: together, they take longer than all other families.
LARGE: tuple[Family, ...] = (Delayed(), DelayedKills(), Timers(), Redelivery(), KeyQueries(), KeyIndex())
# These are measured in the first round only.
ONCE: tuple[Family, ...] = (*LARGE, SIMULATION, TOPICS, EXPLAIN, SPARK)
FAMILIES: list[Family] = [
    Latency(),
    *THROUGHPUT,
    *FIRST_PULLS,
    Pops(),
    SINGLE,
    MANY,
    EndToEnd(),
    ListenerLatency(),
    FirstMessage(),
    LitePull(),
    SyncFlush(),
    TraceOff(),
    Transactions(),
    DeadLetter(),
    Retries(),
    Conditions(),
    ScaleOut(),
    Rebalance(),
    MembersJoin(),
    Held(),
    Starts(),
    Clusters(),
    TOPICS,
    Imports(),
    Fixture(),
    GrpcSends(),
    GrpcReceives(),
    GrpcStart(),
    *LARGE,
    SIMULATION,
    EXPLAIN,
    SPARK,
]


def main() -> int:
    """Parse the arguments, measure, print the table, write the results."""
    arguments = _arguments()
    console = Console(width=None if sys.stdout.isatty() else 180)
    families = [] if arguments.curves else _chosen(arguments.only, arguments.large)
    missing = spark_missing()
    if SPARK in families and missing:
        console.print(f"[dim]{missing}")
        families = [family for family in families if family is not SPARK]
    key_messages = arguments.key_messages or (QUICK_KEY_MESSAGES if arguments.quick else KEY_MESSAGES)
    stand = Stand(arguments.seconds, arguments.dir, is_quick=arguments.quick, key_messages=key_messages)
    if arguments.curves:
        from benchmarks.curves.record import draw

        os.sched_setaffinity(0, {machine.LOAD_CORE})
        draw(console, stand, arguments.only)
        return 0
    about = machine.describe()
    console.print(", ".join(f"{name} {value}" for name, value in about.items()))
    machine.touch_memory(arguments.dir or tempfile.gettempdir(), TOUCHED_MIB)
    os.sched_setaffinity(0, {machine.LOAD_CORE})
    rounds: list[Values] = []
    speeds: list[float] = []
    foreign: list[float] = []
    try:
        for index in range(arguments.rounds):
            rounds.append(_round(console, families, stand, f"round {index + 1}/{arguments.rounds}", speeds, foreign))
            families = [family for family in families if family not in ONCE]
            if not families:
                break
    except UnexpectedAnswerError as error:
        console.print(f"[red]bench: {error}")
        return 1
    values = medians(rounds)
    show(console, values, rounds)
    about["crc32_1k_ns"] = round(median(speeds))
    times = median(speeds) / machine.GOALS_CRC32_NS
    console.print(
        f"CRC-32 of 1 KiB: {median(speeds):.0f} ns, {times:.1f} times of what it was where the goals were set"
    )
    compared: Values = {}
    if arguments.oracle:
        from benchmarks.oracle import compare

        compared = compare(console, stand, arguments.only)
    console.print(f"written: {write(values, about, compared, len(rounds))}")
    about["foreign_cores"] = round(median(foreign), 2)
    _compare(console, history.line_of(values, about, len(rounds)), arguments.record)
    return 0


def _compare(console: Console, line: dict[str, object], is_recorded: bool) -> None:
    """Name what is worse than in the last recorded runs, and record this one if that is wanted."""
    show_steps_back(console, line, history.read())
    if is_recorded:
        history.append(line)
        console.print(f"recorded: {history.HISTORY}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two rounds, and a tenth of the delayed messages")
    parser.add_argument(
        "--large", action="store_true", help="also the figures of a million messages, for four more minutes"
    )
    parser.add_argument("--rounds", type=int, help=f"how many rounds (default: {ROUNDS})")
    parser.add_argument(
        "--only", default="", metavar="KEY,KEY", help="figures or their families, or curves; part of a key will do"
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="of one window (default: 1)")
    parser.add_argument(
        "--key-messages", type=int, help=f"among how many messages keys are looked for (default: {KEY_MESSAGES})"
    )
    parser.add_argument("--dir", help="below which folder stores lie (default: the temporary one)")
    parser.add_argument(
        "--oracle", action="store_true", help="beside a real RocketMQ, too (a JDK and Maven are needed)"
    )
    parser.add_argument(
        "--curves", action="store_true", help="instead: what more topics, connections, messages ... cost"
    )
    parser.add_argument(
        "--record", action="store_true", help="append a complete run to the history that later runs are compared with"
    )
    arguments = parser.parse_args()
    if arguments.record and (arguments.only or arguments.quick):
        parser.error("--record takes complete runs: without --only and --quick")
    arguments.rounds = arguments.rounds or (QUICK_ROUNDS if arguments.quick else ROUNDS)
    return arguments


def _chosen(only: str, is_large: bool) -> list[Family]:
    words = [word for word in only.split(",") if word]
    if not words:
        return [family for family in FAMILIES if is_large or family not in LARGE]
    chosen = [
        family
        for family in FAMILIES
        if any(word == family.name or any(key.startswith(word) for key in family.keys) for word in words)
    ]
    if not chosen:
        raise SystemExit(f"bench: nothing is called {only}; there are: {', '.join(_all_keys())}")
    return chosen


def _all_keys() -> list[str]:
    return [key for family in FAMILIES for key in family.keys]


def _round(
    console: Console, families: list[Family], stand: Stand, name: str, speeds: list[float], foreign: list[float]
) -> Values:
    """Measure each family once; append the machine's speed, and what other programs used, before each."""
    values: Values = {}
    for family in families:
        foreign.append(machine.wait_until_quiet())
        speeds.append(machine.crc32_ns())
        began_s = time.monotonic()
        measured = family.measure(stand)
        seconds = time.monotonic() - began_s
        values |= measured
        shown = "  ".join(f"{key} {number(measured[key])}" for key in family.keys)
        during = measured.get(f"{family.name}_foreign", foreign[-1])
        console.print(f"[dim]{name}  {shown}  (foreign: {during:.2f} cores, {seconds:.1f} s)")
    return values


if __name__ == "__main__":
    _began_s = time.monotonic()
    _code = main()
    print(f"bench: it took {time.monotonic() - _began_s:,.0f} s")
    sys.exit(_code)
