"""What is done next about one queue that a consumer owns. Sans-IO: events come in with the time, instructions go out.

Here, and nowhere else, it is decided whether a queue is pulled again, when, and from where; what of an answer counts;
when a queue that is given away may leave. `queue_driver.py` has the connections and timers, `concurrent_consumption.py`
and `ordered_consumption.py` the listeners; they tell this object what happened and carry out what it says.

    event                      while         then
    assigned                   -             pull
    pulled                     UNDER WAY     deliver what is new, pull again; of an answer that isn't for now (another
                                             subscription since, suspended): only pull again, from the same offset
    pull_failed                UNDER WAY     pause; forgotten by the broker: announce; no such topic: drop
    done                       any           commit; PAUSED because it was full, and half of it is free: pull
    time                       PAUSED, due   pull
    hurry                      PAUSED        pull
    revoked, offset illegal,   any           DROPPED: nothing of it is delivered or counted any more; leave as soon as
    topic lost, lock lost                    nobody is busy with it, or when the time has come

"pull" means: look whether that may be. A consumer that is suspended, a lock that isn't trusted, a full cache, a topic
that isn't wanted are PAUSED instead. There is at most one pull under way; an event that comes too late finds DROPPED
and leads to nothing.

What is the same however messages are consumed stands here. The rest is the business of a policy that a queue is given:
`concurrent_policy.py` (any order), `ordered_policy.py` (in order, under a lock).
"""

import math
from collections.abc import Mapping
from typing import Generic, TypeVar

from staticfire.client.cluster.namespaces import Namespace
from staticfire.client.cluster.pull_answers import PullResult, PullStatus
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.routes import MASTER_ID
from staticfire.client.cluster.subscriptions import Subscription
from staticfire.client.consume.queues.consumer_state import ConsumerState
from staticfire.client.consume.queues.instructions import (
    Commit,
    ForgetOffset,
    Instructions,
    Leave,
    Pull,
    Tell,
    Wait,
    tell,
)
from staticfire.client.consume.queues.policy import Policy
from staticfire.client.consume.queues.process_queue import ProcessQueue
from staticfire.client.consume.queues.pull_failures import judge_failure
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.names import is_retry_topic
from staticfire.protocol.properties import RETRY_TOPIC
from staticfire.protocol.times import UptimeMs

TOLD_EVERY = 1_000
# Pauses of a queue that is full: one in so many is told.
NEVER = math.inf


P = TypeVar("P", bound=Policy)


