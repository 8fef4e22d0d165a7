"""What the checkers conclude from the evidence of a run, and what they must not conclude."""

from typing import Any

import pytest

from staticfire.chaos.evidence import BURIED, DONE, OPEN, SKIPPED, Evidence, fate, since_reset
from staticfire.chaos.injection import InjectedFault
from staticfire.chaos.planned_fault import PlannedFault
from staticfire.chaos.promises import check, left_open
from staticfire.chaos.sends import unsent
from staticfire.chaos.session import used_in
from tests.chaos.runs import BROKER, commit, delivered, event, joined, message, request, run, send

ORDERS = [message("orders", offset, f"id-{offset}") for offset in range(4)]


def promises(evidence: Evidence, calm: Evidence | None = None) -> list[str]:
    return [one.promise for one in check(evidence, calm or run())]


# -- the exit code -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "words"),
    [(1, "ended with exit code 1"), (-11, "was ended by signal 11"), (None, "was still running")],
)
def test_other_exit_code_than_in_calm_weather(code: int | None, words: str) -> None:
    (broken,) = check(run(exit_code=code), run())
    assert broken.promise == "exit"
    assert words in broken.words


def test_condition_at_rest_that_fails() -> None:
    assert promises(run(at_rest=3)) == ["at-rest"]
    assert promises(run(at_rest=0)) == []
    assert promises(run(at_rest_is_late=True)) == ["at-rest"]


# -- skipped messages --------------------------------------------------------------------------------------------


def test_commit_past_a_message_that_no_member_got() -> None:
    events = [joined(), delivered(0, 1), delivered(3, 4)]
    (broken,) = check(run(events, [commit(4)], ORDERS), run())
    assert broken.promise == "skipped"
    assert broken.message_ids == ("id-1", "id-2")


@pytest.mark.parametrize(
    ("events", "gaps"),
    [
        ([joined(), delivered(0, 1), delivered(3, 4)], {BROKER}),  # The journal has lost something.
        ([joined(orders="paid"), delivered(0, 1), delivered(3, 4)], set()),  # The others don't match.
        ([joined(), delivered(0, 1), delivered(3, 4), event("reset", offset=3)], set()),  # An administrator did it.
        ([joined(), delivered(2, 4)], set()),  # The group began there.
        ([joined(), delivered(0, 4)], set()),
    ],
)
def test_commit_that_proves_nothing(events: list[object], gaps: set[str]) -> None:
    assert promises(run(events, [commit(4)], ORDERS, gaps=frozenset(gaps))) == []  # type: ignore[arg-type]


# -- what became of a message ------------------------------------------------------------------------------------


def test_message_is_open_until_its_offset_is_committed() -> None:
    assert fate(run([delivered(0, 4)], [commit(1)], ORDERS), "billing", ORDERS[0], "orders") == DONE
    assert fate(run([delivered(0, 4)], [commit(1)], ORDERS), "billing", ORDERS[1], "orders") == OPEN
    assert fate(run([delivered(2, 4)], [commit(4)], ORDERS), "billing", ORDERS[1], "orders") == SKIPPED


def test_message_that_was_sent_back_is_open_until_its_retry_is_done() -> None:
    back = event("sentBack", offset=0, status="SUCCESS", messageId="offset-id")
    retry = message("%RETRY%billing", 0, "id-0")
    events = [delivered(0, 4), back]
    assert fate(run(events, [commit(4)], ORDERS), "billing", ORDERS[0], "orders") == OPEN
    assert fate(run(events, [commit(4)], [*ORDERS, retry]), "billing", ORDERS[0], "orders") == OPEN
    events.append(delivered(0, 1, "%RETRY%billing"))
    done = run(events, [commit(4), commit(1, "%RETRY%billing")], [*ORDERS, retry])
    assert fate(done, "billing", ORDERS[0], "orders") == DONE


def test_dead_letter_is_buried_and_an_acknowledged_message_done() -> None:
    dead = event("died", "%DLQ%billing", 0, messageId="id-0", originTopic="orders")
    assert fate(run([delivered(0, 4), dead], [], ORDERS), "billing", ORDERS[0], "orders") == BURIED
    acked = run([delivered(0, 4)], [request("ACK_MESSAGE", offset=2)], ORDERS)
    assert fate(acked, "billing", ORDERS[2], "orders") == DONE
    assert fate(acked, "billing", ORDERS[1], "orders") == OPEN


def test_offset_that_a_pull_commits_counts() -> None:
    pull = request("PULL_MESSAGE", offset=9, sysFlag=1, commitOffset=2)
    no_commit = request("PULL_MESSAGE", offset=9, sysFlag=2, commitOffset=4)
    evidence = run([delivered(0, 4)], [pull, no_commit], ORDERS)
    assert fate(evidence, "billing", ORDERS[1], "orders") == DONE
    assert fate(evidence, "billing", ORDERS[2], "orders") == OPEN


# -- members -----------------------------------------------------------------------------------------------------


def test_members_with_different_subscriptions() -> None:
    events = [joined("one", orders="paid"), joined("two", at_ms=10, orders="refunded")]
    assert promises(run(events, ended_ms=5_000)) == ["subscriptions"]
    assert promises(run(events, ended_ms=1_500)) == []  # A program starts its consumers one after the other.
    left = event("left", "", client="one", at_ms=500, reason="unregistered", members=1)
    assert promises(run([*events, left], ended_ms=5_000)) == []


