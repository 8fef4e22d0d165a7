"""A person's own code in a workload: whatever it does is told, with its line, and the other seeds are played."""

from pathlib import Path

import pytest

from staticfire.cli import main

pytestmark = pytest.mark.row("S3")

HEAD = """import sys
from staticfire.simulation.checkers import Checker
from staticfire.simulation.workload import Group, Producers, Topic, Workload
"""
SHOP = "workload = Workload([Topic('orders', 2)], [Producers('orders', 5{})], [Group('billing', 'orders'{})]{})\n"
HOURS = ["--hours", "0.001", "--no-shrink"]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _written(text: str) -> str:
    Path("shop.py").write_text(HEAD + text)
    return "shop.py"


@pytest.mark.parametrize("text", ["sys.exit(0)\n", "def workload(chance): sys.exit(0)\n"])
def test_a_file_that_ends_the_program_is_wrong(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seeds", "2", *HOURS, _written(text)]) == 2
    assert "shop.py:4: SystemExit: 0" in capsys.readouterr().err


LISTENER = """import random, uuid
from staticfire.client import ConsumeStatus
async def listen(messages, context):
    return ConsumeStatus.{} if {} else ConsumeStatus.CONSUME_SUCCESS
class Never(Checker):
    def finish(self):
        self.broken(1, 'as always')
"""


def test_the_module_random_follows_from_the_seed(capsys: pytest.CaptureFixture[str]) -> None:
    path = _written(
        LISTENER.format("RECONSUME_LATER", "random.random() < 0.5") + SHOP.format("", ", listener=listen", "")
    )
    outcomes = [reported(path, capsys) for _ in range(2)]
    assert outcomes[0] == outcomes[1]


def reported(path: str, capsys: pytest.CaptureFixture[str]) -> str:
    main(["simulate", "--seed", "1", *HOURS, path])
    return capsys.readouterr().out


def test_a_run_that_is_not_repeated_is_not_printed_as_a_test(capsys: pytest.CaptureFixture[str]) -> None:
    text = LISTENER.format("RECONSUME_LATER", "uuid.uuid4().int % 2")
    path = _written(text + SHOP.format("", ", listener=listen", ", checkers=[Never]"))
    assert main(["simulate", "--seed", "1", *HOURS[:2], path]) == 1
    printed = capsys.readouterr().out
    assert "did not fail in the same way again" in printed
    assert "def test_seed" not in printed


BODIES = {
    "lambda n: sys.exit(0)": "shop.py:4: SystemExit: 0",
    "lambda n: (_ for _ in ()).throw(KeyboardInterrupt)": "shop.py:4: KeyboardInterrupt",
    "lambda n: 1 / 0": "shop.py:4: ZeroDivisionError",
    "lambda n: 'text'": "is str for message 1; return bytes",
    "lambda n: None": "is NoneType for message 1; return bytes",
    "lambda n: bytes(5 << 20)": "5242880 bytes, the limit is 4194304",
    "lambda n: b''": "body",
}


@pytest.mark.parametrize("body", BODIES)
def test_a_body_that_is_none_fails_the_run(body: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seed", "1", *HOURS, _written(SHOP.format(f", body={body}", "", ""))]) == 1
    reported = capsys.readouterr().out
    assert "orders-producer-1: its messages can't be stored" in reported
    assert BODIES[body] in reported


LISTENERS = {
    "async def listen(messages, context): sys.exit(0)\n": "shop.py:4: SystemExit: 0",
    "async def listen(messages, context): return 'done'\n": "it returned 'done'; return a ConsumeStatus, or nothing",
    "def listen(messages, context): pass\n": "it returned NoneType, which can't be awaited; write it as `async def`",
}


@pytest.mark.parametrize("text", LISTENERS)
def test_a_listener_that_is_none_fails_the_run(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    shop = SHOP.format("", ", listener=listen, retries_max=1", "")
    assert main(["simulate", "--seed", "1", *HOURS, _written(text + shop)]) == 1
    reported = capsys.readouterr().out
    assert f"billing-1: its listener: {LISTENERS[text]}" in reported.replace(str(Path.cwd()) + "/", "")


CHECKERS = {
    "def finish(self): raise KeyError('boo')": "shop.py:5: KeyError: 'boo'",
    "def see(self, event): sys.exit(0)": "shop.py:5: SystemExit: 0",
    "def see(self, event): raise KeyError('boo')": "shop.py:5: KeyError: 'boo'",
    "def __init__(self): pass": "shop.py:5: TypeError",
    "def finish(self): self.broken(None, 'late')": "shop.py:5: TypeError",
}


@pytest.mark.parametrize("text", CHECKERS)
def test_a_checker_that_raises_fails_the_run_and_the_others_judge_on(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = f"class Mine(Checker):\n    {text}\n" + SHOP.format("", "", ", checkers=[Mine]")
    assert main(["simulate", "--seed", "1", *HOURS, _written(shop)]) == 1
    reported = capsys.readouterr().out
    assert "seed 1: 1 broken promises" in reported
    assert f"the checker itself failed: {CHECKERS[text]}" in reported


@pytest.mark.parametrize("wrong", ["42", "Topic", "Checker"])
def test_what_is_no_checker_is_reported_before_anything_is_played(
    wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = SHOP.format("", "", f", checkers=[{wrong}]")
    assert main(["simulate", "--seeds", "2", *HOURS, _written(shop)]) == (0 if wrong == "Checker" else 2)
    if wrong != "Checker":
        assert "shop.py:4: Workload: checkers=" in capsys.readouterr().err


@pytest.mark.parametrize("first", [3, 6], ids=["in the middle", "at first"])
def test_a_seed_without_a_workload_has_failed_and_the_others_are_played(
    first: int, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "made = []\ndef workload(chance):\n    if chance.random() < 0.4: sys.exit(0)\n    "
    shop = SHOP.format("", "", "").replace("workload =", "return")
    assert main(["simulate", "--first", str(first), "--seeds", "6", "--jobs", "1", *HOURS, _written(text + shop)]) == 1
    reported = capsys.readouterr()
    assert "simulate: 6 seeds," in reported.out
    assert "simulate: 6 seeds, 0 failed" not in reported.out
    assert "shop.py:6: SystemExit: 0 (for seed " in reported.err
