"""Stretches of logical queues: what the response to a pull of one means, and which mappings are accepted."""

from typing import Any

import pytest
from msgspec.structs import replace

from staticfire.broker.static_topics.acceptance import accepted, check_target
from staticfire.broker.static_topics.mapping import following, holding, led_queues, logical, physical, queues_needed
from staticfire.broker.static_topics.pulling import logical_answer, physical_pull, stretch_of
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.requests.pull import FLAG_COMMIT_OFFSET, FLAG_SUSPEND, PullAnswer, PullMessage
from staticfire.protocol.requests.static_topics import MappingDetail, MappingItem
from staticfire.protocol.requests.topics import TopicConfig

FOUND, NOT_FOUND, RETRY, MOVED = 0, 19, 20, 21
FIRST, MIDDLE, LAST = MappingItem(0, 1, "a", 0), MappingItem(1, 0, "b", 100), MappingItem(2, 5, "a", 200)
ITEMS = [FIRST, MIDDLE, LAST]
UNDECIDED = MappingItem(2, 5, "a", -1)


def test_offsets_are_translated_there_and_back() -> None:
    assert [logical(item, 3) for item in ITEMS] == [3, 103, 203]
    assert [physical(item, offset) for item, offset in zip(ITEMS, (3, 103, 203), strict=True)] == [3, 3, 3]
    assert logical(UNDECIDED, 3) == -1
    assert logical(MappingItem(0, 0, "a", 50, start_offset=7), 5) == 50


@pytest.mark.parametrize(("offset", "gen"), [(-1, 0), (0, 0), (99, 0), (100, 1), (199, 1), (200, 2), (999, 2)])
def test_an_offset_is_in_one_stretch(offset: int, gen: int) -> None:
    assert holding(ITEMS, offset).gen == gen


def test_an_undecided_stretch_follows_nothing_and_holds_nothing() -> None:
    items = [FIRST, MIDDLE, UNDECIDED]
    assert following(ITEMS, MIDDLE) == LAST
    assert following(items, MIDDLE) is None
    stretch = stretch_of(items, 500)
    assert (stretch.item, stretch.is_last) == (MIDDLE, False)


@pytest.mark.parametrize(
    ("items", "pulled", "code", "bounds", "expected"),
    [
        pytest.param(ITEMS, 203, FOUND, (5, 0, 9), (FOUND, 205, 200, 209), id="found"),
        pytest.param(ITEMS, 209, NOT_FOUND, (9, 0, 9), (NOT_FOUND, 209, 200, 209), id="the end"),
        pytest.param(ITEMS, 212, MOVED, (9, 0, 9), (MOVED, 209, 200, 209), id="beyond the end"),
        pytest.param(ITEMS, 202, MOVED, (4, 4, 9), (RETRY, 204, 204, 209), id="removed from the last"),
        pytest.param(ITEMS, 102, MOVED, (4, 4, 9), (RETRY, 104, 104, 200), id="removed from the middle"),
        pytest.param(ITEMS, 2, MOVED, (4, 4, 9), (MOVED, 4, 4, 200), id="removed from the first"),
        pytest.param(ITEMS, 9, NOT_FOUND, (9, 4, 9), (RETRY, 100, 100, 200), id="the end of the first"),
        pytest.param(ITEMS, 150, MOVED, (9, 0, 9), (RETRY, 200, 200, 200), id="beyond the end of the middle"),
        pytest.param([FIRST, MIDDLE, UNDECIDED], 150, MOVED, (9, 0, 9), (NOT_FOUND, 109, 100, 109), id="undecided"),
        pytest.param(ITEMS, 105, RETRY, (8, 0, 9), (RETRY, 108, 100, 200), id="nothing wanted there"),
        pytest.param(ITEMS, 105, 1, (0, 0, 0), (1, 0, 0, 0), id="a refusal"),
    ],
)
def test_an_answer_is_about_the_logical_queue(
    items: list[MappingItem], pulled: int, code: int, bounds: tuple[int, int, int], expected: tuple[int, ...]
) -> None:
    stretch = stretch_of(items, pulled)
    answer = logical_answer(PullAnswer(0, *bounds, code=code), stretch)
    assert (answer.code, answer.next_begin_offset, answer.min_offset, answer.max_offset) == expected


