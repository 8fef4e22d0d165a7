"""Run the table on Spark's executors, write it to Parquet, and compute the figures of each combination with SQL.

The table is written in blocks: if Spark gives up (an executor is killed several times), the blocks before are kept, and
the same sweep continues with the runs that aren't in the table. Only the last block writes `_SUCCESS`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from staticfire.pipeline.jobs.lock import SWEEP_LOCK_NAME, folder_lock
from staticfire.pipeline.sweep.figures import Combination, NotableRun, Spread, SweepFigures
from staticfire.pipeline.sweep.plan import SweepPlan, SweepRun
from staticfire.pipeline.sweep.running import SweepRunner, result_schema
from staticfire.protocol.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The table's name in the folder of a sweep.
RUNS = "runs"
# The runs take different times. With few tasks, some cores would be idle at the end.
TASKS_PER_CORE = 16
CORES_UNKNOWN = 8
# At the end of each block, some cores wait for the others. With fewer blocks, more runs are lost with one of them.
BLOCKS_MAX = 10
NO_SUCCESS_FILE = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}
SPREAD_MEASURES = (
    "duplicates", "take_over_p50_ms", "take_over_max_ms", "idle_ms", "overlap_ms", "latency_p50_ms", "latency_p99_ms",
)  # fmt: skip
NOTABLE_MAX = 8

PARTS = "array(0.0, 0.25, 0.5, 0.75, 1.0)"
NOTABLE = """
    SELECT why, run, words, place, number FROM (
        SELECT 'there was no run' AS why, run, element_at(split(error, '\\n'), -1) AS words, 0 AS place,
               row_number() OVER (ORDER BY run) AS number FROM sweep_runs WHERE error IS NOT NULL
        UNION ALL
        SELECT 'a promise was broken', run, violation, 1, row_number() OVER (ORDER BY violations DESC, run)
        FROM sweep_runs WHERE NOT passed
        UNION ALL
        SELECT 'most duplicates', run, concat(duplicates, ' duplicates'), 2,
               row_number() OVER (ORDER BY duplicates DESC, run) FROM sweep_runs WHERE duplicates > 0
        UNION ALL
        SELECT 'longest take-over', run, concat(take_over_max_ms, ' ms'), 3,
               row_number() OVER (ORDER BY take_over_max_ms DESC, run) FROM sweep_runs WHERE take_over_max_ms > 0
        UNION ALL
        SELECT 'longest idle', run, concat(idle_ms, ' ms over all queues'), 4,
               row_number() OVER (ORDER BY idle_ms DESC, run) FROM sweep_runs WHERE idle_ms > 0
    ) WHERE number <= if(place <= 1, :most, 3)
"""
"""The window functions put all runs into one task. Rows are small: a million of them take 300 MB there."""


def run_sweep(spark: "SparkSession", plan: SweepPlan, to: str) -> SweepFigures:
    """Run what isn't in `to`/runs yet, write it there, and return the figures of all runs.

    Raises: UsageError (the folder holds runs of another sweep), ClientError (another driver writes there).
    """
    with folder_lock(spark, SWEEP_LOCK_NAME, to):
        return _run_sweep(spark, plan, to)


def _run_sweep(spark: "SparkSession", plan: SweepPlan, to: str) -> SweepFigures:
    table = f"{to.rstrip('/')}/{RUNS}"
    missing = _missing(spark, plan, table, to)
    block_runs = max(task_count(spark, plan.count), -(-len(missing) // BLOCKS_MAX))
    for start in range(0, len(missing), block_runs):
        is_last = start + block_runs >= len(missing)
        writer = played(spark, plan, missing[start : start + block_runs]).write.mode("append")
        writer.options(**({} if is_last else NO_SUCCESS_FILE)).parquet(table)
    return figures_of(spark, plan, spark.read.parquet(table))


def _missing(spark: "SparkSession", plan: SweepPlan, table: str, to: str) -> list[SweepRun]:
    """Return the runs that aren't in the table. Raises: UsageError (it has others)."""
    from pyspark.errors import AnalysisException

    try:
        # The schema is given, because a folder whose first block failed has no file to infer it from.
        known = spark.read.schema(result_schema(plan.names)).parquet(table).select("run", "command", "workload")
        rows = known.collect()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        rows = []
    wanted = {run.run: run for run in plan.runs()}
    for row in rows:
        run = wanted.pop(row.run, None)
        if run is None or (row.command, row.workload) != (plan.command(run), plan.digest):
            raise UsageError(f"--to {to}: it contains the runs of another sweep; give another folder, or remove it")
    return list(wanted.values())