class AssignedQueue(Generic[P]):
    """One queue, from when it is taken until it has left. Each event returns what is to be done, in this order."""

    def __init__(
        self, queue: MessageQueue, cache: ProcessQueue, policy: P, state: ConsumerState, uptime_ms: UptimeMs
    ) -> None:
        """`cache`: empty, where the queue starts; the policy has the same."""
        self.queue = queue
        self.cache = cache
        self.policy = policy
        self.is_dropped = False
        """It is no longer ours: what it holds isn't consumed, and results of what is being consumed are ignored."""
        self.tally = state.statistics.tally(queue.topic)
        """Where it is noted how fast its topic is consumed."""
        self.finished: list[ReceivedMessage] = []
        """Done, and not yet told: one event for many costs little more than one for a single message."""
        self.last_pull_ms = uptime_ms
        self.next_offset = cache.next_offset
        """Where the next pull starts."""
        self.max_offset = -1
        """Where the queue ended when it was pulled last."""
        self._state = state
        self._is_retry = is_retry_topic(queue.topic)  # Its messages get their own topic back.
        self._asked: Subscription | None = None  # What the pull under way left with.
        self._broker_id = MASTER_ID
        self._paused_until_ms: float | None = None
        self._is_full = False
        self._full_times = 0
        self._departure = Departure()

    # -- pulling -------------------------------------------------------------------------------------------------

    def assigned(self, uptime_ms: UptimeMs) -> Instructions:
        """Begin."""
        out: Instructions = []
        self._decide_pull(out, uptime_ms)
        return out

    def _decide_pull(self, out: Instructions, uptime_ms: UptimeMs) -> None:
        """Pull again, or find out why not and until when."""
        state = self._state
        self._paused_until_ms, self._is_full = None, False
        if self._asked is not None or self.is_dropped or state.is_over:
            return  # Beside one that is under way another would bring the same messages, and go on for good.
        settings = state.settings
        self.last_pull_ms = uptime_ms
        if state.is_paused(self.queue):
            self._paused_until_ms = NEVER
            return
        if not self.policy.is_trusted(uptime_ms):
            self._pause(out, uptime_ms, settings.pull_error_pause_ms)
            return
        reason = state.flow.fullness(self.cache, self.policy.is_in_order)
        if reason is not None:
            self._wait_for_room(out, uptime_ms, reason)
            return
        subscription = state.wanted.get(self.queue.topic)
        if subscription is None:
            self._pause(out, uptime_ms, settings.pull_error_pause_ms)
            return
        self._asked = subscription
        out.append(Pull(self.next_offset, self._broker_id, subscription))

    def _wait_for_room(self, out: Instructions, uptime_ms: UptimeMs, reason: str) -> None:
        self._is_full = True
        self._full_times += 1
        if self._full_times % TOLD_EVERY == 1:
            out.append(tell("pull_waits_for_room", queue=str(self.queue), reason=reason, times=self._full_times))
        self._pause(out, uptime_ms, self._state.settings.flow_control_pause_ms)

    def _pause(self, out: Instructions, uptime_ms: UptimeMs, pause_ms: int) -> None:
        self._paused_until_ms = until_ms = UptimeMs(uptime_ms + pause_ms)
        out.append(Wait(until_ms))

    def hurry(self, uptime_ms: UptimeMs) -> Instructions:
        """End a pause, if there is one."""
        out: Instructions = []
        if self._paused_until_ms is not None:
            self._decide_pull(out, uptime_ms)
        return out

    def connected(self, uptime_ms: UptimeMs) -> Instructions:
        """Decide anew: the pull under way had no connection and hasn't left; now there is one."""
        self._asked = None
        return self.assigned(uptime_ms)

    # -- after a pull --------------------------------------------------------------------------------------------

    def pulled(self, result: PullResult, uptime_ms: UptimeMs) -> Instructions:
        """Take in an answer."""
        asked, self._asked = self._asked, None
        state = self._state
        out: Instructions = []
        if self.is_dropped or state.is_over:
            return out
        if state.is_paused(self.queue) or state.wanted.get(self.queue.topic) is not asked:
            # The broker may have filtered by either subscription, and an answer doesn't say by which: what it goes
            # past isn't known to be unwanted.
            self._decide_pull(out, uptime_ms)
            return out
        self._broker_id = result.suggested_broker_id
        self.max_offset = result.max_offset
        if result.status is PullStatus.OFFSET_ILLEGAL:
            self._correct(out, result.next_offset, uptime_ms, result.is_reset)
            return out
        is_found = result.status is PullStatus.FOUND
        if is_found and result.messages:
            self._found(out, result, uptime_ms)
        else:
            self._passed(out, result.next_offset)
        if is_found and state.settings.pull_interval_ms:
            self._pause(out, uptime_ms, state.settings.pull_interval_ms)
        else:
            self._decide_pull(out, uptime_ms)
        return out

    def _found(self, out: Instructions, result: PullResult, uptime_ms: UptimeMs) -> None:
        messages, state = result.messages, self._state
        self.tally.pull_found(len(messages), uptime_ms - self.last_pull_ms)
        if (first := messages[0].record.queue_offset) < self.next_offset:
            out.append(tell("offsets_run_backwards", queue=str(self.queue), asked=self.next_offset, got=first))
        self.next_offset = result.next_offset
        name_topics(messages, self._is_retry, state)
        new = self.cache.put(messages, result.next_offset)
        if new:
            out += self.policy.pulled(new, uptime_ms)

    def _passed(self, out: Instructions, next_offset: int) -> None:
        """Go past messages that aren't wanted; with nothing in hand, the group has come that far."""
        self.next_offset = next_offset
        self.cache.advance(next_offset)
        if not self.cache:
            out.append(Commit(next_offset, is_drained=True))

    def pull_failed(self, error: StaticfireError, uptime_ms: UptimeMs) -> Instructions:
        """Tell what went wrong and try again later."""
        asked, self._asked = self._asked, None
        if self.is_dropped or self._state.is_over:
            return []
        failure = judge_failure(error, self.queue, self._state, asked)
        out = failure.instructions
        if failure.has_lost_broker:
            self._broker_id = MASTER_ID
        if failure.has_lost_topic:
            self._lose_topic(out, uptime_ms)
        else:
            self._pause(out, uptime_ms, failure.pause_ms)
        return out

    def may_consume(self, uptime_ms: UptimeMs) -> bool:
        """Whether the next message may go to the listener. Threads ask, too."""
        return not self.is_dropped and self.policy.is_trusted(uptime_ms)

    # -- results -------------------------------------------------------------------------------------------------

    def done(self, messages: list[ReceivedMessage], uptime_ms: UptimeMs) -> Instructions:
        """Let go of messages whose consumption is over, in whatever order."""
        return [] if self.is_dropped else self.removed(self.cache.remove(messages), uptime_ms)

    def removed(self, offset: int, uptime_ms: UptimeMs, may_go_back: bool = False) -> Instructions:
        """Commit what a removal from the cache led to, -1 for nothing, and pull if there was no room before it."""
        if offset < 0:
            return []
        out: Instructions = [Commit(offset, not self.cache, may_go_back)]
        if self._is_full and self._state.flow.has_room(self.cache, self.policy.is_in_order):
            self._decide_pull(out, uptime_ms)
        return out

    let_go = done  # Of messages that have failed, and that are somebody else's now.

    # -- time ----------------------------------------------------------------------------------------------------

    def time(self, uptime_ms: UptimeMs) -> Instructions:
        """Do what is due, and say when to come again."""
        out: Instructions = []
        if uptime_ms >= self._departure.at_ms:
            return self._departure.leave(self.policy.is_busy)
        if not self.is_dropped:
            if self._paused_until_ms is not None and uptime_ms >= self._paused_until_ms:
                self._decide_pull(out, uptime_ms)
            if uptime_ms >= self.policy.due_ms:
                out += self.policy.time(uptime_ms)
        due_ms = self._departure.at_ms
        if not self.is_dropped:
            due_ms = min(self._paused_until_ms or NEVER, self.policy.due_ms)
        if due_ms < NEVER:
            out.append(Wait(UptimeMs(int(due_ms))))
        return out

    # -- leaving -------------------------------------------------------------------------------------------------

    def revoked(self, uptime_ms: UptimeMs, at_once: bool = False, queue_offset: int | None = None) -> Instructions:
        """Give the queue away: now, or when nobody is busy with it any more.

        `at_once`: nobody can be waited for. `queue_offset`: where the next owner goes on, whatever counts until then.
        """
        out: Instructions = []
        if not self.is_dropped:
            self.policy.revoked(uptime_ms)
        self._drop(out)
        if queue_offset is not None:
            self._departure.queue_offset = queue_offset
        return out + self._departure.leave(self.policy.is_busy and not at_once)

    def turn_ended(self, pause_ms: int | None, uptime_ms: UptimeMs) -> Instructions:
        """Know that nobody is busy with it any more: it may leave now, or there is another turn."""
        may_go_on = self.may_consume(uptime_ms)
        out = self.policy.turn_ended(None if self.is_dropped else pause_ms, uptime_ms, may_go_on)
        return out + self._departure.leave(is_busy=False) if self._departure.waits_for_rest else out

    def _drop(self, out: Instructions) -> None:
        if not self.is_dropped:
            self.is_dropped = True
            fields = {"group": self._state.group, "queue": str(self.queue)}
            out.append(Tell("queue_dropped", fields, is_warning=False))

    def _correct(self, out: Instructions, next_offset: int, uptime_ms: UptimeMs, is_reset: bool) -> None:
        """Give up a queue whose offset is illegal, and put that right when nobody works on it any more.

        A consumer that commits nothing by itself goes on at once: what it has counts, unless the group was reset.
        """
        out.append(tell("offset_illegal", queue=str(self.queue), asked=self.next_offset, next=next_offset))
        if self._state.way.keeps_illegal:
            if is_reset:
                out.append(ForgetOffset())
                self._drop_for(out, uptime_ms, 0)
            elif next_offset == self.next_offset:
                self._pause(out, uptime_ms, self._state.settings.pull_error_pause_ms)
            else:
                self.next_offset = self.cache.next_offset = next_offset
                self._decide_pull(out, uptime_ms)
            return
        self.next_offset = self._departure.queue_offset = self.cache.corrected(next_offset)
        self._drop_for(out, uptime_ms, self._state.settings.offset_illegal_pause_ms)

    def _lose_topic(self, out: Instructions, uptime_ms: UptimeMs) -> None:
        """Forget a queue whose topic is gone, and let it be taken anew in a while: offsets may begin again at 0."""
        state, topic = self._state, self.queue.topic
        if topic not in state.lost_topics:
            state.lost_topics.add(topic)
            out.append(tell("topic_is_gone", group=state.group, topic=topic, broker=self.queue.broker_name))
        out.append(ForgetOffset())
        self._drop_for(out, uptime_ms, state.topic_retry_ms)

    def _drop_for(self, out: Instructions, uptime_ms: UptimeMs, pause_ms: int) -> None:
        """Drop now, leave after a pause; then the rebalance may take it anew."""
        self._drop(out)
        self._departure.at_ms = at_ms = UptimeMs(uptime_ms + pause_ms)
        out.append(Wait(at_ms))


