"""What is done next about one queue, event by event."""

import pytest

from staticfire.client.cluster.pull_answers import PullResult, PullStatus
from staticfire.client.consume.queues.instructions import (
    Announce,
    Commit,
    Deliver,
    FindBrokers,
    ForgetOffset,
    Leave,
    Pull,
    Tell,
    Wait,
)
from staticfire.protocol.errors import AnswerTimeout, BrokerAnswer, StaticfireError
from tests.client.queues import at, change, concurrent, found, kinds, ordered, state_of
from tests.client.received import several


def test_what_is_pulled_is_delivered_and_the_next_pull_leaves() -> None:
    queue = concurrent(state_of())
    [first] = queue.assigned(at(0))
    assert isinstance(first, Pull)
    assert first.queue_offset == 0
    deliver, again = queue.pulled(found(0, 1), at(1))
    assert isinstance(deliver, Deliver)
    assert isinstance(again, Pull)
    assert [message.queue_offset for message in deliver.messages] == [0, 1]
    assert again.queue_offset == 2
    [commit] = queue.done(several(0, 1), at(2))
    assert commit == Commit(2, is_drained=True)


def test_an_answer_to_another_subscription_is_pulled_again_from_the_same_offset() -> None:
    state = state_of()
    queue = concurrent(state)
    queue.assigned(at(0))
    change(state)
    [again] = queue.pulled(found(0, 1), at(1))
    assert isinstance(again, Pull)
    assert again.queue_offset == 0
    assert again.subscription is state.wanted["orders"]


def test_an_answer_to_a_suspended_consumer_is_pulled_again_when_it_resumes() -> None:
    state = state_of()
    queue = concurrent(state)
    queue.assigned(at(0))
    state.is_suspended = True
    assert queue.pulled(found(0, 1), at(1)) == []
    assert queue.time(at(10**9)) == []
    state.is_suspended = False
    [again] = queue.hurry(at(2))
    assert isinstance(again, Pull)
    assert again.queue_offset == 0


def test_there_is_one_pull_under_way_whatever_happens_meanwhile() -> None:
    """A second one would bring the same messages, and each would be followed by its own."""
    state = state_of()
    queue = concurrent(state)
    assert kinds(queue.assigned(at(0))) == [Pull]
    for out in (queue.hurry(at(1)), queue.assigned(at(2)), queue.time(at(10**6)), queue.done(several(0), at(3))):
        assert Pull not in kinds(out)
    assert kinds(queue.pulled(found(0, 1), at(4))) == [Deliver, Pull]
    assert kinds(queue.connected(at(5))) == [Pull], "that one never left"


def test_a_full_queue_is_pulled_again_as_soon_as_half_of_it_is_free() -> None:
    queue = concurrent(state_of())
    queue.assigned(at(0))
    assert kinds(queue.pulled(found(*range(13)), at(1))) == [Deliver, Tell, Wait]
    assert kinds(queue.done(several(*range(6)), at(2))) == [Commit]
    assert kinds(queue.done(several(6), at(2))) == [Commit, Pull]


def test_an_illegal_offset_is_stored_when_the_pause_is_over() -> None:
    queue = concurrent(state_of())
    queue.assigned(at(0))
    out = queue.pulled(PullResult(PullStatus.OFFSET_ILLEGAL, [], 70, 70, 90), at(1))
    assert kinds(out) == [Tell, Tell, Wait]
    assert queue.is_dropped
    assert queue.time(at(10_000)) == [Wait(at(10_001))]
    assert queue.time(at(10_001)) == [Leave(70)]
    assert queue.time(at(20_000)) == queue.revoked(at(20_000)) == []


@pytest.mark.parametrize(("end", "goes_on_at"), [(8, 5), (5, 5), (4, 4), (90, 90)])
def test_a_queue_that_has_become_shorter_continues_with_what_was_not_done(end: int, goes_on_at: int) -> None:
    """Of 5 to 9, which are held. A correction forward is for what retention has removed."""
    queue = concurrent(state_of())
    queue.assigned(at(0))
    queue.pulled(found(*range(5, 10)), at(1))
    queue.pulled(PullResult(PullStatus.OFFSET_ILLEGAL, [], end, 0, end), at(2))
    assert queue.time(at(20_000)) == [Leave(goes_on_at)]


@pytest.mark.parametrize(
    ("error", "then"),
    [
        (BrokerAnswer(215, "busy"), [Wait]),
        (BrokerAnswer(25, "not latest"), [Announce, Tell, Wait]),
        (BrokerAnswer(17, "no topic"), [Announce, Tell, ForgetOffset, Tell, Wait]),
        (BrokerAnswer(1, "no"), [Tell, Wait]),
        (AnswerTimeout("silence"), [Tell, FindBrokers, Wait]),
    ],
    ids=["flow control", "forgotten", "no topic", "refused", "silent"],
)
def test_a_pull_that_failed_is_tried_again_later(error: StaticfireError, then: list[type]) -> None:
    queue = concurrent(state_of())
    queue.assigned(at(0))
    out = queue.pull_failed(error, at(5))
    assert kinds(out) == then
    wait = out[-1]
    assert isinstance(wait, Wait)
    assert kinds(queue.time(wait.until_ms)) == ([Leave] if queue.is_dropped else [Pull])


def test_a_queue_whose_listener_runs_under_a_lock_leaves_when_that_has_ended() -> None:
    queue = ordered(state_of())
    queue.assigned(at(0))
    queue.pulled(found(0, 1), at(1))
    queue.policy.is_running = True
    queue.policy.take(1)
    assert Leave not in kinds(queue.revoked(at(2)))
    assert queue.policy.is_given_away
    assert queue.removed(queue.policy.commit(), at(3), may_go_back=True) == [Commit(1, False, True)]
    assert queue.turn_ended(None, at(3)) == [Leave(None)]
    assert queue.turn_ended(None, at(4)) == []


def test_the_offset_of_the_next_owner_may_be_set() -> None:
    queue = ordered(state_of())
    queue.assigned(at(0))
    queue.pulled(found(0, 1), at(1))
    queue.policy.is_running = True
    queue.revoked(at(2), queue_offset=70)
    assert queue.turn_ended(None, at(3)) == [Leave(70)]


def test_whoever_can_not_wait_takes_the_queue_away() -> None:
    queue = ordered(state_of())
    queue.assigned(at(0))
    queue.policy.is_running = True
    queue.revoked(at(1))
    assert queue.revoked(at(2), at_once=True) == [Leave(None)]


def test_without_its_lock_a_queue_is_neither_pulled_nor_consumed() -> None:
    queue = ordered(state_of())
    queue.assigned(at(0))
    queue.policy.distrust()
    out = queue.pulled(found(0), at(1))
    assert kinds(out) == [Deliver, Wait]
    assert not queue.may_consume(at(1))
    queue.policy.is_running = True
    assert queue.turn_ended(None, at(2)) == []
    queue.policy.lock_granted(at(3))
    assert queue.policy.next_turn() == Deliver()
    assert kinds(queue.hurry(at(4))) == [Pull]
