"""A sweep on Spark: each combination with each seed, errors as rows, and the command that repeats a row."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from staticfire.cli import main
from staticfire.pipeline.jobs.failures import failures_of_spark
from staticfire.pipeline.report.sweeping import sweep_page
from staticfire.pipeline.sweep.job import played, run_sweep
from staticfire.pipeline.sweep.plan import SweepPlan, read_vary
from staticfire.protocol.errors import ClientError, UsageError
from tests.house.source import ROOT
from tools.spark_archive import write_archive

pytestmark = [pytest.mark.spark, pytest.mark.row("E4", "S3"), pytest.mark.timeout(300)]

HOURS = 0.004
WORKLOAD = """
from staticfire.simulation.workload import Group, Nemesis, Producers, Topic, Workload

def workload(chance):
    if chance.random() < 0.66:
        raise ValueError("this seed is not to my taste")
    return Workload(
        topics=[Topic("orders", queues=2)],
        producers=[Producers("orders", per_second=2)],
        groups=[Group("billing", "orders", members=2)],
        nemesis=Nemesis(may="kill member", every_seconds=4, lasts_seconds=(1, 2)),
    )
"""
# Of the first three seeds, 2 raises.


@pytest.fixture
def workload(tmp_path: Path) -> str:
    path = tmp_path / "small.py"
    path.write_text(WORKLOAD)
    return str(path)


def test_errors_are_rows_and_a_row_is_repeated_by_its_command(
    spark: SparkSession, workload: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vary = (read_vary("group_protection=off,5s"),)
    plan = SweepPlan(workload, range(1, 4), HOURS, vary)
    figures = run_sweep(spark, plan, str(tmp_path / "out"))
    rows = spark.read.parquet(str(tmp_path / "out/runs")).orderBy("run").collect()
    assert [(row.seed, row.group_protection) for row in rows] == [
        (seed, value) for seed in (1, 2, 3) for value in ("off", "5s")
    ]
    errors = [row for row in rows if row.error is not None]
    assert [row.seed for row in errors] == [2, 2]
    assert all("not to my taste" in row.error and row.handled is None for row in errors)
    assert (figures.runs, figures.errors) == (6, len(errors))
    good = next(row for row in rows if row.error is None)
    assert good.handled > 0
    assert main(shlex.split(good.command)[1:]) == (0 if good.passed else 1)
    assert good.fingerprint in capsys.readouterr().out
    page = sweep_page(figures, "small.py", HOURS, "")
    notable = page.sections[-1].parts[0]
    assert "there was no run" in {line[0] for line in notable.rows}  # type: ignore[union-attr]
    again = run_sweep(spark, plan, str(tmp_path / "out"))
    assert (again.runs, again.cpu_s) == (figures.runs, figures.cpu_s)  # Nothing was run twice.
    others = (SweepPlan(workload, range(3, 5), HOURS, vary), SweepPlan(workload, range(1, 4), 2 * HOURS, vary))
    for other in others:
        with pytest.raises(UsageError, match="it contains the runs of another sweep"):
            run_sweep(spark, other, str(tmp_path / "out"))
    Path(workload).write_text(WORKLOAD.replace("per_second=2", "per_second=3"))
    with pytest.raises(UsageError, match="it contains the runs of another sweep"):
        run_sweep(spark, SweepPlan(workload, range(1, 4), HOURS, vary), str(tmp_path / "out"))


KILLED = """
import os
from pathlib import Path
from staticfire.simulation.workload import Group, Producers, Topic, Workload
from staticfire.simulation.world.chance import source_of_chance

def workload(chance):
    if chance.random() == source_of_chance(3, "workload").random() and Path(__file__).with_name("kills").exists():
        os.kill(os.getpid(), 9)
    return Workload(
        topics=[Topic("orders", queues=2)],
        producers=[Producers("orders", per_second=2)],
        groups=[Group("billing", "orders", members=2)],
    )
"""


def test_a_sweep_whose_worker_was_killed_continues_with_the_runs_that_it_lacks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of one run: those before the killed one are kept."""
    monkeypatch.setattr("staticfire.pipeline.sweep.job.task_count", lambda *_: 1)
    (tmp_path / "kills").touch()
    path = tmp_path / "killed.py"
    path.write_text(KILLED)
    plan, table = SweepPlan(str(path), range(1, 5), HOURS), tmp_path / "out/runs"
    with pytest.raises(failures_of_spark()):
        run_sweep(spark, plan, str(tmp_path / "out"))
    kept = {row.seed: row.cpu_s for row in spark.read.parquet(str(table)).collect()}
    assert set(kept) == {1, 2}
    assert not (table / "_SUCCESS").exists()
    (tmp_path / "kills").unlink()
    assert run_sweep(spark, plan, str(tmp_path / "out")).runs == 4
    rows = spark.read.parquet(str(table)).orderBy("run").collect()
    assert [row.seed for row in rows] == [1, 2, 3, 4]
    assert {row.seed: row.cpu_s for row in rows if row.seed in kept} == kept
    assert (table / "_SUCCESS").exists()


def test_two_sweeps_in_one_folder_do_not_run_the_same_runs_at_once(
    spark: SparkSession, workload: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both would add all of them to the table, and a third sweep would refuse the folder."""
    plan, to = SweepPlan(workload, range(1, 2), HOURS), str(tmp_path / "out")

    def play_beside_another_sweep(*given: Any) -> Any:
        monkeypatch.setattr("staticfire.pipeline.sweep.job.played", played)
        with pytest.raises(ClientError, match=r"another sweep is writing to .*out, in this session"):
            run_sweep(spark, plan, to)
        return played(*given)

    monkeypatch.setattr("staticfire.pipeline.sweep.job.played", play_beside_another_sweep)
    assert run_sweep(spark, plan, to).runs == 1
    assert run_sweep(spark, plan, to).runs == 1


def test_a_cluster_whose_python_has_nothing_works_from_the_archive(workload: str, tmp_path: Path) -> None:
    """spark-submit as docs/pipeline.md has it: executors run the Python that this environment was made of."""
    archive = tmp_path / "env.tar.gz"
    write_archive(archive)
    base = Path(sys.base_prefix) / f"bin/python{sys.version_info.major}.{sys.version_info.minor}"
    names = ("PYTHONPATH", "SPARK_HOME", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment |= {
        "PYSPARK_PYTHON": str(base), "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
    }  # fmt: skip
    command = [
        str(Path(sys.executable).with_name("spark-submit")), "--master", "local-cluster[2,1,1024]",
        "--archives", f"{archive}#env", "--conf", "spark.executorEnv.PYTHONPATH=env", "--conf",
        "spark.ui.enabled=false", str(ROOT / "staticfire/__main__.py"), "pipeline", "sweep", workload, "--seeds", "2",
        "--hours", str(HOURS), "--to", str(tmp_path / "out"),
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert "sweep: runs=2 failed=0 errors=1 in" in done.stdout, done.stderr[-3_000:]
    assert done.returncode == 0
    assert (tmp_path / "out/sweep.html").stat().st_size < 1_500_000


def test_an_executor_without_the_file_has_its_text(spark: SparkSession, workload: str, tmp_path: Path) -> None:
    """The file is gone when the rows are played: as on another machine."""
    plan = SweepPlan(workload, range(1, 4), HOURS)
    from staticfire.pipeline.sweep.job import played

    frame = played(spark, plan, list(plan.runs()))
    Path(workload).unlink()
    assert frame.where("error IS NULL AND handled > 0").count() > 0
