"""Which second messages prove that the work was done twice, and which a lost answer can explain."""

from typing import Any

import pytest

from staticfire.chaos.each import check_each, parse_each
from staticfire.chaos.injection import InjectedFault
from staticfire.chaos.planned_fault import PlannedFault, rule
from staticfire.protocol.properties import format_properties
from staticfire.protocol.requests.journal import JournalRecord
from tests.chaos.runs import BROKER, CLIENT, commit, delivered, message, run

BY_KEY = parse_each("orders -> invoices by key")
ORDERS = [message("orders", n, f"order-id-{n}", f"order-{n}") for n in range(3)]
INVOICES = [message("invoices", n, f"invoice-id-{n}", f"order-{n}") for n in range(3)]
SECOND = message("invoices", 3, "another id", "order-1")


def attempt(unique_id: str, at_ms: int, client: str = CLIENT, topic: str = "invoices") -> JournalRecord:
    """Return a request to store a message, of a client, at a time."""
    said = format_properties({"UNIQ_KEY": unique_id}).decode()
    details = {"code": "SEND_MESSAGE_V2", "fields": {"topic": topic, "properties": said}}
    return JournalRecord(1, BROKER, "request", at_ms, at_ms, client, "billing", topic, 0, -1, details)


SENDS = [attempt("invoice-id-0", 1_000), attempt("invoice-id-1", 2_000), attempt("another id", 3_000),
         attempt("invoice-id-2", 4_000)]  # fmt: skip
"""The second invoice of order-1 was sent after the first one, which is the second send of all."""


def doubles(
    *injected: InjectedFault, sends: list[JournalRecord] | None = None, second: Any = SECOND, **more: Any
) -> int:
    """Return how many values have a proven second message. Order 1 has two invoices."""
    requests = [commit(3), *(SENDS if sends is None else sends)]
    evidence = run([delivered(0, 3)], requests, [*ORDERS, *INVOICES, second], injected=injected, ended_ms=9_000, **more)
    return len([one for one in check_each(BY_KEY, evidence) if "done twice" in one.words])


def hit(kind: str, hits: int = 1, at_ms: int = 0, until_ms: int = 0, client: str = "", **words: Any) -> InjectedFault:
    return InjectedFault(rule(kind, **words), hits, at_ms, until_ms, client=client)


def lost_answer(after: int, topic: str = "invoices", hits: int = 1) -> InjectedFault:
    words: dict[str, Any] = {"code": "SEND_MESSAGE", "topic": topic, "close": True, "direction": "answer", "times": 1}
    return hit("lost-answer", hits, after=after, **words)


def test_second_message_without_any_fault_is_proof() -> None:
    assert doubles() == 1


@pytest.mark.parametrize(
    ("after", "topic", "hits", "found"),
    [
        (1, "invoices", 1, 0),
        (1, "invoices", 0, 1),  # It hit nothing.
        (0, "invoices", 1, 1),  # It took the answer to the invoice before.
        (2, "invoices", 1, 1),  # It took the answer to the second one.
        (1, "orders", 1, 1),  # It was about another topic.
    ],
)
def test_lost_answer_explains_the_send_that_it_has_hit(after: int, topic: str, hits: int, found: int) -> None:
    assert doubles(lost_answer(after, topic, hits)) == found


def test_own_retry_that_was_answered_proves_that_the_message_is_stored() -> None:
    retried = [*SENDS[:2], attempt("invoice-id-1", 2_010), *SENDS[2:]]
    assert doubles(lost_answer(1), sends=retried) == 1
    refused = hit("refuse", 3, code="SEND_MESSAGE", topic="invoices", answer="SYSTEM_BUSY", after=2, times=3)
    assert doubles(lost_answer(1), refused, sends=retried) == 0


def test_refused_send_is_not_stored_and_explains_no_second_message() -> None:
    assert doubles(hit("busy", code="SEND_MESSAGE", topic="invoices", answer="SYSTEM_BUSY", after=1, times=1)) == 1


def test_rule_does_not_count_what_another_rule_has_ended() -> None:
    """The first send is refused before the rule that loses an answer sees it."""
    busy = hit("busy", code="SEND_MESSAGE", topic="invoices", answer="SYSTEM_BUSY", times=1)
    assert doubles(busy, lost_answer(0)) == 0


def test_status_explains_as_many_messages_as_it_has_hit() -> None:
    words: dict[str, Any] = {"code": "SEND_MESSAGE", "topic": "invoices", "direction": "answer"}
    words["answer"] = "FLUSH_DISK_TIMEOUT"
    assert doubles(hit("status", after=1, times=1, **words)) == 0
    assert doubles(hit("status", after=2, times=1, **words)) == 1


def test_answers_that_are_lost_by_chance_explain_no_more_messages_than_they_are() -> None:
    third = message("invoices", 4, "third id", "order-1")
    words: dict[str, Any] = {"code": "SEND_MESSAGE", "drop": "answer", "probability": 0.1}
    sends = [*SENDS, attempt("third id", 3_500)]

    def found(hits: int) -> int:
        evidence = run(
            [delivered(0, 3)], [commit(3), *sends], [*ORDERS, *INVOICES, SECOND, third],
            injected=[hit("lost-answers", hits, **words)],
        )  # fmt: skip
        return len(check_each(BY_KEY, evidence))

    assert [found(hits) for hits in (1, 2)] == [1, 0]


@pytest.mark.parametrize(
    ("at_ms", "until_ms", "broker", "found"),
    [
        (1_500, 2_500, BROKER, 0),
        (2_500, 3_500, BROKER, 0),  # The answer may have been in flight.
        (3_500, 4_500, BROKER, 1),  # It was answered long before.
        (1_500, 2_500, "broker-b", 1),  # Another broker was away.
        (1_500, 0, BROKER, 0),  # The program has ended before it was back.
    ],
)
def test_absent_broker_explains_the_sends_during_its_absence(
    at_ms: int, until_ms: int, broker: str, found: int
) -> None:
    assert doubles(hit("restart", 1, at_ms, until_ms, broker=broker, kill="1s")) == found


def test_partition_explains_the_sends_of_its_client_only() -> None:
    words: dict[str, Any] = {"partition": f"{CLIENT}/{BROKER}"}
    assert doubles(hit("partition", 1, 1_500, 2_500, CLIENT, **words)) == 0
    assert doubles(hit("partition", 1, 1_500, 2_500, "10.0.0.9@audit", **words)) == 1


@pytest.mark.parametrize(
    ("client", "at_ms", "found"),
    [(CLIENT, 2_010, 0), (CLIENT, 1_990, 1), ("10.0.0.9@audit", 2_010, 1), (CLIENT, 2_900, 1)],
)
def test_closed_connection_of_a_consumer_takes_the_answers_in_flight_on_it(client: str, at_ms: int, found: int) -> None:
    pull = JournalRecord(
        1, BROKER, "request", at_ms, at_ms, client, "billing", "orders", 0, 0, {"code": "PULL_MESSAGE", "fields": {}}
    )
    reset = hit("reset", code="PULL_MESSAGE", group="billing", close=True, times=1)
    assert doubles(reset, sends=[*SENDS, pull]) == found


def test_second_message_with_other_contents_is_no_repeated_send() -> None:
    other = message("invoices", 3, "another id", "order-1", b"another")
    assert doubles(lost_answer(1), second=other) == 1


def test_message_whose_send_is_not_in_the_journal_gets_the_benefit_of_the_doubt() -> None:
    assert doubles(lost_answer(1), sends=[]) == 0
    assert doubles(InjectedFault(PlannedFault("rebalance"), 1), sends=[]) == 1
