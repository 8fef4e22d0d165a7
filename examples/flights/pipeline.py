"""From messages to a page: `make pipeline`.

The demo's flights go through a cluster (demo.py). Spark reads the topic, its retries and its dead letters to Parquet,
each message exactly once, takes the desks' ledgers along, and answers in SQL: how many flights and cancelled flights
per carrier and month, how long messages took from stored to handled, what was tried again and what died. The answers
are printed, and shown on one HTML page with plots. What the demo counted is counted again by Spark; a number that
differs makes the exit code 1.

With NAMESRV_ADDR (or --namesrv) the flights that are in that cluster are read instead, and nothing is sent. A second
run continues where the first one ended. Then no ledger says when they were handled, so that part is left out.
"""

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from data import FLIGHTS_MAX, TOPIC, DataMissing, Flight, read_flights
from demo import Demo, Outcome
from desk import GROUP
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable

from staticfire import Cluster
from staticfire.pipeline import session
from staticfire.pipeline.consumption.settings import JOURNAL, PROGRESS, TABLES, ConsumptionSettings
from staticfire.pipeline.errors import SparkMissing
from staticfire.pipeline.jobs.answers import Answers
from staticfire.protocol.errors import ClientError, StaticfireError, UsageError

if TYPE_CHECKING:
    from page import Check
    from pyspark.sql import DataFrame, SparkSession
    from questions import CarrierMonth

    from staticfire.pipeline.consumption.findings import ConsumptionFindings

DEFAULT_TO = Path("build/pipeline")
PAGE = "flights.html"
MESSAGES, CONSUMPTION = "messages", "consumption"


@dataclass
class Run:
    """What was requested, and where it goes."""

    flights: int
    namesrv: str | None
    to: Path
    console: Console


@dataclass
class Found:
    """What Spark answered."""

    rows: "list[CarrierMonth]"
    answers: Answers
    findings: "ConsumptionFindings | None"
    checks: "list[Check]"


def own_cluster(run: Run, spark: "SparkSession") -> tuple[Found, Outcome]:
    """Play the demo, and read its cluster while it is up."""
    flights = list(read_flights(run.flights))
    with Cluster(brokers=2, isolation="process") as cluster, tempfile.TemporaryDirectory(prefix="flights-") as folder:
        ledgers = Path(folder)
        with part(run.console, "played"):
            outcome = play(cluster.namesrv, ledgers, flights, run.console)
        read(run, spark, cluster.namesrv)
        with part(run.console, "ledgers read"):
            from ledgers import ingest_ledgers

            ledger = ingest_ledgers(spark, ledgers, run.to / CONSUMPTION)
    found = ask(run, spark, as_attempts(ledger))
    ledger.createOrReplaceTempView(CONSUMPTION)
    found.checks = compare(spark, found, flights, outcome)
    return found, outcome


def given_cluster(run: Run, spark: "SparkSession", namesrv: str) -> Found:
    """Read what is there."""
    read(run, spark, namesrv)
    return ask(run, spark, None)


def play(namesrv: str, folder: Path, flights: list[Flight], console: Console) -> Outcome:
    """Play the demo; first handle what can be handled in real time, so that its times can be compared."""
    bars = [TextColumn("{task.description:10}"), BarColumn(None), MofNCompleteColumn(), TimeElapsedColumn()]
    with Progress(*bars, console=console) as progress:
        return asyncio.run(Demo(namesrv, folder, flights, progress, skip_at_once=False).play())


def settings_of(run: Run, namesrv: str) -> ConsumptionSettings:
    return ConsumptionSettings(namesrv, str(run.to), (TOPIC,), (GROUP,))


def read(run: Run, spark: "SparkSession", namesrv: str) -> None:
    """Ingest the topic, its retries and its dead letters, and what brokers noted."""
    from staticfire.pipeline.consumption.gathering import gather
    from staticfire.pipeline.jobs.ingest import read_ingested

    with part(run.console, "ingested") as words:
        noticed = gather(spark, settings_of(run, namesrv))
        messages = read_ingested(spark, str(run.to / MESSAGES))
        words.append(f"{messages.count():,} messages of {', '.join(noticed.topics)}")
    messages.createOrReplaceTempView(MESSAGES)


def as_attempts(ledger: "DataFrame") -> "DataFrame":
    """Return the ledgers in the form of the general job: a desk writes when it is done."""
    from pyspark.sql.functions import lit

    return ledger.withColumns({"groupName": lit(GROUP), "beganAt": ledger.consumedAt, "endedAt": ledger.consumedAt})


def check_flights(namesrv: str) -> None:
    """Raises: ClientError (no flights there), NetworkError."""
    from staticfire.pipeline.jobs.topics import topics_there
    from staticfire.pipeline.options import SourceOptions

    if not topics_there(SourceOptions(namesrv, (TOPIC,)), [TOPIC]):
        words = "run it without NAMESRV_ADDR, then it plays the demo first"
        raise ClientError(f"there is no topic {TOPIC} at {namesrv}: {words}")


