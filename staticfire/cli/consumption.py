"""`staticfire pipeline consumption`: statistics of consumption, as tables and a page."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from staticfire.cli.options import Whole, protocol_flag
from staticfire.protocol.errors import ClientError, UsageError
from staticfire.protocol.names import TRACE_TOPIC

if TYPE_CHECKING:
    from staticfire.pipeline.consumption.findings import ConsumptionFindings
    from staticfire.pipeline.consumption.settings import ConsumptionSettings


@click.command(short_help="Report how messages were consumed: latencies, retries, duplicates, lag, owners, delays.")
@click.option(
    "--from", "source", required=True, envvar="NAMESRV_ADDR", metavar="DIR|HOST:PORT",
    help="A nameserver, or the folder of an earlier report or of an ingest.",
)  # fmt: skip
@click.option(
    "--to", metavar="DIR",
    help="The folder for tables and page. [default: build/consumption/HOST-PORT; with --from DIR that DIR, or "
    "_consumption in it if it is the table of an ingest]",
)  # fmt: skip
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="[default: all topics except RocketMQ's own]")
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="[default: all groups that consume]")
@click.option(
    "--trace-topic", metavar="TOPIC", help=f"The topic that clients trace to. [default: {TRACE_TOPIC}, if it exists]"
)
@click.option("--continuous", is_flag=True, help="Keep tables and page up to date until stopped.")
@click.option(
    "--every-ms", type=Whole(1), default=5_000, show_default=True, help="With --continuous: time between two updates."
)
@click.option("--page", metavar="FILE", help="File for the page. [default: consumption.html in the folder]")
@click.option(
    "--master", default="local[*]", show_default=True, help="The Spark master; spark-submit's option has priority."
)
@protocol_flag
def consumption(
    source: str,
    to: str | None,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    trace_topic: str | None,
    continuous: bool,
    every_ms: int,
    page: str | None,
    master: str,
    protocol: str,
) -> None:
    """Report how messages were consumed, from traces, stored messages and the brokers' journals.

    Clients that trace (enable_trace=True, RocketMQ: enableMsgTrace) give the most exact times. Without traces, the
    journals of staticfire's brokers show when messages were delivered.
    """
    from staticfire.pipeline.consumption.settings import ConsumptionSettings, default_folder, read_source

    name_server, folder = read_source(source)
    if continuous and not name_server:
        raise UsageError(f"--continuous needs a cluster, but --from {source} is a folder")
    settings = ConsumptionSettings(
        name_server,
        folder or to or default_folder(name_server),
        topics,
        groups,
        trace_topic or TRACE_TOPIC,
        trace_topic is not None,
        protocol,
        every_ms,
        to or "" if folder else "",
    )
    _look(settings, source, page, master, continuous)


def _look(settings: "ConsumptionSettings", source: str, page: str | None, master: str, is_continuous: bool) -> None:
    """Run the job; report an error in one line. Raises: UsageError, ClientError."""
    from staticfire.pipeline.errors import SparkMissing
    from staticfire.pipeline.jobs.sessions import job_session
    from staticfire.pipeline.local_spark import check_installed

    try:
        check_installed()
        if settings.name_server:
            from staticfire.pipeline.consumption.gathering import check

            check(settings)  # Check this first, so that an error is reported before Spark starts.
        spark = job_session("staticfire consumption", master)
    except SparkMissing as error:
        raise UsageError(str(error)) from None
    from staticfire.pipeline.consumption.following import follow
    from staticfire.pipeline.consumption.job import look, page_place, with_results
    from staticfire.pipeline.jobs.failures import failures_of_spark, one_line

    try:
        settings = with_results(spark, settings)
        place = Path(page) if page else page_place(settings)
        if is_continuous:
            follow(spark, settings, lambda findings: _write(findings, settings, source, place, spark.version))
        else:
            _write(look(spark, settings), settings, source, place, spark.version)
    except failures_of_spark() as failure:
        raise ClientError(f"consumption of {source}: {one_line(failure)}") from None
    finally:
        spark.stop()


def _write(
    findings: "ConsumptionFindings", settings: "ConsumptionSettings", source: str, place: Path, version: str
) -> None:
    """Write the page, and print a summary of it."""
    from staticfire.pipeline.consumption.job import write_consumption_page

    foot = f"Made by `staticfire pipeline consumption` with Spark {version}; tables: {settings.result_place('tables')}."
    try:
        write_consumption_page(findings, place, source, foot)
    except OSError as error:
        raise ClientError(f"the page {place} can't be written: {error.strerror}") from None
    for pair in findings.pairs:
        p50, p99 = ("–" if value is None else f"{value:,.0f} ms" for value in (pair.p50_ms, pair.p99_ms))
        click.echo(
            f"  {pair.group}, {pair.topic}: {pair.handled:,} of {pair.messages:,} handled, {pair.duplicates:,} again, "
            f"{pair.dead:,} dead; p50 {p50}, p99 {p99}"
        )
    for words in findings.gaps:
        click.echo(f"consumption: {words}", err=True)
    waits, groups = sum(one.messages for one in findings.stuck), len({pair.group for pair in findings.pairs})
    click.echo(
        f"consumption: groups={groups} told-by={findings.told_by} waiting={waits} "
        f"rebalances={len(findings.rebalances)} in {settings.results or settings.folder}; page: {place}"
    )
