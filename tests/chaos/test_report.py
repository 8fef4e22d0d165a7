"""The output about the calm run and failing seeds, and the flags of the command that repeats a run."""

import json
from typing import Any

from staticfire.chaos.broken import Broken
from staticfire.chaos.injection import InjectedFault
from staticfire.chaos.planned_fault import PlannedFault
from staticfire.chaos.report import JsonReport, TextReport, flags_of
from staticfire.chaos.running import TriedProgram
from staticfire.chaos.session import Calm, RunChecks, SeedResult, WantedTrial, because_of_faults
from staticfire.chaos.topics import WantedTopic
from staticfire.chaos.usage import learn
from tests.chaos.runs import delivered, event, joined, run

PROGRAM = TriedProgram(("./billing",), 10, topics=(WantedTopic("orders"), WantedTopic("steps", "FIFO")))


def calm_text(*events: object, **more: Any) -> str:
    """Return the output about a calm run with these events."""
    evidence = run(list(events), **more)  # type: ignore[arg-type]
    lines: list[str] = []
    report = TextReport(WantedTrial(PROGRAM), lines.append)
    report.calm(Calm(evidence, learn(evidence.events, (), ["broker-a"]), []))
    return "\n".join(lines)


def test_groups_that_broadcast_keep_offsets_of_the_run_before() -> None:
    broadcasting = event("joined", "", subscriptions={"orders": "*"}, messageModel="BROADCASTING")
    assert "billing broadcasts: its members keep their offsets in files" in calm_text(broadcasting, delivered(0, 1))
    assert "broadcasts" not in calm_text(joined(), delivered(0, 1))


def test_messages_that_a_program_leaves_without_faults() -> None:
    left = {("billing", "orders"): 2, ("audit", "orders"): 0}
    text = calm_text(joined(), delivered(0, 1), exit_code=None, open_at_limit=left)
    assert "billing has left 2 messages of orders: whether it consumes everything isn't checked" in text
    assert "audit" not in text


def test_flags_that_repeat_a_run() -> None:
    assert flags_of(WantedTrial(TriedProgram(("./billing",), 600))) == []
    assert flags_of(WantedTrial(PROGRAM)) == ["--topic orders", "--topic steps:FIFO", "--limit 10s"]
    program = TriedProgram(("./billing",), 90, 0, "", 2, 9876, 10911, settings={"flushDiskType": "SYNC_FLUSH"})
    assert flags_of(WantedTrial(program)) == [
        "--limit 1m30s", "--settle 0s", "--brokers 2", "--namesrv-port 9876", "--broker-port 10911",
        "--set flushDiskType=SYNC_FLUSH",
    ]  # fmt: skip


def test_seed_that_was_stopped() -> None:
    lines: list[str] = []
    TextReport(WantedTrial(PROGRAM), lines.append).seed(SeedResult(3, [], run(exit_code=None, was_stopped=True), []))
    assert lines == ["seed 3: stopped, kept so far, after 0.0 s, 0 of 0 faults hit"]


EXIT, DOUBLED = Broken("exit", "", "it was still running"), Broken("each", "", "the work was done twice")


def test_json_has_the_output_of_a_command_that_failed() -> None:
    lines: list[str] = []
    report = JsonReport(WantedTrial(PROGRAM), lines.append)
    evidence = run(exit_code=1, output="ValueError: no order")
    report.calm(Calm(evidence, learn(evidence.events, (), ["broker-a"]), [], problem="exit code 1"))
    report.seed(SeedResult(3, [], evidence, [], unrelated=[EXIT]))
    report.seed(SeedResult(4, [], evidence, []))
    assert [json.loads(line)["output"] for line in lines] == ["ValueError: no order", "ValueError: no order", ""]


def test_program_that_fails_before_any_fault_has_hit_does_not_fail_because_of_faults() -> None:
    fault = PlannedFault("busy")
    assert because_of_faults([EXIT, DOUBLED], run(injected=[InjectedFault(fault, hits=1)])) == [EXIT, DOUBLED]
    missed = run(exit_code=None, injected=[InjectedFault(fault)], output="the end")
    assert because_of_faults([EXIT, DOUBLED], missed) == [DOUBLED]
    lines: list[str] = []
    TextReport(WantedTrial(PROGRAM), lines.append).seed(SeedResult(3, [fault], missed, [], unrelated=[EXIT]))
    assert "  it failed although no fault had hit anything, so faults aren't the reason:" in lines
    assert "    | the end" in lines


def test_a_long_line_of_a_program_is_cut() -> None:
    lines: list[str] = []
    missed = run(exit_code=None, injected=[InjectedFault(PlannedFault("busy"))], output="x" * 65_535)
    TextReport(WantedTrial(PROGRAM), lines.append).seed(SeedResult(3, [], missed, [], unrelated=[EXIT]))
    assert f"    | {'x' * 500} ... (65035 more characters)" in lines


def failed(result: SeedResult) -> list[str]:
    """Return the output about a failing seed, without the test."""
    lines: list[str] = []
    TextReport(WantedTrial(PROGRAM), lines.append).failed(result)
    return lines[: lines.index("  as a test:")] if "  as a test:" in lines else [*lines, "no test"]


def test_faults_of_a_failing_seed_say_what_they_are() -> None:
    faults = [PlannedFault("busy", (("code", "SEND_MESSAGE"),), number=number) for number in (1, 2)]
    result = SeedResult(3, faults, run(), [DOUBLED])
    assert "  its faults:" in failed(result)
    result.shrink_runs, result.smallest = 1, faults[:1]
    assert "  1 of 2 faults reproduce it (1 run):" in failed(result)


def test_second_seed_that_breaks_a_promise_has_no_test_of_its_own() -> None:
    result = SeedResult(3, [PlannedFault("busy", number=1)], run(), [DOUBLED], as_in_seed=2)
    lines = failed(result)
    assert "  its faults (not reduced: seed 2 broke the same promise):" in lines
    assert lines[-1] == "no test"
    assert lines[-2].startswith("  repeat: staticfire chaos --seed 3 --faults 1 ")


def test_grpc_client_without_its_topics_gets_the_flag_that_creates_them() -> None:
    output = "TOPIC_NOT_FOUND, MESSAGE: CODE: 17  DESC: no route to topic orders at nameserver 127.0.0.1:9876"
    _, problem = RunChecks().calm(run(exit_code=1, output=output))
    assert problem.endswith(
        "exit code 1. It needs a topic that doesn't exist: --topic NAME creates one before each run"
    )
    _, problem = RunChecks().calm(run(exit_code=1, output="assert 1 == 2"))
    assert problem.endswith("exit code 1")
