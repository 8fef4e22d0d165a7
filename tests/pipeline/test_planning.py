"""Plans: which messages are read, in which pieces, and what is lost."""

from hypothesis import given, strategies as st

from staticfire.client.cluster.queues import MessageQueue
from staticfire.pipeline.offsets import from_checkpoint, to_checkpoint
from staticfire.pipeline.pace import QUIET_MS, ROUTE_MS, PollPace
from staticfire.pipeline.planning import Loss, QueueEnds, QueueRange, limit_ends, plan_reads, split
from staticfire.protocol.times import UptimeMs

A0, A1, B0 = MessageQueue("orders", "a", 0), MessageQueue("orders", "a", 1), MessageQueue("orders", "b", 0)
QUEUES = [A0, A1, B0]

ranges_of_queues = st.fixed_dictionaries(
    {queue: st.tuples(st.integers(0, 10_000), st.integers(0, 10_000)).map(sorted) for queue in QUEUES}
)


def test_checkpoint_is_nested_by_topic_broker_and_queue() -> None:
    offsets = {MessageQueue("orders", "a", 10): 1, MessageQueue("orders", "a", 2): 5}
    assert to_checkpoint(offsets) == {"orders": {"a": {"2": 5, "10": 1}}}
    assert from_checkpoint(to_checkpoint(offsets)) == offsets


@given(ranges_of_queues, st.integers(1, 30_000))
def test_limit_is_met_exactly_and_in_proportion(ranges: dict[MessageQueue, list[int]], limit: int) -> None:
    starts = {queue: start for queue, (start, _) in ranges.items()}
    ends = {queue: end for queue, (_, end) in ranges.items()}
    total = sum(ends[queue] - starts[queue] for queue in QUEUES)
    limited = limit_ends(starts, ends, limit)
    assert sum(limited[queue] - starts[queue] for queue in QUEUES) == min(limit, total)
    for queue in QUEUES:
        assert starts[queue] <= limited[queue] <= ends[queue]
        part = (ends[queue] - starts[queue]) * min(limit, total) / max(1, total)
        assert abs(limited[queue] - starts[queue] - part) < 1


@given(ranges_of_queues, st.integers(0, 50))
def test_split_covers_every_message_once(ranges: dict[MessageQueue, list[int]], min_partitions: int) -> None:
    whole = [QueueRange(queue, start, end) for queue, (start, end) in ranges.items() if end > start]
    pieces = split(whole, min_partitions)
    assert all(piece.size > 0 for piece in pieces)
    at = {each.queue: each.start for each in whole}
    for queue, start, end in pieces:
        assert start == at[queue]
        at[queue] = end
    assert at == {each.queue: each.end for each in whole}
    assert len(pieces) >= len(whole)
    assert len(pieces) <= max(len(whole), min_partitions + len(whole))


def test_large_queue_is_split_and_a_small_one_is_not() -> None:
    pieces = split([QueueRange(A0, 0, 900), QueueRange(A1, 5, 6)], 4)
    assert [piece.size for piece in pieces] == [225, 225, 225, 225, 1]


def test_new_queue_begins_where_it_begins() -> None:
    plan = plan_reads({A0: 5}, {A0: 5, A1: 9}, {A0: QueueEnds(0, 5), A1: QueueEnds(3, 9)})
    assert plan == ([QueueRange(A1, 3, 9)], [])


def test_queue_whose_broker_is_away_is_waited_for() -> None:
    assert plan_reads({B0: 2}, {B0: 7}, {}) == ([QueueRange(B0, 2, 7)], [])


def test_messages_that_only_the_master_has_are_waited_for_while_it_is_away() -> None:
    slave = {A0: QueueEnds(0, 5, has_master=False)}
    assert plan_reads({A0: 3}, {A0: 10}, slave) == ([QueueRange(A0, 3, 10)], [])
    assert plan_reads({A0: 10}, {A0: 10}, slave) == ([], [])
    assert plan_reads({A0: 10}, {A0: 5}, slave) == ([], [])
    assert plan_reads({A0: 3}, {A0: 5}, slave) == ([QueueRange(A0, 3, 5)], [])


def test_removed_messages_are_a_loss_and_the_rest_is_read() -> None:
    there = QueueEnds(40, 60)
    plan = plan_reads({A0: 10}, {A0: 50}, {A0: there})
    assert plan == ([QueueRange(A0, 40, 50)], [Loss(A0, "offsets 10 to 50", there)])
    assert str(plan.losses[0]) == "orders a/0: wanted offsets 10 to 50, the broker has 40 to 60"


def test_end_behind_what_is_there_is_a_loss() -> None:
    there = QueueEnds(0, 60)
    assert plan_reads({A0: 10}, {A0: 90}, {A0: there}) == (
        [QueueRange(A0, 10, 60)],
        [Loss(A0, "offsets 10 to 90", there)],
    )


def test_queue_created_again_is_a_loss_and_is_read_from_its_begin() -> None:
    there = QueueEnds(0, 4)
    assert plan_reads({A0: 100}, {A0: 4}, {A0: there}) == (
        [QueueRange(A0, 0, 4)],
        [Loss(A0, "offset 100 and all that follow", there)],
    )


def test_nothing_wanted_is_no_loss_even_where_the_place_is_gone() -> None:
    assert plan_reads({A0: 10}, {A0: 10}, {A0: QueueEnds(40, 60)}) == ([], [])


def test_quiet_cluster_is_queried_seldom_and_a_busy_one_always() -> None:
    pace = PollPace()
    assert pace.wait_ms(UptimeMs(1_000)) == 0
    pace.queried(UptimeMs(1_000), changed=False)
    assert pace.wait_ms(UptimeMs(1_004)) == QUIET_MS - 4
    assert pace.wait_ms(UptimeMs(1_000 + QUIET_MS)) == 0
    pace.queried(UptimeMs(1_100), changed=True)
    assert pace.wait_ms(UptimeMs(1_100)) == 0


def test_list_of_queues_is_fetched_once_a_second() -> None:
    pace = PollPace()
    assert pace.may_ask_routes(UptimeMs(5))
    assert not pace.may_ask_routes(UptimeMs(5 + ROUTE_MS - 1))
    assert pace.may_ask_routes(UptimeMs(5 + ROUTE_MS))
