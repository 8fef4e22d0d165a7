"""Fewer faults with which a program still fails, and what repeats it."""

import sys
from collections.abc import Sequence

import pytest

from staticfire.chaos.broken import Broken
from staticfire.chaos.injection import InjectedFault
from staticfire.chaos.page import page_of
from staticfire.chaos.planned_fault import CLIENT, MEMBER, Begin, PlannedFault, numbered, rule
from staticfire.chaos.repeating import as_command, as_test
from staticfire.chaos.running import TriedProgram
from staticfire.chaos.shrinking import shrunk
from staticfire.chaos.story import story
from tests.chaos.runs import commit, delivered, event, message, run, send

STRIKES = numbered([rule(kind, code="SEND_MESSAGE", drop="answer") for kind in "abcde"])
LATER = numbered(
    [
        rule("duplicate", code="SEND_MESSAGE", topic="orders", duplicate=True, times=1),
        PlannedFault("rebalance", begin=Begin(3, "billing"), how=MEMBER, group="billing", stay_ms=500),
        PlannedFault("freeze", (("broker", "broker-a"), ("freeze", "20s")), Begin(2, topic="orders")),
        PlannedFault(
            "partition", (("partition", "CLIENT/broker-a"), ("lifetime", "2s")), Begin(1, "billing"), CLIENT, "billing"
        ),
    ]
)
BROKEN = Broken("each", "orders", 'a "value" has <two> messages', ("order-1: 2 messages",), ("id-1",))


async def test_faults_that_are_not_needed_are_left_out() -> None:
    async def fails(faults: Sequence[PlannedFault]) -> bool:
        return {"b", "d"} <= {one.kind for one in faults}

    kept, runs = await shrunk([InjectedFault(one, hits=1) for one in STRIKES], fails)
    assert [one.kind for one in kept] == ["b", "d"]
    assert runs == 5


async def test_fault_that_hit_nothing_is_left_out_with_one_run() -> None:
    async def fails(faults: Sequence[PlannedFault]) -> bool:
        return any(one.kind == "c" for one in faults)

    injected = [InjectedFault(one, hits=int(one.kind == "c")) for one in STRIKES]
    kept, runs = await shrunk(injected, fails)
    assert ([one.kind for one in kept], runs) == (["c"], 1)


async def test_limit_of_runs_is_obeyed() -> None:
    async def fails(_: Sequence[PlannedFault]) -> bool:
        return False

    kept, runs = await shrunk([InjectedFault(one, hits=1) for one in STRIKES], fails, 3)
    assert (len(kept), runs) == (5, 3)


def test_command_repeats_the_faults_that_are_left() -> None:
    line = as_command(["--weather rough"], 7, [STRIKES[1], STRIKES[3]], ["go", "test", "./a b"])
    assert line == "staticfire chaos --seed 7 --faults 2,4 --weather rough -- go test './a b'"


def test_test_is_python_with_all_kinds_of_faults() -> None:
    source = as_test(7, LATER, [BROKEN], TriedProgram(("go", "test"), 10), ["orders -> invoices by key"])
    compile(source, "test_seed_7.py", "exec")
    for words in (
        "duplicate=True",
        '"staticfire", "member"',
        "freeze='20s'",
        "cluster.members('billing')",
        "assert_each(cluster, 'orders",
    ):
        assert words in source


def test_test_of_a_program_that_does_not_end_by_itself_ends_it_at_the_limit() -> None:
    source = as_test(7, LATER, [BROKEN], TriedProgram(("./billing",), 1.5), is_service=True)
    compile(source, "test_seed_7.py", "exec")
    assert "program.wait(timeout=1.5)\n    program.kill()" in source
    assert "timeout=120" not in source


@pytest.mark.slow
def test_test_with_brokers_that_take_only_tls_lets_the_program_use_it(pytester: pytest.Pytester) -> None:
    sends = "import os; from staticfire.client import Message, Producer\n"
    sends += "with Producer('tills', os.environ['NAMESRV_ADDR']) as till: till.send(Message('orders', b'one'))"
    program = TriedProgram((sys.executable, "-c", sends), 10, settings={"tls.server.mode": "enforcing"})
    pytester.makepyfile(as_test(7, [], [BROKEN], program))
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_page_is_one_file_with_the_life_of_the_message() -> None:
    events = [delivered(0, 2, at_ms=30), event("sentBack", offset=1, at_ms=40, status="SUCCESS")]
    requests = [send("orders", "id-1", "order-1"), commit(2)]
    messages = [message("orders", 0, "id-0"), message("orders", 1, "id-1", "order-1")]
    injected = [InjectedFault(one, hits=1, at_ms=10, until_ms=20) for one in LATER]
    evidence = run(events, requests, messages, began_ms=0, ended_ms=100, injected=injected)
    page = page_of("seed 7", evidence, [BROKEN], ["./a<b>"])
    assert "http" not in page
    assert "a &quot;value&quot; has &lt;two&gt; messages" in page
    assert "./a&lt;b&gt;" in page
    words = [chapter.words for chapter in story(evidence, "id-1")]
    assert any("sends it to orders" in one for one in words)
    assert any("delivered to" in one for one in words)
    assert any("it counts as consumed" in one for one in words)
    assert any("sends it back" in one for one in words)
    assert all(one.replace("'", "&#x27;") in page for one in words)
