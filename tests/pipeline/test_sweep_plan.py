"""What a sweep runs, and what is wrong with it when something is. No Spark."""

from pathlib import Path

import pytest

from staticfire.cli import main
from staticfire.pipeline.report.page import Plot
from staticfire.pipeline.report.sweeping import sweep_page
from staticfire.pipeline.sweep.figures import Combination, NotableRun, Spread, SweepFigures
from staticfire.pipeline.sweep.plan import SweepPlan, read_vary
from tests.house.source import ROOT

pytestmark = pytest.mark.row("E4")

SHOP = str(ROOT / "examples/simulations/shop.py")


def test_each_combination_plays_the_same_seeds() -> None:
    plan = SweepPlan(SHOP, range(7, 9), 0.1, (read_vary("members=1, 2"), read_vary("group_protection=off,5s")))
    runs = list(plan.runs())
    assert (plan.count, len(runs), len(plan.combinations)) == (8, 8, 4)
    assert [run.values for run in runs if run.seed == 7] == plan.combinations
    assert plan.command(runs[1]).endswith(f"--hours 0.1 --set members=1 --set group_protection=5s {SHOP}")
    assert len({plan.command(run) for run in runs}) == 8


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--vary", "rebalance_interval=1,2", SHOP], "did you mean 'rebalance_interval_ms'?"),
        (["--vary", "members=1,zero", SHOP], "members=zero: it must be a whole number"),
        (["--vary", "members", SHOP], "--vary 'members': write name=value,value"),
        (["--vary", "members=2,2", SHOP], "write different values"),
        (["--vary", "members=1", "--vary", "members=2", SHOP], "--vary members is given twice"),
        (["--seeds", "600000", "--vary", "members=1,2", SHOP], "1,200,000 runs are too many"),
        (["nowhere.py"], "there is no workload file nowhere.py"),
    ],
)
def test_what_is_typed_wrong_is_one_line(flags: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "sweep", *flags]) == 2
    reported = capsys.readouterr().err
    assert words in reported
    assert reported.count("\n") == 1


def test_without_java_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert main(["pipeline", "sweep", SHOP]) == 2
    reported = capsys.readouterr().err
    assert "java isn't found on PATH" in reported
    assert reported.count("\n") == 1


def spread(value: float) -> Spread:
    return Spread(0, value / 2, value, value * 2, value * 3, value)


def figures() -> SweepFigures:
    combinations = tuple(
        Combination((interval, value), 5, 0, 0, {"duplicates": spread(number), "take_over_p50_ms": spread(100 * number),
                    "idle_ms": spread(7), "latency_p99_ms": spread(50)})
        for number, (interval, value) in enumerate((a, b) for a in ("1000", "5000") for b in ("off", "5s"))
    )  # fmt: skip
    notable = (NotableRun("most duplicates", ("1000", "off"), 4711, "9 duplicates", "staticfire simulate --seed 4711"),)
    return SweepFigures(("rebalance_interval_ms", "group_protection"), 20, 1, 0, 7_200_000, 60.0, combinations, notable)


def test_the_page_has_trade_offs_and_the_commands() -> None:
    page = sweep_page(figures(), "shop.py", 0.1667, "")
    names = [plot.name for plot in page.plots]
    assert names[:2] == ["trade-duplicates", "trade-idle"]
    trade = next(part for part in page.sections[0].parts if isinstance(part, Plot))
    assert [trace["name"] for trace in trade.traces] == ["group_protection=off", "group_protection=5s"]
    assert trade.traces[1]["text"][0] == "rebalance_interval_ms=1000, group_protection=5s"
    assert "What rebalance_interval_ms does" in [section.title for section in page.sections]


def test_a_sweep_in_which_nothing_ran_has_a_page() -> None:
    nothing = SweepFigures((), 2, 0, 2, 0, 0.0, (Combination((), 2, 0, 2, {}),), ())
    assert sweep_page(nothing, "shop.py", 0.1, "").plots == []
