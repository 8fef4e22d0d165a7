"""The whole road of a message, 336,776 times: `make demo`.

A nameserver and two brokers start as processes, and three desks: a consumer group in three more. Every flight of 2013
is a message. 8,255 of them were cancelled; those can't be handled, so they are sent back, wait in the delay queue and
are redelivered, sixteen times over 4 h 45 min, and end as dead letters. Message time skips ahead by itself, so that
takes seconds. In the middle one desk is killed with SIGKILL, and another one joins. The last line is

    demo: sent=336776 consumed=328521 dead=8255 lost=0 duplicates=0 seconds=41.7

counted from the desks' ledgers and from the dead letters; a wrong number makes the exit code 1. What the killed desk
had done and not reported is redelivered, so duplicates are possible: at least once, as with every RocketMQ consumer.
"""

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from check import CHECKER, DeadLetters
from data import FLIGHTS_MAX, TOPIC, DataMissing, Flight, read_flights
from desk import GROUP
from desks import LOOK_S, Books, Desks
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from send import Sent, send_all

from staticfire import Cluster
from staticfire.client import Admin, PullConsumer
from staticfire.client.admin.clock import ClusterClock

DESKS = 3
KILL_AT, JOIN_AT = 0.4, 0.6
# Of the flights that can be handled.
QUEUES = 4
# Per broker.
PATIENCE_S = 60
# Without any progress the demo has failed.


@dataclass
class Outcome:
    """Everything that the table shows."""

    sent: Sent = field(default_factory=Sent)
    departed: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    books: Books = field(default_factory=Books)
    dead: Counter[str] = field(default_factory=Counter)
    skipped_h: float = 0
    seconds: float = 0

    @property
    def consumed(self) -> int:
        return len(self.departed & self.books.done.keys())

    @property
    def lost(self) -> int:
        """Flights that were acknowledged and are neither handled nor dead."""
        return len(self.sent.checksums.keys() - self.books.done.keys() - self.dead.keys())

    @property
    def duplicates(self) -> int:
        return self.books.duplicates + self.dead.total() - len(self.dead)

    @property
    def is_right(self) -> bool:
        handled, dead = self.books.done.keys() == self.departed, self.dead.keys() == self.cancelled
        return handled and dead and self.lost == 0 and len(self.sent.checksums) == self.sent.flights


class Demo:
    """One run."""

    def __init__(
        self, namesrv: str, folder: Path, flights: list[Flight], progress: Progress, skip_at_once: bool = True
    ) -> None:
        """`skip_at_once`: without it message time is the wall clock's until every flight that can be is handled.

        Only then can the time at which a flight was stored be compared with a desk's clock.
        """
        self._namesrv = namesrv
        self._flights = flights
        self._progress = progress
        self._skip_at_once = skip_at_once
        self._desks = Desks(namesrv, folder)
        self._outcome = Outcome()
        self._outcome.departed = {flight.key for flight in flights if not flight.cancelled}
        self._outcome.cancelled = {flight.key for flight in flights if flight.cancelled}

    async def play(self) -> Outcome:
        """Send, handle, kill, join, wait for the last dead letter, count."""
        async with Admin(self._namesrv) as admin, PullConsumer(CHECKER, self._namesrv) as checker:
            await admin.create_topic(TOPIC, QUEUES)
            dead_letters = DeadLetters(checker, GROUP)
            clock = ClusterClock(admin.client)
            began_ms = (await clock.now()).message_ms
            if self._skip_at_once:
                await clock.skip()
            try:
                for _ in range(DESKS):
                    await self._desks.open()
                began_s = time.monotonic()
                async with asyncio.TaskGroup() as work:
                    work.create_task(self._send())
                    work.create_task(self._follow(dead_letters, clock))
                self._outcome.seconds = time.monotonic() - began_s
            finally:
                await self._desks.close()
            self._desks.look()
            self._outcome.books = self._desks.books
            await dead_letters.look()
            self._outcome.dead = dead_letters.found
            self._outcome.skipped_h = ((await clock.now()).message_ms - began_ms) / 3_600_000
        return self._outcome

    async def _send(self) -> None:
        bar = self._progress.add_task("sent", total=len(self._flights))
        more = self._progress.advance
        self._outcome.sent = await send_all(self._namesrv, self._flights, lambda count: more(bar, count))

    async def _follow(self, dead_letters: DeadLetters, clock: ClusterClock) -> None:
        """Watch the desks, break and mend them on the way, until everything has come to its end."""
        outcome, desks = self._outcome, self._desks
        handled_bar = self._progress.add_task("handled", total=len(outcome.departed))
        dead_bar = self._progress.add_task("dead", total=len(outcome.cancelled))
        seen, seen_at_s = (-1, -1, -1), time.monotonic()
        skips = self._skip_at_once
        while True:
            handled, dead = desks.look(), await dead_letters.look()
            self._progress.update(handled_bar, completed=handled)
            self._progress.update(dead_bar, completed=dead)
            if handled >= len(outcome.departed) and dead >= len(outcome.cancelled):
                return
            if handled >= len(outcome.departed) and not skips:
                await clock.skip()
                skips = True
            desks.check()
            await self._break_and_mend(handled)
            if (handled, dead, desks.books.failed) != seen:
                seen, seen_at_s = (handled, dead, desks.books.failed), time.monotonic()
            elif time.monotonic() - seen_at_s > PATIENCE_S:
                return  # The figures will show it.
            await asyncio.sleep(LOOK_S)

    async def _break_and_mend(self, handled: int) -> None:
        part = handled / max(1, len(self._outcome.departed))
        if part >= KILL_AT and self._desks.all[0].process.returncode is None:
            await self._desks.kill(self._desks.all[0])
        if part >= JOIN_AT and len(self._desks.all) == DESKS:
            await self._desks.open()


