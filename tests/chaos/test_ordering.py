"""What the brokers' view proves about order in a group that consumes in order, and what it doesn't."""

from typing import Any

import pytest

from staticfire.chaos.ordering import order
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.requests.journal import JournalRecord
from tests.chaos.runs import BROKER, CLIENT, delivered, event, message, request, run

ORDERS = [message("orders", offset, f"id-{offset}") for offset in range(4)]
RETRY = "%RETRY%billing"
LOCKED = event("locked", at_ms=10, before="")
OTHER = "10.0.0.9@billing-2"


def promises(
    events: list[JournalRecord], requests: list[JournalRecord], *more: ReceivedMessage, **how: Any
) -> list[str]:
    evidence = run(events, requests, [*ORDERS, *more], ended_ms=60_000, **how)
    return [one.words.partition(", but ")[2].split(",")[0] for one in order(evidence)]


def commit(offset: int, at_ms: int, client: str = CLIENT) -> JournalRecord:
    fields = {"topic": "orders", "commitOffset": offset}
    details = {"code": "UPDATE_CONSUMER_OFFSET", "fields": fields}
    return JournalRecord(1, BROKER, "request", at_ms, at_ms, client, "billing", "orders", 0, offset, details)


def lock(client: str) -> JournalRecord:
    body = {"consumerGroup": "billing", "clientId": client, "mqSet": [{"topic": "orders", "queueId": 0}]}
    details = {"code": "LOCK_BATCH_MQ", "fields": {}, "body": body}
    return JournalRecord(1, BROKER, "request", 5, 5, client, "", "", -1, -1, details)


LOCKS = lock(CLIENT)

# -- messages that were sent back --------------------------------------------------------------------------------

BACK = event("sentBack", offset=1, at_ms=100, status="SUCCESS", messageId="offset-id")
COPY = message(RETRY, 0, "id-1")
RETRIED = delivered(0, 1, RETRY, at_ms=900)
DELIVERED = delivered(0, 4, at_ms=50)
DIED = event("died", "%DLQ%billing", 0, messageId="id-1", originTopic="orders")


def test_later_message_is_finished_before_the_retry_of_an_earlier_one() -> None:
    assert promises([LOCKED, DELIVERED, BACK, RETRIED], [LOCKS, commit(4, 300)], COPY) == ["it sent messages back"]


@pytest.mark.parametrize(
    ("events", "requests", "gaps"),
    [
        ([DELIVERED, BACK, RETRIED], [commit(4, 300)], set()),  # It doesn't consume in order.
        ([LOCKED, DELIVERED, BACK, RETRIED], [LOCKS, commit(2, 300)], set()),  # No later one was finished meanwhile.
        ([LOCKED, DELIVERED, BACK, RETRIED], [LOCKS, commit(4, 950)], set()),  # It was finished after the retry.
        ([LOCKED, DELIVERED, BACK], [LOCKS, commit(4, 300)], set()),  # It isn't delivered again.
        ([LOCKED, DELIVERED, BACK, RETRIED], [LOCKS, commit(4, 300)], {BROKER}),
        ([LOCKED, DELIVERED, BACK, DIED, RETRIED], [LOCKS, commit(4, 300)], set()),  # maxReconsumeTimes wants it so.
    ],
)
def test_message_that_is_sent_back_and_proves_nothing(
    events: list[JournalRecord], requests: list[JournalRecord], gaps: set[str]
) -> None:
    assert promises(events, requests, COPY, gaps=frozenset(gaps)) == []


# -- members that don't lock -------------------------------------------------------------------------------------

BY_OTHER = delivered(2, 4, at_ms=200, client=OTHER)


def test_member_consumes_without_a_lock_in_a_group_that_consumes_in_order() -> None:
    events = [LOCKED, delivered(0, 2, at_ms=50), BY_OTHER]
    found = promises(events, [lock(CLIENT), commit(2, 60), commit(4, 250, OTHER)])
    assert found == ["not all of its members do: one never locks the queues that it consumes"]


RETRIES_LOCKED = event("locked", RETRY, at_ms=10, before="")


@pytest.mark.parametrize(
    ("events", "requests", "gaps"),
    [
        ([LOCKED, BY_OTHER], [lock(CLIENT), lock(OTHER), commit(4, 250, OTHER)], set()),  # It may have lost its lock.
        ([LOCKED, BY_OTHER], [lock(CLIENT)], set()),  # It only reads, as a report does.
        ([BY_OTHER], [commit(4, 250, OTHER)], set()),  # No member consumes in order.
        ([RETRIES_LOCKED, BY_OTHER], [commit(4, 250, OTHER)], set()),  # It locks another topic.
        ([LOCKED, BY_OTHER], [lock(CLIENT), commit(4, 250, OTHER)], {BROKER}),  # Its request may have been lost.
        ([LOCKED, delivered(2, 4, at_ms=200)], [lock(CLIENT), commit(4, 250)], set()),
    ],
)
def test_member_that_gets_a_queue_and_proves_nothing(
    events: list[JournalRecord], requests: list[JournalRecord], gaps: set[str]
) -> None:
    assert promises(events, requests, gaps=frozenset(gaps)) == []


# -- messages that are popped in order ---------------------------------------------------------------------------


def pop(in_order: bool = True) -> JournalRecord:
    return request("POP_MESSAGE", order=in_order)


def ack(offset: int, at_ms: int) -> JournalRecord:
    return request("ACK_MESSAGE", offset=offset, at_ms=at_ms)


ALONE, FIRST, AGAIN = delivered(2, 3, at_ms=50), delivered(1, 2, at_ms=300), delivered(1, 2, at_ms=900)


def test_message_is_acknowledged_before_an_earlier_one_that_is_delivered_again() -> None:
    events = [DELIVERED, AGAIN]
    assert promises(events, [pop(), ack(0, 100), ack(2, 200), ack(1, 950)]) == [
        "messages were acknowledged before earlier ones of their queue"
    ]
    assert promises(events, [pop(), ack(0, 100), ack(2, 200)]) != []


@pytest.mark.parametrize(
    ("events", "requests"),
    [
        ([DELIVERED, AGAIN], [pop(False), ack(0, 100), ack(2, 200), ack(1, 950)]),  # It doesn't consume in order.
        ([DELIVERED, AGAIN], [pop(), ack(1, 100), ack(2, 200), ack(1, 950)]),  # The first acknowledgement was lost.
        ([DELIVERED], [pop(), ack(0, 100), ack(2, 200), ack(1, 210)]),  # It was in the same batch, and is finished.
        ([ALONE, FIRST, AGAIN], [pop(), ack(2, 200), ack(1, 950)]),  # The earlier one wasn't delivered until then.
    ],
)
def test_acknowledgements_that_prove_nothing(events: list[JournalRecord], requests: list[JournalRecord]) -> None:
    assert promises(events, requests) == []
