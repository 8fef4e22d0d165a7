"""What follows from a listener's answer."""

import pytest

from staticfire.client.consume.results.consume_results import ConsumeStatus, count_done, split_into_batches
from tests.client.received import several

SUCCESS, LATER = ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.RECONSUME_LATER


@pytest.mark.parametrize(
    ("status", "ack_index", "done"),
    [
        (SUCCESS, None, 10),
        (SUCCESS, 3, 4),
        (SUCCESS, 99, 10),
        (SUCCESS, -1, 0),
        (SUCCESS, -9, 0),
        (LATER, None, 0),
        (LATER, 3, 0),
    ],
)
def test_ack_index_counts_on_success_only(status: ConsumeStatus, ack_index: int | None, done: int) -> None:
    assert count_done(status, ack_index, 10) == done


@pytest.mark.parametrize(("ack_index", "done"), [(None, 0), (3, 4), (-1, 0), (99, 10)])
def test_as_an_option_it_counts_on_failure_too(ack_index: int | None, done: int) -> None:
    """A batch of 10 whose 5th fails retries 5 to 10."""
    assert count_done(LATER, ack_index, 10, later_honours_ack_index=True) == done


@pytest.mark.row("C1")
def test_a_pull_is_split_into_batches_in_order() -> None:
    messages = several(1, 2, 3, 4, 5)
    assert split_into_batches(messages, 1) == [(message,) for message in messages]
    assert split_into_batches(messages, 2) == [tuple(messages[:2]), tuple(messages[2:4]), tuple(messages[4:])]
    assert split_into_batches(messages, 9) == [tuple(messages)]
    assert split_into_batches([], 3) == []