def name_topics(messages: list[ReceivedMessage], is_retry: bool, state: ConsumerState) -> None:
    """Let messages have the topics that programs know. `is_retry`: they are out of the group's retries."""
    if is_retry:
        give_own_topics(messages, state.own_topics)
    if state.subscriptions.namespace.name:
        give_plain_names(messages, state.subscriptions.namespace)


def give_own_topics(messages: list[ReceivedMessage], own_topics: Mapping[str, str]) -> None:
    """Give retries the topic that they were sent to. `own_topics`: of topics of retries that belong to one each."""
    for message in messages:
        topic = message.get(RETRY_TOPIC) or message.topic
        message.topic = own_topics.get(topic, topic) if own_topics else topic


def give_plain_names(messages: list[ReceivedMessage], namespace: Namespace) -> None:
    """Take the namespace from the names of topics."""
    for message in messages:
        message.topic = namespace.unwrap(message.topic)


class Departure:
    """How a queue leaves: once, when it is time, and when nobody is busy with it any more."""

    def __init__(self) -> None:
        self.at_ms: float = NEVER
        self.queue_offset: int | None = None
        """What is stored for the next owner; None for what the group has come to."""
        self.waits_for_rest = False
        self._is_over = False

    def leave(self, is_busy: bool) -> Instructions:
        """Leave now, or when nobody is busy any more."""
        self.at_ms = NEVER
        if self._is_over:
            return []
        self.waits_for_rest = is_busy
        self._is_over = not is_busy
        return [] if is_busy else [Leave(self.queue_offset)]
