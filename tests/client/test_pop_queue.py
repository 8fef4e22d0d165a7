"""What is done next about queues that are popped, and what becomes of their messages."""

from typing import Any

import pytest

from staticfire.client import ConsumeContext, ConsumeStatus, MessageQueue, PushSettings
from staticfire.client.cluster.subscriptions import Subscriptions, subscribe
from staticfire.client.consume.popping.pop_policy import Acknowledge, Bury, LeaveAlone, PutOff, judge_failed
from staticfire.client.consume.popping.pop_queue import PopQueue
from staticfire.client.consume.queues.consumer_state import ConsumerState
from staticfire.client.consume.queues.instructions import (
    Ack,
    Announce,
    Count,
    Deliver,
    GiveBack,
    GiveUp,
    Instructions,
    Pop,
    PutBack,
    Tell,
    Wait,
)
from staticfire.client.pop.popped import PoppedMessage, PopResult, PopStatus
from staticfire.protocol.errors import AnswerTimeout, BrokerAnswer, StaticfireError, TopicNotFound
from staticfire.protocol.hosts import pack_host
from staticfire.protocol.pop_handles import PopHandle
from staticfire.protocol.properties import format_properties
from staticfire.protocol.record import decode_record, pack_record, pack_topic
from staticfire.protocol.times import MessageMs, UptimeMs

QUEUE = MessageQueue("orders", "broker-a", -1)
HOST = pack_host("10.0.0.2", 10911)
NOW = UptimeMs(100_000)
HELD_MS = 15_000
HOUR_MS = 3_600_000

pytestmark = pytest.mark.row("G2")


def message(queue_offset: int = 0, reconsume_times: int = 0, tags: str = "", born_ms: int = 0) -> PoppedMessage:
    properties = format_properties({"TAGS": tags} if tags else {})
    packed = pack_record(
        0, 0, queue_offset, 1, born_ms, 0, 0, reconsume_times, 0, HOST, pack_topic("orders"), properties, b"body"
    )
    popped = PoppedMessage(decode_record(packed), "broker-a", HOST)
    popped.handle = PopHandle(0, 1, 60_000, 0, 0, "broker-a", 0, queue_offset)
    popped.invisible_until_ms = UptimeMs(NOW + 60_000)
    return popped


def found(*messages: PoppedMessage) -> PopResult:
    return PopResult(PopStatus.FOUND, list(messages))


NOTHING = PopResult(PopStatus.POLLING_NOT_FOUND, [])
FULL = PopResult(PopStatus.POLLING_FULL, [])


class Stand:
    """A consumer with one queue that it pops, at a time that the test says."""

    def __init__(self, expression: str = "*", **settings: Any) -> None:
        subscriptions = Subscriptions()
        subscriptions.put(subscribe("orders", expression, "TAG", MessageMs(1)))
        chosen = PushSettings(client_rebalance=False, **settings)
        self.state = ConsumerState("billing", chosen, subscriptions, topic_retry_ms=1_000)
        self.queue = PopQueue(QUEUE, self.state, NOW)
        assert kinds(self.queue.assigned(NOW)) == [Pop]

    def popped(self, result: PopResult, after_ms: int = HELD_MS) -> Instructions:
        return self.queue.popped(result, UptimeMs(NOW + after_ms))

    def failed(self, error: StaticfireError) -> Instructions:
        return self.queue.pop_failed(error, NOW)


def kinds(instructions: Instructions) -> list[type]:
    return [type(one) for one in instructions]


def test_what_was_popped_is_delivered_and_the_next_pop_leaves_at_once() -> None:
    stand, one = Stand(), message()
    delivered, pop = stand.popped(found(one), after_ms=1)
    assert isinstance(delivered, Deliver)
    assert (list(delivered.messages), type(pop), len(stand.queue.cache)) == ([one], Pop, 1)


def test_a_pop_that_was_held_in_vain_is_sent_again() -> None:
    assert kinds(Stand().popped(NOTHING)) == [Pop]


@pytest.mark.parametrize(("result", "pause_ms"), [(NOTHING, 50), (found(), 50), (FULL, 3_000)])
def test_an_answer_that_brings_nothing_at_once_is_followed_by_a_pause(result: PopResult, pause_ms: int) -> None:
    stand = Stand()
    assert stand.popped(result, after_ms=1) == [Wait(UptimeMs(NOW + 1 + pause_ms))]
    assert kinds(stand.queue.time(UptimeMs(NOW + pause_ms))) == [Wait], "too early"
    assert kinds(stand.queue.time(UptimeMs(NOW + 1 + pause_ms))) == [Pop]


def test_messages_of_another_tag_with_the_same_hash_code_are_acknowledged_unseen() -> None:
    stand = Stand("AaAa")
    wanted, other = message(1, tags="AaAa"), message(2, tags="BBBB")
    ack, delivered, _ = stand.popped(found(other, wanted))
    assert isinstance(ack, Ack)
    assert isinstance(delivered, Deliver)
    assert ([*ack.messages], [*delivered.messages], len(stand.queue.cache)) == ([other], [wanted], 1)


def test_a_full_queue_pops_again_when_half_of_it_is_done() -> None:
    stand = Stand(pop_threshold_for_queue=4)
    held = [message(number) for number in range(5)]
    assert kinds(stand.popped(found(*held))) == [Deliver, Wait]
    assert kinds(stand.queue.done(held[:2], NOW)) == [Ack]
    assert kinds(stand.queue.let_go(held[2:3], NOW)) == [Pop], "what has failed makes room as well"