def ask(run: Run, spark: "SparkSession", ledger: "DataFrame | None") -> Found:
    """Ask Spark everything: what the flights say here, what their consumption was like in the general job."""
    from questions import per_carrier_and_month

    from staticfire.pipeline.consumption.job import tell
    from staticfire.pipeline.jobs.analysis import Analysis

    with part(run.console, "answered"):
        rows = per_carrier_and_month(spark)
        try:
            findings = tell(spark, settings_of(run, ""), ledger)
        except ClientError:
            # Neither ledgers nor traces nor a journal: the topics alone tell what they know.
            return Found(rows, Analysis(spark, TOPIC, GROUP, False).answers(), None, [])
        answers = findings.answers.get((GROUP, TOPIC)) or Analysis(spark, TOPIC, GROUP, False).answers()
        return Found(rows, answers, findings, [])


def compare(spark: "SparkSession", found: Found, flights: list[Flight], outcome: Outcome) -> "list[Check]":
    """Count with Spark what the demo has counted."""
    from page import Check
    from questions import expected, keys

    books, by_key, wanted = outcome.books, keys(spark, GROUP), expected(flights)
    tries = {one.times: one.failed or 0 for one in found.answers.tries}
    returned = [one for one in found.answers.tries if one.times > 0]
    return [
        Check("flights", sum(row.flights for row in found.rows), len(outcome.sent.checksums)),
        Check("cancelled flights", sum(row.cancelled for row in found.rows), len(outcome.cancelled)),
        Check("carriers and months, flight by flight", len(set(found.rows) & set(wanted)), len(wanted)),
        Check("flights handled", by_key.handled, outcome.consumed),
        Check("flights handled again", by_key.handlings - by_key.handled, books.duplicates),
        Check("attempts that failed", sum(tries.values()), books.failed),
        Check("attempts that failed, 16 times tried before", tries.get(16, 0), books.tries[16]),
        Check("retries of each cancelled flight", sum(one.messages for one in returned), 16 * len(outcome.cancelled)),
        Check("dead letters", found.answers.dead.letters, outcome.dead.total()),
        Check("flights dead", by_key.dead, len(outcome.dead)),
        *consumption_checks(found, outcome),
    ]


def consumption_checks(found: Found, outcome: Outcome) -> "list[Check]":
    """Return what the general job counted beside what the demo counted."""
    from page import Check

    findings = found.findings
    if findings is None:
        return []
    (pair,) = (one for one in findings.pairs if (one.group, one.topic) == (GROUP, TOPIC))
    return [
        Check("consumption: messages handled", pair.handled, outcome.consumed),
        Check("consumption: duplicates, each with its cause", sum(one.count for one in findings.causes),
              outcome.books.duplicates),
        Check("consumption: messages dead", pair.dead, len(outcome.dead)),
        Check("consumption: attempts of all members", sum(one.attempts for one in findings.members),
              outcome.books.done.total() + outcome.books.failed),
        Check("consumption: messages that still wait", sum(one.messages for one in findings.stuck), 0),
    ]  # fmt: skip


@contextmanager
def part(console: Console, name: str) -> Iterator[list[str]]:
    """Print what was done, and how long it took."""
    words: list[str] = []
    began_s = time.monotonic()
    yield words
    line = f"{name:14} {time.monotonic() - began_s:5.1f} s  {' '.join(words)}"
    console.print(line.rstrip(), highlight=False, soft_wrap=True)


def fresh(to: Path) -> None:
    """Remove what an earlier run left: its cluster is gone, so its checkpoint leads nowhere. Raises: UsageError."""
    from staticfire.pipeline.jobs.card import CARD_NAME

    for name in (MESSAGES, CONSUMPTION):
        if (to / name).exists() and not (to / MESSAGES / CARD_NAME).exists():
            raise UsageError(f"--to {to}: {to / name} isn't from an earlier run; name another folder, or remove it")
    for name in (CONSUMPTION, MESSAGES, JOURNAL, PROGRESS, TABLES):
        shutil.rmtree(to / name, ignore_errors=True)
    (to / PAGE).unlink(missing_ok=True)