def played(spark: "SparkSession", plan: SweepPlan, runs: Sequence[SweepRun]) -> "DataFrame":
    """Return the results of these runs as a frame. Each row is run when Spark evaluates it."""
    runner = SweepRunner(plan.path, plan.text, plan.hours, plan.names)
    rows = [(one.run, one.seed, list(one.values), plan.command(one), plan.digest) for one in runs]
    columns = "run int, seed bigint, values array<string>, command string, workload string"
    table = spark.createDataFrame(rows, columns)
    return table.repartition(task_count(spark, len(rows))).mapInArrow(runner.rows, result_schema(plan.names))


def task_count(spark: "SparkSession", runs: int) -> int:
    """Return the number of tasks for the runs."""
    from pyspark.errors import PySparkException

    try:
        cores = spark.sparkContext.defaultParallelism
    except PySparkException:
        cores = CORES_UNKNOWN  # A Spark Connect client has no Spark context.
    return max(1, min(runs, cores * TASKS_PER_CORE))


def figures_of(spark: "SparkSession", plan: SweepPlan, runs: "DataFrame") -> SweepFigures:
    """Return the figures of a table of runs."""
    runs.createOrReplaceTempView("sweep_runs")
    totals = spark.sql(
        "SELECT count(*) AS runs, count_if(NOT passed) AS failed, count_if(error IS NOT NULL) AS errors, "
        "coalesce(sum(virtual_ms), 0) AS virtual_ms, coalesce(sum(cpu_s), 0D) AS cpu_s FROM sweep_runs"
    ).collect()[0]
    return SweepFigures(
        plan.names,
        totals.runs,
        totals.failed,
        totals.errors,
        totals.virtual_ms,
        totals.cpu_s,
        tuple(_combinations(spark, plan)),
        tuple(_notable(spark, plan)),
    )


def _combinations(spark: "SparkSession", plan: SweepPlan) -> list[Combination]:
    keys = ", ".join(f"`{name}`" for name in plan.names)
    spreads = ", ".join(
        f"percentile({name}, {PARTS}) AS {name}_parts, avg({name}) AS {name}_mean" for name in SPREAD_MEASURES
    )
    found = {}
    query = (
        f"SELECT {keys}{', ' if keys else ''}count(*) AS run_count, count_if(NOT passed) AS failed_count, "
        f"count_if(error IS NOT NULL) AS error_count, {spreads} FROM sweep_runs {f'GROUP BY {keys}' if keys else ''}"
    )
    for row in spark.sql(query).collect():
        values = tuple(row[name] for name in plan.names)
        found[values] = Combination(
            values, row.run_count, row.failed_count, row.error_count,
            {name: _spread(row, name) for name in SPREAD_MEASURES},
        )  # fmt: skip
    return [found[values] for values in plan.combinations if values in found]


def _spread(row: Any, name: str) -> Spread | None:
    parts, mean = row[f"{name}_parts"], row[f"{name}_mean"]
    if mean is None:
        return None
    low, q1, median, q3, high = parts
    return Spread(low, q1, median, q3, high, mean)


def _notable(spark: "SparkSession", plan: SweepPlan) -> list[NotableRun]:
    spark.sql(NOTABLE, {"most": NOTABLE_MAX}).createOrReplaceTempView("sweep_notable")
    keys = "".join(f", runs.`{name}`" for name in plan.names)
    query = (
        f"SELECT why, words, seed, command{keys} FROM sweep_notable JOIN sweep_runs AS runs USING (run) "
        "ORDER BY place, number"
    )
    return [
        NotableRun(row.why, tuple(row[name] for name in plan.names), row.seed, row.words or "", row.command)
        for row in spark.sql(query).collect()
    ]
