"""`staticfire pipeline sweep`: many simulated clusters on Spark, with the trade-offs as a table and a page."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from staticfire.cli.options import Whole
from staticfire.cli.simulate import Hours
from staticfire.protocol.errors import ClientError, UsageError

if TYPE_CHECKING:
    from staticfire.pipeline.sweep.figures import SweepFigures
    from staticfire.pipeline.sweep.plan import SweepPlan

PAGE = "sweep.html"


@click.command(short_help="Simulate many clusters with varied settings, and compare costs and benefits.")
@click.argument("workload", metavar="[FILE]", required=False, default="")
@click.option("--seeds", type=Whole(1), default=20, show_default=True, help="Number of seeds for each combination.")
@click.option("--first", type=Whole(0), default=1, show_default=True, help="The first seed.")
@click.option(
    "--vary", multiple=True, metavar="NAME=A,B,...",
    help="A setting or a value of the workload, and the values to try. If repeated, all combinations are played.",
)  # fmt: skip
@click.option("--hours", type=Hours(), default=0.1667, show_default=True, help="Virtual time of each run, in hours.")
@click.option(
    "--to", default="build/sweep", show_default=True, metavar="DIR",
    help="Where the table `runs` is written: a folder, or an address that Hadoop knows (s3a://, hdfs://).",
)  # fmt: skip
@click.option(
    "--page",
    metavar="FILE",
    help="File for the page. [default: sweep.html in DIR, or in the current folder if DIR is remote]",
)
@click.option(
    "--master",
    default="local[*,4]",
    show_default=True,
    help="The Spark master; spark-submit's option has priority. [*,4]: a task whose process is killed has 4 attempts.",
)
def sweep(
    workload: str, seeds: int, first: int, vary: tuple[str, ...], hours: float, to: str, page: str | None, master: str
) -> None:
    """Play a workload FILE (docs/simulation.md) with each seed and each combination of varied values, distributed over
    Spark's executors. Each row of the table contains the command that repeats its run. The same sweep in the same DIR
    continues with the runs that its table lacks.
    """
    from staticfire.pipeline.errors import SparkMissing
    from staticfire.pipeline.jobs.sessions import job_session
    from staticfire.pipeline.sweep.plan import SweepPlan, read_vary

    plan = SweepPlan(workload, range(first, first + seeds), hours, tuple(map(read_vary, vary)))
    place = Path(page or (PAGE if "://" in to else Path(to) / PAGE))
    click.echo(f"sweep: {plan.count:,} runs, {len(plan.combinations)} combinations with {seeds:,} seeds each")
    try:
        spark = job_session("staticfire sweep", master, {"spark.ui.showConsoleProgress": "true"})
    except SparkMissing as error:
        raise UsageError(str(error)) from None
    from staticfire.pipeline.jobs.failures import failures_of_spark, one_line
    from staticfire.pipeline.sweep.job import run_sweep

    try:
        figures = run_sweep(spark, plan, to)
        version = spark.version
    except failures_of_spark() as failure:
        raise ClientError(f"sweep to {to}: {one_line(failure)}") from None
    finally:
        spark.stop()
    _write(figures, plan, place, f"Made by `staticfire pipeline sweep` with Spark {version}; the runs are in {to}.")
    _tell(figures, to, place)


def _write(figures: "SweepFigures", plan: "SweepPlan", place: Path, foot: str) -> None:
    from staticfire.pipeline.report import write_page
    from staticfire.pipeline.report.sweeping import sweep_page

    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_page(sweep_page(figures, plan.path or "the swarm", plan.hours, foot), place)
    except OSError as error:
        raise ClientError(f"the page {place} can't be written: {error.strerror}") from None


def _tell(figures: "SweepFigures", to: str, place: Path) -> None:
    """Print the combinations, and where the results are."""
    for one in figures.combinations:
        words = [f"{name}={value}" for name, value in zip(figures.names, one.values, strict=True)]
        parts = []
        for name, label in (("duplicates", "duplicates"), ("take_over_p50_ms", "take-over ms"), ("idle_ms", "idle ms")):
            spread = one.spreads[name]
            parts.append(f"{label} {'–' if spread is None else f'{spread.mean:,.1f}'}")
        click.echo(f"  {' '.join(words) or 'all'}: {', '.join(parts)} (means of {one.runs})")
    click.echo(f"sweep: runs={figures.runs} failed={figures.failed} errors={figures.errors} in {to}; page: {place}")
