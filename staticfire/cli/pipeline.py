"""`staticfire pipeline`: jobs on Spark. Spark is loaded when a job starts, so help needs neither Spark nor Java."""

from typing import TYPE_CHECKING

import click

from staticfire.cli.command_groups import Commands
from staticfire.cli.consumption import consumption
from staticfire.cli.options import Assignments, Whole, namesrv_flag, protocol_flag
from staticfire.cli.sweep import sweep
from staticfire.protocol.errors import ClientError, UsageError

if TYPE_CHECKING:
    from staticfire.pipeline.jobs.ingest import Batch
    from staticfire.pipeline.jobs.settings import IngestSettings


@click.group(cls=Commands)
def pipeline() -> None:
    """Spark jobs; they need `pip install 'staticfire[spark]'` and Java 17 or later."""


pipeline.add_command(consumption)
pipeline.add_command(sweep)


@pipeline.command(short_help="Write topics to Parquet, each message exactly once.")
@namesrv_flag
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="A topic to read; may be repeated.")
@click.option(
    "--dead-letters-of", "groups", multiple=True, metavar="GROUP",
    help="Also read the %DLQ% topic of this group, once it exists; may be repeated.",
)  # fmt: skip
@click.option(
    "--to", required=True, metavar="DIR", help="The table: a folder, or an address that Hadoop knows (s3a://, hdfs://)."
)
@click.option(
    "--checkpoint",
    default="",
    metavar="DIR",
    help="Folder that stores the progress. [default: _checkpoint in the table]",
)
@click.option(
    "--partition-by", default="topic,storeDate", show_default=True, metavar="COLUMNS",
    help="Partition columns of the table: topic, storeDate, storeHour, brokerName, queueId.",
)  # fmt: skip
@click.option("--continuous", is_flag=True, help="Run until stopped. [default: read the existing messages and end]")
@click.option(
    "--every-ms", type=Whole(0), default=1_000, show_default=True, help="With --continuous: time between two batches."
)
@click.option("--batch-rows", type=Whole(1), help="Maximum number of messages per batch. [default: no limit]")
@click.option(
    "--option",
    "options",
    multiple=True,
    type=Assignments(),
    help="Another option of the Spark source; may be repeated.",
)
@click.option(
    "--master", default="local[*]", show_default=True, help="The Spark master; spark-submit's option has priority."
)
@protocol_flag
def ingest(
    namesrv: str,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    to: str,
    checkpoint: str,
    partition_by: str,
    continuous: bool,
    every_ms: int,
    batch_rows: int | None,
    options: tuple[tuple[str, str], ...],
    master: str,
    protocol: str,
) -> None:
    """Write topics to partitioned Parquet, each message exactly once. To continue after a crash, start it again."""
    from staticfire.pipeline.jobs.settings import IngestSettings

    settings = IngestSettings(
        topics=topics,
        to=to,
        name_server=namesrv,
        checkpoint=checkpoint,
        dead_letters_of=groups,
        partition_by=tuple(name.strip() for name in partition_by.split(",") if name.strip()),
        continuous=continuous,
        trigger_ms=every_ms,
        rows_per_batch_max=batch_rows or 0,
        protocol=protocol,
        options=dict(options),
    )
    _ingest(settings, master)


def _ingest(settings: "IngestSettings", master: str) -> None:
    """Run the job; report an error in one line. Raises: UsageError, ClientError."""
    from staticfire.pipeline.errors import SparkMissing
    from staticfire.pipeline.jobs.failures import failures_of_spark, one_line
    from staticfire.pipeline.jobs.ingest import ingest as run
    from staticfire.pipeline.jobs.sessions import job_session
    from staticfire.pipeline.jobs.topics import topics_of

    topics_of(settings)  # Check this first, so that an error is reported before Spark starts.
    try:
        spark = job_session("staticfire ingest", master)
    except SparkMissing as error:
        raise UsageError(str(error)) from None
    try:
        report = run(spark, settings, _tell)
    except failures_of_spark() as failure:
        raise ClientError(f"ingest into {settings.to}: {one_line(failure)}") from None
    finally:
        spark.stop()
    swept = f"; removed {report.swept_files} files of an ingest that had crashed" if report.swept_files else ""
    click.echo(f"ingest: {report.rows} messages of {', '.join(report.topics)} were added to {settings.to}{swept}")


def _tell(batch: "Batch") -> None:
    click.echo(f"ingest: batch {batch.number} has {batch.rows} messages")
