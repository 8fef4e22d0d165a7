"""`staticfire simulate` as it is typed."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from staticfire.cli import main
from staticfire.simulation.runs import many
from staticfire.simulation.runs.outcome import RunOutcome
from staticfire.simulation.runs.play import Play, play
from tests.house.source import ROOT
from tests.simulation.small import WORKLOAD

pytestmark = pytest.mark.row("S3")

SMALL = """
from tests.simulation.small import WORKLOAD as workload
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT))
    (tmp_path / "small.py").write_text(SMALL)
    return "small.py"


def test_one_seed_is_played_and_written_as_a_page(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--seed", "3@abcdef", "--hours", "0.005", "--trace", path]) == 0
    reported = capsys.readouterr()
    assert "seed 3@abcdef is from another version" in reported.err
    assert "seed 3: all promises kept" in reported.out
    assert "seed 3 of small.py" in (tmp_path / "simulation-3.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--first", "3", "nowhere.py"], "no workload file nowhere.py"),
        (["--seed", "4x", "small.py"], "'4x' is not a seed"),
        (["--seed", "4", "--seeds", "5", "small.py"], "use either --seed"),
        (["--trace", "small.py"], "--trace needs --seed"),
        (["--hours", "0", "small.py"], "0 hours"),
    ],
)
def test_what_is_typed_wrong_is_one_line(
    path: str, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *arguments]) == 2
    reported = capsys.readouterr().err
    assert words in reported
    assert reported.count("\n") == 1


def test_an_interrupt_leaves_the_verdict_so_far(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_path: str, plays: Iterable[Play], *_: object) -> Iterator[RunOutcome]:
        for what, _second in zip(plays, range(2), strict=False):
            yield play(WORKLOAD, what)
        raise KeyboardInterrupt

    monkeypatch.setattr(many, "play_many", interrupted)
    assert main(["simulate", "--seeds", "1000", "--hours", "0.002", path]) == 130
    reported = capsys.readouterr().out
    assert "simulate: interrupted; so far:" in reported
    assert "simulate: 2 seeds, 0 failed" in reported


def test_processes_are_replaced_after_some_runs_and_every_seed_is_played(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools: list[int] = []

    class Counted(ProcessPoolExecutor):
        def __init__(self, jobs: int, *arguments: Any, **more: Any) -> None:
            pools.append(jobs)
            super().__init__(jobs, *arguments, **more)

    monkeypatch.setattr(many, "RUNS_PER_PROCESS", 2)
    monkeypatch.setattr(many, "ProcessPoolExecutor", Counted)
    seen = many.play_many(path, (Play(seed, 0.002) for seed in range(1, 6)), jobs=1)
    assert sorted(outcome.seed for outcome in seen) == [1, 2, 3, 4, 5]
    assert pools == [1, 1, 1]


@pytest.mark.slow
def test_a_run_that_fails_by_a_change_is_written_as_a_test_that_fails(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--seed", "3", "--hours", "0.002", "--set", "max_message_size=10", path]) == 1
    text = capsys.readouterr().out.partition("as a test:\n\n")[2]
    program: dict[str, Any] = {}
    exec(text, program)
    with pytest.raises(AssertionError, match="MESSAGE_ILLEGAL"):
        program["test_seed_3"]()


def test_a_page_that_cant_be_written_costs_no_verdict(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "simulation-3.html").mkdir()
    assert main(["simulate", "--seed", "3", "--hours", "0.002", "--trace", path]) == 1
    reported = capsys.readouterr()
    assert "seed 3: all promises kept" in reported.out
    assert f"the page simulation-3.html can't be written to {tmp_path}: Is a directory; run the same" in reported.err
    assert reported.err.count("\n") == 1


def test_a_run_that_stores_nothing_is_no_success(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "from staticfire.simulation.workload import Group, Producers, Topic, Workload\n"
    shop = 'workload = Workload([Topic("orders")], [Producers("orders", 5)], [Group("billing", "orders")])\n'
    (tmp_path / "shop.py").write_text(text + shop)
    arguments = ["simulate", "--seed", "1", "--hours", "0.003", "--no-shrink"]
    assert main([*arguments, "--set", "broker_permission=4", "shop.py"]) == 1
    assert "its messages can't be stored: ClientError: topic orders has no writable queue" in capsys.readouterr().out
    assert main([*arguments, "--set", "reject_transaction_message=true", "shop.py"]) == 0