def tables(found: Found) -> Iterator[RichTable]:
    """Yield what is printed."""
    from page import MONTHS, carriers_of

    from staticfire.pipeline.report.page import duration_text

    table = new_table("carrier", "flights", "cancelled", "%", "worst month")
    for one in carriers_of(found.rows):
        share, month = f"{one.cancelled_percent:.2f}", MONTHS[one.worst_month - 1]
        table.add_row(one.name, f"{one.flights:,}", f"{one.cancelled:,}", share, month)
    yield table
    table = new_table("month", "flights", "cancelled", "%")
    for number in sorted({row.month for row in found.rows}):
        rows = [row for row in found.rows if row.month == number]
        flights, cancelled = sum(row.flights for row in rows), sum(row.cancelled for row in rows)
        table.add_row(MONTHS[number - 1], f"{flights:,}", f"{cancelled:,}", f"{100 * cancelled / flights:.2f}")
    yield table
    if (latency := found.answers.latency) is not None:
        table = new_table("from stored to handled", "messages", "p50 ms", "p90 ms", "p99 ms", "slowest ms")
        numbers = (latency.measured, latency.p50_ms, latency.p90_ms, latency.p99_ms, latency.max_ms)
        table.add_row("first attempts", *(f"{number:,.0f}" for number in numbers))
        yield table
    table = new_table("tried before", "stored", "messages", "failed", "since first stored")
    for tries in found.answers.tries:
        failed, after = "–" if tries.failed is None else f"{tries.failed:,}", duration_text(tries.after_ms or 0)
        table.add_row(str(tries.times), f"{tries.stored:,}", f"{tries.messages:,}", failed, after)
    dead = found.answers.dead
    table.add_row("dead", f"{dead.letters:,}", f"{dead.messages:,}", "–", duration_text(dead.after_ms or 0))
    yield table


def new_table(*names: str) -> RichTable:
    table = RichTable(box=None, pad_edge=False, header_style="bold")
    for index, name in enumerate(names):
        table.add_column(name, justify="right" if index else "left")
    return table


def write(run: Run, found: Found, spark_version: str, where: str) -> Path:
    """Write the page and return where it is."""
    from page import flights_page

    from staticfire.pipeline.report import write_page

    subtitle = f"Departures from New York City, sent through {where} and read back by Spark, each message exactly once."
    foot = f"Made by staticfire's pipeline with Spark {spark_version}, from the Parquet files in {run.to / MESSAGES}."
    page = run.to / PAGE
    write_page(flights_page(subtitle, found.rows, found.answers, found.findings, found.checks, foot), page)
    return page


def main() -> int:
    """Run the pipeline; return the exit code."""
    run, began_s = parse(), time.monotonic()
    os.environ.setdefault("STATICFIRE_LOG_LEVEL", "error")  # A desk is lost on purpose, and Spark outlives the cluster.
    try:
        return run_pipeline(run, began_s)
    except (DataMissing, SparkMissing, UsageError) as error:
        return say(str(error), 2)
    except StaticfireError as error:
        return say(str(error), 1)


def run_pipeline(run: Run, began_s: float) -> int:
    """Do everything; return the exit code."""
    if run.namesrv is None:
        fresh(run.to)
    else:
        check_flights(run.namesrv)
    with part(run.console, "Spark started"):
        spark = session("flights")
    from staticfire.pipeline.jobs.failures import failures_of_spark, one_line

    try:
        run.to.mkdir(parents=True, exist_ok=True)
        if run.namesrv is None:
            found, outcome = own_cluster(run, spark)
            is_right = outcome.is_right
        else:
            found, is_right = given_cluster(run, spark, run.namesrv), True
        where = "two brokers" if run.namesrv is None else f"the cluster at {run.namesrv}"
        page = write(run, found, spark.version, where)
    except failures_of_spark() as failure:
        return say(one_line(failure), 1)
    finally:
        spark.stop()
    for table in tables(found):
        run.console.print()
        run.console.print(table)
    wrong = [f"{check.what}: Spark {check.spark}, books {check.books}" for check in found.checks if not check.is_right]
    for words in wrong:
        print(f"pipeline: {words}", file=sys.stderr)
    flights, cancelled = sum(row.flights for row in found.rows), sum(row.cancelled for row in found.rows)
    print(
        f"\npage: {page.resolve()}\n"
        f"pipeline: flights={flights} cancelled={cancelled} dead={found.answers.dead.messages} "
        f"checks={len(found.checks)} wrong={len(wrong)} seconds={time.monotonic() - began_s:.1f}"
    )
    return 0 if is_right and not wrong else 1


def parse() -> Run:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--flights", type=int, default=FLIGHTS_MAX, help="how many of them are sent (default: all)")
    parser.add_argument("--namesrv", default=os.environ.get("NAMESRV_ADDR"), help="read this cluster, send nothing")
    parser.add_argument("--to", type=Path, help=f"where the tables and the page go (default: {DEFAULT_TO})")
    given = parser.parse_args()
    to = given.to
    if to is None:
        to = DEFAULT_TO if not given.namesrv else DEFAULT_TO / given.namesrv.replace(":", "-").replace(";", "_")
    return Run(min(max(given.flights, 1), FLIGHTS_MAX), given.namesrv or None, to, Console())


def say(words: str, exit_code: int) -> int:
    print(f"pipeline: {words}", file=sys.stderr)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
