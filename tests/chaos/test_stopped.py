"""What isn't concluded about a program that the user has stopped, and what is."""

from staticfire.chaos.each import check_each, parse_each, undecided
from staticfire.chaos.promises import exit_code, left_open, skipped
from staticfire.chaos.sends import unsent
from tests.chaos.runs import commit, delivered, joined, message, run, send

EACH = parse_each("orders -> invoices by key")


def test_exit_code_is_not_concluded() -> None:
    calm = run()
    assert [one.promise for one in exit_code(run(exit_code=None), calm)] == ["exit"]
    assert exit_code(run(exit_code=None, was_stopped=True), calm) == []


def test_missing_counterpart_is_open() -> None:
    events, requests = [joined(), delivered(0, 1)], [commit(1)]
    messages = [message("orders", 0, "A", "1")]
    assert [one.promise for one in check_each(EACH, run(events, requests, messages))] == ["each"]
    stopped = run(events, requests, messages, was_stopped=True)
    assert check_each(EACH, stopped) == []
    assert undecided(EACH, stopped) == 1


def test_second_counterpart_and_skipped_message_are_proven() -> None:
    messages = [message("orders", 0, "A", "1"), message("orders", 1, "B", "2"), message("orders", 2, "C", "3")]
    messages += [message("invoices", 0, "X", "1", b"a"), message("invoices", 1, "Y", "1", b"b")]
    events, requests = [joined(), delivered(0, 1), delivered(2, 3)], [commit(3)]
    stopped = run(events, requests, messages, exit_code=None, was_stopped=True)
    assert [one.promise for one in check_each(EACH, stopped)] == ["each"]
    assert [one.promise for one in skipped(stopped)] == ["skipped"]


def test_lost_send_is_not_concluded() -> None:
    calm = run(messages=[message("orders", 0, "A", "1"), message("orders", 1, "B", "2")])
    requests, messages = [send("orders", "A", "1"), send("orders", "B", "2")], [message("orders", 0, "A", "1")]
    assert [one.promise for one in unsent(run([], requests, messages), calm)] == ["sends"]
    assert unsent(run([], requests, messages, was_stopped=True), calm) == []


def test_messages_that_are_left_are_not_concluded() -> None:
    calm, left = run(exit_code=None), {("billing", "orders"): 2}
    assert [one.promise for one in left_open(run(exit_code=None, open_at_limit=left), calm)] == ["consumed"]
    assert left_open(run(exit_code=None, open_at_limit=left, was_stopped=True), calm) == []