def test_members_that_soon_subscribe_to_the_same_are_right() -> None:
    changed = event("subscribed", client="one", at_ms=300, expression="refunded", before="paid", version=2)
    events = [joined("one", orders="paid"), joined("two", at_ms=10, orders="refunded"), changed]
    assert promises(run(events, ended_ms=9_000)) == []


def test_retry_topics_are_no_difference() -> None:
    with_retries: dict[str, Any] = {"orders": "*", "%RETRY%billing": "*"}
    events = [joined("one", **with_retries), joined("two", orders="*")]
    assert promises(run(events, ended_ms=9_000)) == []


# -- acknowledgements and transactions ---------------------------------------------------------------------------

HANDLE = "0 1000 500 0 0 broker-a 0 2"


def test_acknowledgement_after_the_invisible_time() -> None:
    late = request("ACK_MESSAGE", offset=2, at_ms=3_000, extraInfo=HANDLE)
    assert promises(run([], [late], ORDERS)) == ["late-ack"]
    assert promises(run([], [request("ACK_MESSAGE", offset=2, at_ms=1_600, extraInfo=HANDLE)], ORDERS)) == []


@pytest.mark.parametrize(
    "fault",
    [PlannedFault("freeze", (("freeze", "20s"),)), PlannedFault("slow", (("delay", "2s"), ("code", "SEND_MESSAGE")))],
)
def test_late_acknowledgement_for_which_a_fault_is_the_reason(fault: PlannedFault) -> None:
    late = request("ACK_MESSAGE", offset=2, at_ms=3_000, extraInfo=HANDLE)
    assert promises(run([], [late], ORDERS, injected=[InjectedFault(fault, hits=1)])) == []
    assert promises(run([], [late], ORDERS, injected=[InjectedFault(fault, hits=0)])) == ["late-ack"]


def test_transaction_that_is_committed_and_then_rolled_back() -> None:
    def end(how: int, is_check: bool) -> object:
        return request("END_TRANSACTION", msgId="1", commitOrRollback=how, fromTransactionCheck=is_check)

    assert promises(run([], [end(8, False), end(12, True)])) == ["transaction"]  # type: ignore[list-item]
    assert promises(run([], [end(8, False), end(8, True)])) == []  # type: ignore[list-item]
    assert promises(run([], [end(0, False), end(12, True)])) == []  # type: ignore[list-item]


# -- a program that doesn't end ----------------------------------------------------------------------------------


def test_service_that_leaves_messages_although_all_faults_are_over() -> None:
    left = run(exit_code=None, open_at_limit={("billing", "orders"): 3})
    none = run(exit_code=None, open_at_limit={("billing", "orders"): 0})
    assert [one.promise for one in left_open(left, none)] == ["consumed"]
    assert left_open(left, left) == []  # It left some in calm weather, too.
    assert left_open(run(open_at_limit={("billing", "orders"): 3}), none) == []  # It has ended by itself.


# -- sends -------------------------------------------------------------------------------------------------------

CALM = run([], [send("orders", f"calm-{n}") for n in range(4)], [message("orders", n, f"calm-{n}") for n in range(4)])


def lost(requests: list[object], stored: int = 3, exit_code: int | None = 0, keys: str = "") -> list[str]:
    messages = [message("orders", n, f"id-{n}", keys) for n in range(stored)]
    sent = [send("orders", f"id-{n}") for n in range(stored)]
    evidence = run([], [*sent, *requests], messages, exit_code)  # type: ignore[list-item]
    return [one.promise for one in unsent(evidence, CALM)]


def test_message_that_was_never_stored_although_the_program_is_content() -> None:
    assert lost([send("orders", "id-3"), send("orders", "id-3")]) == ["sends"]


def test_send_that_failed_and_proves_nothing() -> None:
    refused = send("orders", "id-3")
    assert lost([refused], exit_code=1) == []  # The program reports the failure by its exit code.
    assert lost([refused], stored=4) == []  # The same number is stored, so it was sent again under another id.
    assert lost([send("orders", "id-3", "order-3")], keys="order-3") == []  # A message with its key is stored.
    assert lost([send("orders", "id-3", DELAY="3")]) == []  # It is stored elsewhere until it is due.
    assert lost([send("orders", "id-3", TRAN_MSG="true")]) == []


def test_one_way_send_promises_nothing() -> None:
    oneway = send("orders", "id-3")
    oneway.details["oneway"] = True
    assert lost([oneway]) == []


# -- a reset by a test framework ---------------------------------------------------------------------------------


def test_what_was_before_a_reset_is_used_and_proves_nothing() -> None:
    events = [joined(), delivered(0, 4, at_ms=10), event("forgotten", at_ms=50), delivered(0, 1, at_ms=70)]
    requests = [request("UPDATE_CONSUMER_OFFSET", at_ms=20, commitOffset=4), send("bills", "1")]
    later, requested, earlier = since_reset(events, requests)
    evidence = run(list(later), list(requested), ORDERS, earlier=earlier)
    assert fate(evidence, "billing", ORDERS[1], "orders") == OPEN
    assert used_in(evidence).topics == ["bills", "orders"]
    assert used_in(evidence).groups["billing"].deliveries == 2
    assert since_reset(events[:2], requests) == (events[:2], requests, ((), ()))