def test_only_the_last_stretch_lets_a_pull_wait_and_takes_its_commit() -> None:
    flags = FLAG_SUSPEND | FLAG_COMMIT_OFFSET
    request = PullMessage("g", "t", 3, 203, 32, flags, 202, 15_000)
    last = stretch_of(ITEMS, 203)
    pull = physical_pull(request, last)
    assert (pull.queue_id, pull.queue_offset, pull.commit_offset, pull.sys_flag) == (5, 3, 2, flags)
    first = stretch_of(ITEMS, 3)
    pull = physical_pull(replace(request, queue_offset=3), first)
    assert (pull.queue_id, pull.queue_offset, pull.sys_flag, pull.bname, pull.lo) == (1, 3, 0, "a", False)


def detail(items: list[MappingItem], **changes: Any) -> MappingDetail:
    fields = {"topic": "t", "bname": "a", "total_queues": 1, "epoch": 5, "hosted_queues": {0: items}}
    return MappingDetail(**{**fields, **changes})


def test_a_broker_leads_what_ends_with_it() -> None:
    assert led_queues(detail(ITEMS)) == {0: 5}
    assert led_queues(detail(ITEMS[:2])) == {}
    assert queues_needed(detail(ITEMS)) == 6
    assert queues_needed(detail([MIDDLE])) == 0


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([], "mapped to nothing"),
        ([replace(FIRST, queue_id=-1)], "can't be below 0"),
        ([replace(FIRST, end_offset=3, start_offset=5)], "before its start"),
        ([FIRST, replace(MIDDLE, gen=0)], "must be larger"),
        ([replace(FIRST, logic_offset=-1), MIDDLE], "only the last one may omit it"),
        ([replace(FIRST, end_offset=100), MIDDLE], "not after 100"),
        ([FIRST] * 1_001, "the limit is 1000"),
    ],
)
def test_a_queue_that_can_not_be_is_refused(items: list[MappingItem], words: str) -> None:
    with pytest.raises(BrokerAnswer, match=words):
        accepted(None, detail(items), force=True)


@pytest.mark.parametrize(
    ("items", "epoch", "words"),
    [
        ([FIRST, MIDDLE, replace(LAST, bname="b")], 6, "can't be changed"),
        ([FIRST, replace(MIDDLE, queue_id=7), LAST], 6, "can't be changed"),
        ([FIRST, replace(MIDDLE, logic_offset=101), LAST], 6, "can't be changed"),
        ([*ITEMS, MappingItem(3, 0, "b", 300)], 5, "newer epoch"),
    ],
)
def test_what_was_mapped_stays_unless_it_is_forced(items: list[MappingItem], epoch: int, words: str) -> None:
    old, new = detail(ITEMS), detail(items, epoch=epoch)
    with pytest.raises(BrokerAnswer, match=words):
        accepted(old, new, force=False)
    assert accepted(old, new, force=True) == new


def test_a_newer_mapping_may_leave_queues_out_decide_offsets_and_drop_old_stretches() -> None:
    old = detail([*ITEMS[:2], UNDECIDED])
    assert accepted(old, detail([MIDDLE, LAST]), force=False).hosted_queues == {0: [MIDDLE, LAST]}
    assert accepted(old, detail([], epoch=6, hosted_queues={}), force=False).hosted_queues == old.hosted_queues


def test_a_mapping_needs_the_queues_that_it_names() -> None:
    with pytest.raises(BrokerAnswer, match="can't have 5 to read"):
        check_target(detail(ITEMS), "t", "a", TopicConfig("t", 5, 6))
    check_target(detail(ITEMS), "t", "a", TopicConfig("t", 6, 6))
    with pytest.raises(BrokerAnswer, match="7 isn't one of them"):
        check_target(detail([], hosted_queues={7: [FIRST]}), "t", "a", TopicConfig("t", 6, 6))