def test_a_message_that_comes_again_while_it_is_held_is_another_one() -> None:
    stand, first, again = Stand(), message(3), message(3)
    stand.popped(found(first, again))
    stand.queue.done([first], NOW)
    assert (len(stand.queue.cache), stand.queue.cache.bytes) == (1, 4)


def test_a_suspended_consumer_consumes_what_is_here_and_pops_no_more_until_it_is_resumed() -> None:
    stand = Stand()
    stand.state.is_suspended = True
    assert kinds(stand.popped(found(message()))) == [Deliver]
    stand.state.is_suspended = False
    assert kinds(stand.queue.hurry(NOW)) == [Pop]


def test_a_queue_that_is_given_away_pops_no_more_and_its_messages_still_count() -> None:
    stand, one, late = Stand(), message(1), message(2)
    stand.popped(found(one))
    assert kinds(stand.queue.revoked()) == [Tell]
    assert kinds(stand.popped(found(late))) == [Deliver], "of a pop that was under way"
    assert kinds(stand.queue.done([one, late], NOW)) == [Ack]
    assert stand.queue.time(UptimeMs(NOW + HOUR_MS)) == stand.queue.hurry(NOW) == []


def test_a_consumer_that_leaves_puts_back_what_isnt_done() -> None:
    stand, done, waiting, late = Stand(), message(1), message(2), message(3)
    stand.popped(found(done, waiting))
    stand.queue.done([done], NOW)
    stand.state.is_over = True
    assert stand.queue.left() == [PutBack([waiting])]
    assert stand.popped(found(late)) == [PutBack([late])]
    assert stand.popped(NOTHING) == stand.failed(AnswerTimeout("x")) == []


def test_what_comes_for_a_topic_that_is_no_longer_subscribed_is_put_back() -> None:
    stand, one = Stand(), message()
    stand.state.subscriptions.by_topic.clear()
    assert stand.popped(found(one)) == [PutBack([one])]


@pytest.mark.parametrize("dead_letters", [True, False])
def test_a_message_that_came_once_more_than_it_may_isnt_delivered(dead_letters: bool) -> None:
    stand, last, spent = Stand(pop_dead_letters=dead_letters), message(1, 16), message(2, 17)
    up, delivered, _ = stand.popped(found(spent, last))
    assert isinstance(delivered, Deliver)
    assert (up, [*delivered.messages]) == (GiveUp([spent]), [last])


@pytest.mark.parametrize(
    ("error", "wanted", "pause_ms"),
    [
        (BrokerAnswer(215, "busy"), [], 20),
        (BrokerAnswer(26, "no group"), [Announce, Tell], 3_000),
        (TopicNotFound(17, "gone"), [Announce, Tell], 1_000),
    ],
)
def test_a_pop_that_fails(error: StaticfireError, wanted: list[type], pause_ms: int) -> None:
    out = Stand().failed(error)
    assert kinds(out) == [*wanted, Wait]
    assert out[-1] == Wait(UptimeMs(NOW + pause_ms))


def test_a_topic_that_is_gone_is_reported_once() -> None:
    stand = Stand()
    gone = TopicNotFound(17, "gone")
    assert [Tell in kinds(stand.failed(gone)) for _ in range(3)] == [True, False, False]
    stand.popped(found(message()))
    assert Tell in kinds(stand.failed(gone))


# -- answers of listeners ----------------------------------------------------------------------------------------------


def test_answers_of_listeners() -> None:
    policy, messages = Stand().queue.policy, (message(1), message(2), message(3))
    context = ConsumeContext(QUEUE)
    assert policy.answered(messages, ConsumeStatus.CONSUME_SUCCESS, context) == [Count(messages)]
    assert policy.answered(messages, ConsumeStatus.RECONSUME_LATER, context) == [GiveBack(messages, 0)]
    context.ack_index, context.delay_level_when_next_consume = 0, 4
    assert policy.answered(messages, ConsumeStatus.CONSUME_SUCCESS, context) == [
        Count(messages[:1]), GiveBack(messages[1:], 4),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("times", "level", "wanted"),
    [
        (0, 0, PutOff(10_000)),
        (1, 0, PutOff(30_000)),
        (15, 0, PutOff(7_200_000)),
        (0, 3, PutOff(120_000)),
        (0, 99, PutOff(7_200_000)),
        (16, 0, Bury()),
        (16, 3, Bury()),
        (0, -1, Bury()),
    ],
)
def test_when_a_failed_message_comes_again(times: int, level: int, wanted: object) -> None:
    assert judge_failed(message(0, times), level, PushSettings(), MessageMs(0), NOW) == wanted


@pytest.mark.parametrize(
    ("age_ms", "wanted"),
    [
        (0, PutOff(10_000)),
        (10_000, PutOff(30_000)),
        (HOUR_MS, PutOff(7_200_000)),
        (4 * HOUR_MS, PutOff(7_200_000)),
        (4 * HOUR_MS + 1, Acknowledge()),
    ],
)
def test_rocketmqs_way_with_a_message_that_has_failed_too_often(age_ms: int, wanted: object) -> None:
    settings = PushSettings(pop_dead_letters=False)
    assert judge_failed(message(0, 16, born_ms=5), 0, settings, MessageMs(5 + age_ms), NOW) == wanted


def test_a_message_whose_time_is_over_is_left_alone() -> None:
    late = message()
    assert judge_failed(late, 0, PushSettings(), MessageMs(0), late.invisible_until_ms) == LeaveAlone()
