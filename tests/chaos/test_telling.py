"""What the output says about the calm run, and the flags of the command that repeats a run."""

from staticfire.chaos.broken import Broken
from staticfire.chaos.running import TriedProgram
from staticfire.chaos.session import Calm, SeedResult, WantedTrial, because_of_faults
from staticfire.chaos.strikes import PlannedFault
from staticfire.chaos.striking import Struck
from staticfire.chaos.telling import Telling, flags_of
from staticfire.chaos.topics import WantedTopic
from staticfire.chaos.usage import learn
from tests.chaos.runs import delivered, event, joined, run

PROGRAM = TriedProgram(("./billing",), 10, topics=(WantedTopic("orders"), WantedTopic("steps", "FIFO")))


def told(*events: object) -> str:
    """Return what is said about a calm run with these events."""
    evidence = run(list(events))  # type: ignore[arg-type]
    lines: list[str] = []
    telling = Telling(WantedTrial(PROGRAM), lines.append)
    telling.calm(Calm(evidence, learn(evidence.events, (), ["broker-a"]), []))
    return "\n".join(lines)


def test_groups_that_broadcast_keep_offsets_of_the_run_before() -> None:
    broadcasting = event("joined", "", subscriptions={"orders": "*"}, messageModel="BROADCASTING")
    assert "billing broadcasts: its members keep their offsets in files" in told(broadcasting, delivered(0, 1))
    assert "broadcasts" not in told(joined(), delivered(0, 1))


def test_flags_that_repeat_a_run_have_the_topics() -> None:
    assert flags_of(WantedTrial(PROGRAM)) == ["--topic orders", "--topic steps:FIFO"]


def test_seed_that_was_stopped() -> None:
    lines: list[str] = []
    Telling(WantedTrial(PROGRAM), lines.append).seed(SeedResult(3, [], run(exit_code=None, was_stopped=True), []))
    assert lines == ["seed 3: stopped, kept so far, after 0.0 s, 0 of 0 faults hit"]


EXIT, DOUBLED = Broken("exit", "", "it was still running"), Broken("each", "", "the work was done twice")


def test_program_that_fails_before_any_fault_has_hit_does_not_fail_because_of_faults() -> None:
    fault = PlannedFault("busy")
    assert because_of_faults([EXIT, DOUBLED], run(struck=[Struck(fault, hits=1)])) == [EXIT, DOUBLED]
    missed = run(exit_code=None, struck=[Struck(fault)], output="the end")
    assert because_of_faults([EXIT, DOUBLED], missed) == [DOUBLED]
    lines: list[str] = []
    Telling(WantedTrial(PROGRAM), lines.append).seed(SeedResult(3, [fault], missed, [], unrelated=[EXIT]))
    assert "  it failed although no fault had hit anything, so faults aren't the reason:" in lines
    assert "    | the end" in lines
