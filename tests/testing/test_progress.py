"""When a group has consumed what it should, by what brokers and members say."""

import pytest

from staticfire.client import GroupMember, GroupView, HeldQueue, MessageQueue, QueueProgress
from staticfire.testing.progress import ends_of_returned, left_text, queues_left

QUEUE = MessageQueue("orders", "broker-a", 0)


def member(consumed: int | None) -> GroupMember:
    held = [] if consumed is None else [HeldQueue("orders", "broker-a", 0, consumed, 0, False, 0)]
    return GroupMember("client", "127.0.0.1:1", "JAVA", "V5_3_3", queues=held)


def view(committed: int | None, *members: int | None, model: str = "CLUSTERING") -> GroupView:
    progress = [] if committed is None else [QueueProgress("orders", "broker-a", 0, committed, 9, 0, 0, [])]
    return GroupView("billing", ["broker-a"], message_model=model, members=[*map(member, members)], progress=progress)


@pytest.mark.parametrize(
    ("end", "group", "consumed"),
    [
        (0, None, None),
        (0, view(None), None),
        (3, None, -1),
        (3, view(None), -1),
        (3, view(2), 2),
        (3, view(3), None),
        (3, view(5), None),
        (3, view(0, 2), 2),
        (3, view(0, 3), None),
        (3, view(-1, None, 3), None),
        (3, view(3, 1), None),  # a member that is new and has read nothing yet
        (3, view(3, 3, 2, model="BROADCASTING"), 2),
        (3, view(0, 3, 3, model="BROADCASTING"), None),
        (3, view(3, 3, None, model="BROADCASTING"), -1),
        (3, view(3, model="BROADCASTING"), -1),
    ],
)
def test_what_is_left(end: int, group: GroupView | None, consumed: int | None) -> None:
    left = queues_left({QUEUE: end}, group)
    assert [one.consumed for one in left] == ([] if consumed is None else [consumed])


@pytest.mark.parametrize(
    ("end", "committed", "unacknowledged", "working_from", "count"),
    [
        (3, 3, 2, 1, 2),
        (3, 2, 1, 0, 2),
        (3, 3, 2, -1, 0),  # a push consumer failed with both: they wait for their next try
        (3, 5, 2, 3, 0),  # sent after those that are waited for
    ],
)
def test_what_is_popped_is_left_until_it_is_acknowledged_or_has_failed(
    end: int, committed: int, unacknowledged: int, working_from: int, count: int
) -> None:
    group = view(None)
    group.progress = [
        QueueProgress(
            *QUEUE, committed, 9, unacknowledged, 0, [], True,
            unacknowledged=unacknowledged, working_from=working_from,
        )
    ]  # fmt: skip
    assert sum(one.count for one in queues_left({QUEUE: end}, group)) == count


def test_what_comes_again_is_that_of_the_topic_that_is_waited_for() -> None:
    names = ("%RETRY%billing_orders", "%RETRY%billing+orders", "%RETRY%billing_refunds", "orders")
    group = view(None)
    group.progress = [QueueProgress(name, "broker-a", 0, 0, 4, 0, 0, []) for name in names]
    assert ends_of_returned("orders", group) == {MessageQueue(name, "broker-a", 0): 4 for name in names[:2]}
    assert ends_of_returned("orders", None) == {}


def test_what_is_left_is_said_with_places() -> None:
    ends = {MessageQueue("orders", "broker-a", number): 2 for number in range(10)}
    words = left_text(queues_left(ends, view(0)))
    assert words.startswith("20 left (orders broker-a/0: 2, orders broker-a/1: 2,")
    assert words.endswith("and 2 more queues)")
