"""Every flight of 2013 through a cluster of which one broker is killed: `make demo`.

A nameserver and two brokers start as processes. Every flight is sent as a message; in the middle one broker is killed
with SIGKILL, and a while later it is started again on its folder. Then every queue is read back and counted. The last
line is

    demo: sent=336776 stored=336776 lost=0 duplicates=0 seconds=9.8

and the exit code is 1 when a flight is missing or isn't what was sent. A send whose answer was lost with the broker is
made again, so duplicates are possible: at least once, as with every RocketMQ producer.
"""

import argparse
import asyncio
import os
import sys
import time
from dataclasses import dataclass, field

from check import Stored, read_back
from data import FLIGHTS_MAX, TOPIC, DataMissing, read_flights
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from send import Sent, send_all

from staticfire import Cluster

VICTIM = "broker-b"
KILL_AT, RESTART_AT = 0.4, 0.6
# Of the flights that are to be sent.
QUEUES = 4
# Per broker.


@dataclass
class Tally:
    """Counts up to a goal and tells who waits for a part of it."""

    goal: int
    count: int = 0
    _waiting: list[tuple[int, asyncio.Event]] = field(default_factory=list)

    def add(self, more: int) -> None:
        self.count += more
        for count, event in self._waiting:
            if self.count >= count:
                event.set()

    async def reached(self, part: float) -> int:
        """Return the count when it has come to that part of the goal."""
        event = asyncio.Event()
        self._waiting.append((int(self.goal * part), event))
        self.add(0)
        await event.wait()
        return self.count


@dataclass
class Outage:
    """What happened to the broker in the middle, for the table."""

    killed_at: int = 0
    back_at: int = 0
    restart_ms: int = 0


@dataclass
class Outcome:
    """Everything that the table shows."""

    sent: Sent
    stored: Stored
    outage: Outage
    send_s: float = 0
    read_s: float = 0


async def break_and_repair(cluster: Cluster, tally: Tally) -> Outage:
    """Kill a broker in the middle, and start it again."""
    broker, outage = cluster.broker(VICTIM), Outage()
    outage.killed_at = await tally.reached(KILL_AT)
    await asyncio.to_thread(broker.kill)
    outage.back_at = await tally.reached(RESTART_AT)
    began_s = time.monotonic()
    await asyncio.to_thread(broker.restart)
    outage.restart_ms = round((time.monotonic() - began_s) * 1000)
    return outage


async def play(cluster: Cluster, flights: int, progress: Progress) -> Outcome:
    """Send, break, repair, read back."""
    cluster.create_topic(TOPIC, QUEUES)
    began_s = time.monotonic()
    bar, tally = progress.add_task("sent", total=flights), Tally(flights)

    def sent_more(more: int) -> None:
        progress.advance(bar, more)
        tally.add(more)

    async with asyncio.TaskGroup() as both:
        outage = both.create_task(break_and_repair(cluster, tally))
        sending = both.create_task(send_all(cluster.namesrv, read_flights(flights), sent_more))
    sent_s = time.monotonic()
    bar = progress.add_task("read back", total=sending.result().flights)
    stored = await read_back(cluster.namesrv, lambda more: progress.advance(bar, more))
    read_s = time.monotonic()
    outcome = Outcome(sending.result(), stored, outage.result())
    outcome.send_s, outcome.read_s = sent_s - began_s, read_s - sent_s
    return outcome


def table_of(outcome: Outcome) -> Table:
    """Return what happened, row by row."""
    sent, stored, outage = outcome.sent, outcome.stored, outcome.outage
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="left")
    table.add_column(justify="right")
    table.add_column(justify="left", style="dim")
    rows = [
        ("flights read", sent.flights, ""),
        ("acknowledged", len(sent.checksums), f"{len(sent.checksums) / outcome.send_s:,.0f}/s, the outage included"),
        ("sent again", sent.repeated, "after a send that failed"),
        (f"{VICTIM} killed at", outage.killed_at, "SIGKILL"),
        (f"{VICTIM} back at", outage.back_at, f"ready after {outage.restart_ms} ms"),
        *((f"read from {name}", count, "") for name, count in sorted(stored.by_broker.items())),
        ("different flights", stored.flights, f"{stored.times_read.total() / outcome.read_s:,.0f} messages/s"),
        ("stored twice", stored.duplicates, ""),
        ("lost", len(stored.lost(sent)), ""),
        ("damaged", len(stored.damaged(sent)), ""),
    ]
    for name, number, note in rows:
        table.add_row(name, f"{number:,}", note)
    return table


def main() -> int:
    """Run the demo; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--flights", type=int, default=FLIGHTS_MAX, help="how many of them (default: all)")
    flights = min(max(parser.parse_args().flights, 1), FLIGHTS_MAX)
    console = Console()
    bars = [TextColumn("{task.description:10}"), BarColumn(None), MofNCompleteColumn(), TimeElapsedColumn()]
    os.environ.setdefault("STATICFIRE_LOG_LEVEL", "error")  # The broker is lost on purpose.
    began_s = time.monotonic()
    try:
        with Cluster(brokers=2, isolation="process") as cluster, Progress(*bars, console=console) as progress:
            console.print(f"nameserver {cluster.namesrv}, 2 brokers, ready in {time.monotonic() - began_s:.2f} s")
            outcome = asyncio.run(play(cluster, flights, progress))
    except DataMissing as missing:
        print(f"demo: {missing}", file=sys.stderr)
        return 2
    console.print(table_of(outcome))
    sent, stored = outcome.sent, outcome.stored
    lost, wrong = len(stored.lost(sent)), len(stored.damaged(sent))
    print(
        f"demo: sent={len(sent.checksums)} stored={stored.flights} lost={lost} duplicates={stored.duplicates} "
        f"seconds={time.monotonic() - began_s:.1f}"
    )
    return 0 if flights == len(sent.checksums) == stored.flights and lost == wrong == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