def table_of(outcome: Outcome) -> Table:
    """Return what happened, row by row."""
    books = outcome.books
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="left")
    table.add_column(justify="right")
    table.add_column(justify="left", style="dim")
    rows: list[tuple[str, int, str]] = [
        ("sent", len(outcome.sent.checksums), f"{outcome.sent.repeated} of them again, after a send that failed"),
        ("handled", outcome.consumed, f"{books.done.total() / max(outcome.seconds, 0.001):,.0f}/s all in all"),
        ("sent back", books.failed, f"{outcome.skipped_h:.2f} hours of message time"),
        *((f"  after {tried} retries", count, "") for tried, count in sorted(books.tries.items())),
        ("dead", len(outcome.dead), "in %DLQ%" + GROUP),
        ("duplicates", outcome.duplicates, "handled or dead more than once"),
        ("lost", outcome.lost, ""),
        ("rebalances", books.rebalances, "a desk was killed, and one joined"),
        ("first delivery, p50 ms", books.latency_ms(0.5), "from the send, in real time"),
        ("first delivery, p99 ms", books.latency_ms(0.99), ""),
    ]
    for name, number, note in rows:
        table.add_row(name, f"{number:,}", note)
    return table


def run(flights: list[Flight], console: Console, watch: bool = False) -> Outcome:
    """Play the demo against a cluster of its own. `watch`: say where to look at it, and keep it until Ctrl-C."""
    began_s = time.monotonic()
    bars = [TextColumn("{task.description:10}"), BarColumn(None), MofNCompleteColumn(), TimeElapsedColumn()]
    with (
        Cluster(brokers=2, isolation="process") as cluster,
        tempfile.TemporaryDirectory(prefix="flights-") as folder,
        Progress(*bars, console=console) as progress,
    ):
        console.print(f"nameserver {cluster.namesrv}, 2 brokers, ready in {time.monotonic() - began_s:.2f} s")
        if watch:
            console.print(f"demo: look at it: {cluster.control}/ui/groups/{GROUP}", highlight=False, soft_wrap=True)
        outcome = asyncio.run(Demo(cluster.namesrv, Path(folder), flights, progress).play())
        if watch:
            progress.stop()
            stay(cluster, console)
        return outcome


def stay(cluster: Cluster, console: Console) -> None:
    """Keep the cluster, with its dead letters, until Ctrl-C or SIGTERM."""
    console.print(
        f"demo: the dead letters: {cluster.control}/ui/dlq/{GROUP}; Ctrl-C ends it", highlight=False, soft_wrap=True
    )
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    ended.wait()


def main() -> int:
    """Run the demo; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--flights", type=int, default=FLIGHTS_MAX, help="how many of them (default: all)")
    parser.add_argument("--watch", action="store_true", help="show it in a browser, and keep the cluster until Ctrl-C")
    given = parser.parse_args()
    flights = min(given.flights, FLIGHTS_MAX)
    if flights < 1:
        parser.error(f"--flights {flights}: at least one has to fly")
    console = Console()
    os.environ.setdefault("STATICFIRE_LOG_LEVEL", "error")  # A desk is lost on purpose.
    began_s = time.monotonic()
    try:
        outcome = run(list(read_flights(flights)), console, given.watch)
    except DataMissing as missing:
        print(f"demo: {missing}", file=sys.stderr)
        return 2
    console.print(table_of(outcome))
    print(
        f"demo: sent={len(outcome.sent.checksums)} consumed={outcome.consumed} dead={len(outcome.dead)} "
        f"lost={outcome.lost} duplicates={outcome.duplicates} seconds={time.monotonic() - began_s:.1f}"
    )
    return 0 if outcome.is_right else 1


if __name__ == "__main__":
    sys.exit(main())
