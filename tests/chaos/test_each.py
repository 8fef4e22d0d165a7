"""`--each`: what each message of one topic brings forth in another."""

import pytest

from staticfire.chaos.each import Each, check_each, no_match, parse_each, undecided
from staticfire.chaos.evidence import Evidence
from staticfire.protocol.errors import UsageError
from tests.chaos.runs import commit, delivered, event, message, run

BY_KEY = parse_each("orders -> invoices by key")
ORDERS = [message("orders", n, f"order-id-{n}", f"order-{n}") for n in range(3)]
INVOICES = [message("invoices", n, f"invoice-id-{n}", f"order-{n}") for n in range(3)]


def done(*invoices: object, committed: int = 3) -> Evidence:
    return run([delivered(0, 3)], [commit(committed)], [*ORDERS, *invoices])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("text", "each"),
    [
        ("orders -> invoices by key", Each("orders", "invoices", "key")),
        (" orders->invoices by  property  shop ", Each("orders", "invoices", "property shop")),
        ("a -> b by body:order.id, at least one", Each("a", "b", "body:order.id", at_least=True)),
        ("a -> b by key, at least one, in order", Each("a", "b", "key", at_least=True, in_order=True)),
        ("a -> b by key, exactly one", Each("a", "b", "key")),
    ],
)
def test_condition_is_understood_and_written_again(text: str, each: Each) -> None:
    assert parse_each(text) == each
    assert parse_each(str(each)) == each


@pytest.mark.parametrize(
    "text",
    [
        "",
        "orders",
        "orders -> invoices",
        "a -> b by luck",
        "a -> b by key, twice",
        "a -> b by key, exactly one, at least one",
    ],
)
def test_condition_that_is_not_understood(text: str) -> None:
    with pytest.raises(UsageError, match="--each"):
        parse_each(text)


def test_one_invoice_for_each_order_is_right() -> None:
    assert check_each(BY_KEY, done(*INVOICES)) == []


def test_second_invoice_is_found_and_a_retry_of_its_producer_does_not_count() -> None:
    second = message("invoices", 3, "another id", "order-1")
    (broken,) = check_each(BY_KEY, done(*INVOICES, second))
    assert "order-1: 2 messages" in broken.evidence[0]
    assert set(broken.message_ids) == {"invoice-id-1", "another id", "order-id-1"}
    copy = message("invoices", 3, "invoice-id-1", "order-1")
    assert check_each(BY_KEY, done(*INVOICES, copy)) == []
    assert check_each(parse_each("orders -> invoices by key, at least one"), done(*INVOICES, second)) == []


def test_missing_invoice_is_lost_only_if_the_order_counts_as_consumed() -> None:
    (broken,) = check_each(BY_KEY, done(*INVOICES[:2]))
    assert broken.message_ids == ("order-id-2",)
    still_open = done(*INVOICES[:2], committed=2)
    assert check_each(BY_KEY, still_open) == []
    assert undecided(BY_KEY, still_open) == 1


def test_missing_invoice_of_a_dead_letter_is_not_lost() -> None:
    dead = event("died", "%DLQ%billing", 0, messageId="order-id-2", originTopic="orders")
    assert check_each(BY_KEY, run([delivered(0, 3), dead], [commit(3)], [*ORDERS, *INVOICES[:2]])) == []


def test_nothing_is_concluded_where_no_group_consumes() -> None:
    assert check_each(BY_KEY, run([], [], [*ORDERS, *INVOICES[:2]])) == []


def test_order_within_a_queue() -> None:
    each = parse_each("orders -> invoices by key, in order")
    swapped = [
        message("invoices", n, f"invoice-id-{n}", key) for n, key in enumerate(("order-1", "order-0", "order-2"))
    ]
    assert check_each(BY_KEY, done(*swapped)) == []
    (broken,) = check_each(each, done(*swapped))
    assert "invoices has order-1 before order-0" in broken.words
    assert check_each(each, done(*INVOICES)) == []


@pytest.mark.parametrize(
    ("body", "value"), [(b'{"a": [{"b": 7}]}', "7"), (b'{"a": []}', None), (b"no json", None), (b'{"a": {}}', None)]
)
def test_value_in_a_json_body(body: bytes, value: str | None) -> None:
    assert Each("a", "b", "body:a.0.b").value(message("a", 0, "1", body=body)) == value


def test_condition_that_matches_nothing_gives_the_reason() -> None:
    assert "nothing was stored in bills (topics with messages: orders)" in str(
        no_match(parse_each("orders -> bills by key"), done())
    )
    assert no_match(BY_KEY, done(*INVOICES)) is None
    by_shop = parse_each("orders -> invoices by property shop")
    assert no_match(by_shop, done(*INVOICES)) == "no message of orders has a property shop"
