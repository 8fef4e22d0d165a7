"""Decides what to do next with one queue that a consumer owns. Sans-IO: events with times in, instructions out.

Only this module decides whether, when and from which offset a queue is pulled again, which part of a response counts,
and when a queue that is given away may leave. `queue_driver.py` has the connections and timers,
`concurrent_consumption.py` and `ordered_consumption.py` the listeners. They report events here and execute the
instructions.

    event                      while         then
    assigned                   -             pull
    pulled                     IN FLIGHT     deliver new messages, pull again; if the response is outdated (the
                                             subscription has changed, or the consumer is suspended): ignore it, and
                                             pull again from the same offset
    pull_failed                IN FLIGHT     pause; registration lost by the broker: announce; no such topic: drop
    done                       any           commit; if PAUSED because it was full, and half of it is free now: pull
    time                       PAUSED, due   pull
    hurry                      PAUSED        pull
    revoked, offset illegal,   any           DROPPED: nothing of it is delivered or counted any more; leave when no
    topic lost, lock lost                    worker is busy with it, or when the pause is over

"pull" means: check first whether a pull is allowed. If the consumer is suspended, the lock isn't trusted, the cache is
full, or the topic isn't subscribed, the queue is PAUSED instead. At most one pull is in flight. An event that arrives
too late finds the queue DROPPED, and has no effect.

This class contains what doesn't depend on the order of consumption. The rest is in the policy of the queue:
`concurrent_policy.py` (any order), `ordered_policy.py` (in order, under a lock).
"""

import math
from collections.abc import Mapping
from typing import Generic, TypeVar

from staticfire.client.cluster.namespaces import Namespace
from staticfire.client.cluster.pull_answers import PullResult, PullStatus
from staticfire.client.cluster.queues import MessageQueue
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
from staticfire.client.consume.queues.replica_in_use import LACKING_PAUSE_MS, ReplicaInUse
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.names import is_retry_topic
from staticfire.protocol.properties import RETRY_TOPIC
from staticfire.protocol.times import UptimeMs

# One in this many pauses of a full queue is logged.
TOLD_EVERY = 1_000
NEVER = math.inf


P = TypeVar("P", bound=Policy)


class AssignedQueue(Generic[P]):
    """One queue, from when it is taken until it has left. Each event returns the instructions to execute, in order."""

    def __init__(
        self, queue: MessageQueue, cache: ProcessQueue, policy: P, state: ConsumerState, uptime_ms: UptimeMs
    ) -> None:
        """`cache`: empty, at the queue's start offset; the policy uses the same object."""
        self.queue = queue
        self.cache = cache
        self.policy = policy
        self.is_dropped = False
        """Whether the queue is no longer owned: nothing of it is delivered, and results are ignored."""
        self.tally = state.statistics.tally(queue.topic)
        """The statistics of the queue's topic."""
        self.finished: list[ReceivedMessage] = []
        """Messages that are done but not yet reported: one event for many costs little more than for one."""
        self.last_pull_ms = uptime_ms
        self.start_offset = self.next_offset = cache.next_offset
        """Where consumption began, so that nothing below is needed; and the offset of the next pull."""
        self.max_offset = -1
        """The end of the queue at the last pull."""
        self._state = state
        self._is_retry = is_retry_topic(queue.topic)  # Retries get their original topic back.
        self._pulled_with: Subscription | None = None  # The subscription of the pull in flight.
        self.replica = ReplicaInUse(state.group, queue)
        self._paused_until_ms: float | None = None
        self._is_full = False
        self._full_times = 0
        self._departure = Departure()

    # -- pulling -------------------------------------------------------------------------------------------------

    def assigned(self, uptime_ms: UptimeMs) -> Instructions:
        """Begin to pull."""
        out: Instructions = []
        self._decide_pull(out, uptime_ms)
        return out

    def _decide_pull(self, out: Instructions, uptime_ms: UptimeMs) -> None:
        """Pull again; if that isn't allowed now, decide until when to pause."""
        state = self._state
        self._paused_until_ms, self._is_full = None, False
        if self._pulled_with is not None or self.is_dropped or state.is_over:
            return  # A second pull would bring the same messages, and both would be repeated for ever.
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
        self._pulled_with = subscription
        out.append(Pull(self.next_offset, self.replica.suggested, subscription))

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
        """End the current pause, if there is one."""
        out: Instructions = []
        if self._paused_until_ms is not None:
            self._decide_pull(out, uptime_ms)
        return out

    def connected(self, uptime_ms: UptimeMs) -> Instructions:
        """Decide again: the pull couldn't be sent without a connection, and now there is one."""
        self._pulled_with = None
        return self.assigned(uptime_ms)

    # -- after a pull --------------------------------------------------------------------------------------------

    def pulled(self, result: PullResult, uptime_ms: UptimeMs) -> Instructions:
        """Process a pull's response."""
        pulled_with, self._pulled_with = self._pulled_with, None
        state = self._state
        out: Instructions = []
        if self.is_dropped or state.is_over:
            return out
        if state.is_paused(self.queue) or state.wanted.get(self.queue.topic) is not pulled_with:
            # The response doesn't say which subscription it was filtered by, so messages that it skips may be wanted.
            self._decide_pull(out, uptime_ms)
            return out
        self.replica.suggested, self.max_offset = result.suggested_broker_id, result.max_offset
        is_there_already = result.is_reset and self.cache.is_at(result.next_offset)
        if result.status is PullStatus.OFFSET_ILLEGAL and not is_there_already:
            self._correct(out, result.next_offset, uptime_ms, result.is_reset)
            return out
        is_found = result.status is PullStatus.FOUND
        if (lack := self.replica.lack(result, self.next_offset)) is not None:
            self._pause(lack, uptime_ms, LACKING_PAUSE_MS)
            return lack
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
            out.append(tell("offsets_run_backwards", queue=str(self.queue), requested=self.next_offset, got=first))
        self.next_offset = result.next_offset
        name_topics(messages, self._is_retry, state)
        new = self.cache.put(messages, result.next_offset)
        if new:
            out += self.policy.pulled(new, uptime_ms)

    def _passed(self, out: Instructions, next_offset: int) -> None:
        """Skip filtered messages. If nothing is held, commit the new offset."""
        self.next_offset = next_offset
        self.cache.advance(next_offset)
        if not self.cache:
            out.append(Commit(next_offset, is_drained=True))

    def pull_failed(self, error: StaticfireError, uptime_ms: UptimeMs, answered_by: str = "") -> Instructions:
        """Log the problem and try again later. `answered_by`: the address of the broker that refused the pull."""
        pulled_with, self._pulled_with = self._pulled_with, None
        if self.is_dropped or self._state.is_over:
            return []
        failure = judge_failure(error, self.queue, self._state, pulled_with)
        out = failure.instructions
        self.replica.pull_failed(failure.has_lost_broker)
        if failure.has_lost_topic:
            self._lose_topic(out, uptime_ms, answered_by)
        else:
            self._pause(out, uptime_ms, failure.pause_ms)
        return out

    def may_consume(self, uptime_ms: UptimeMs) -> bool:
        """Whether the next message may be passed to the listener. Also called from threads."""
        return not self.is_dropped and self.policy.is_trusted(uptime_ms)

    # -- results -------------------------------------------------------------------------------------------------

    def done(self, messages: list[ReceivedMessage], uptime_ms: UptimeMs) -> Instructions:
        """Remove messages whose consumption is over, in any order."""
        return [] if self.is_dropped else self.removed(self.cache.remove(messages), uptime_ms)

    def removed(self, offset: int, uptime_ms: UptimeMs, may_go_back: bool = False) -> Instructions:
        """Commit the offset after a removal from the cache (-1: none), and pull if the queue was full before."""
        if offset < 0:
            return []
        out: Instructions = [Commit(offset, not self.cache, may_go_back)]
        if self._is_full and self._state.flow.has_room(self.cache, self.policy.is_in_order):
            self._decide_pull(out, uptime_ms)
        return out

    let_go = done  # For failed messages that a broker has accepted, or that are dropped.

    # -- time ----------------------------------------------------------------------------------------------------

    def time(self, uptime_ms: UptimeMs) -> Instructions:
        """Do what is due, and return when to be called next."""
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
        """Give the queue away: now, or when no worker is busy with it any more.

        `at_once`: don't wait for workers. `queue_offset`: where the next owner starts, whatever is committed before.
        """
        out: Instructions = []
        if not self.is_dropped:
            self.policy.revoked(uptime_ms)
        self._drop(out)
        if queue_offset is not None:
            self._departure.queue_offset = queue_offset
        return out + self._departure.leave(self.policy.is_busy and not at_once)

    def turn_ended(self, pause_ms: int | None, uptime_ms: UptimeMs) -> Instructions:
        """Note that no worker is busy with the queue: it may leave now, or its next turn begins."""
        may_go_on = self.may_consume(uptime_ms)
        out = self.policy.turn_ended(None if self.is_dropped else pause_ms, uptime_ms, may_go_on)
        return out + self._departure.leave(is_busy=False) if self._departure.waits_for_rest else out

    def _drop(self, out: Instructions) -> None:
        if not self.is_dropped:
            self.is_dropped = True
            fields = {"group": self._state.group, "queue": str(self.queue)}
            out.append(Tell("queue_dropped", fields, is_warning=False))

    def _correct(self, out: Instructions, next_offset: int, uptime_ms: UptimeMs, is_reset: bool) -> None:
        """Drop a queue with an illegal offset; the correct offset is stored when the queue leaves.

        A consumer that doesn't commit by itself continues at once at the broker's offset, unless the group was reset.
        """
        out.append(tell("offset_illegal", queue=str(self.queue), requested=self.next_offset, next=next_offset))
        keeps_illegal = self._state.way.keeps_illegal
        if keeps_illegal and not is_reset:
            if next_offset == self.next_offset:
                self._pause(out, uptime_ms, self._state.settings.pull_error_pause_ms)
            else:
                self.next_offset = self.cache.next_offset = next_offset
                self._decide_pull(out, uptime_ms)
            return
        # A reset also skips messages that aren't done: that is its purpose.
        self.next_offset = self._departure.queue_offset = next_offset if is_reset else self.cache.corrected(next_offset)
        self._drop_for(out, uptime_ms, 0 if keeps_illegal else self._state.settings.offset_illegal_pause_ms)

    def _lose_topic(self, out: Instructions, uptime_ms: UptimeMs, answered_by: str) -> None:
        """Drop a queue whose topic is gone, and let it be taken again later: its offsets may restart at 0."""
        state, topic = self._state, self.queue.topic
        if topic not in state.lost_topics:
            state.lost_topics.add(topic)
            out.append(tell("topic_is_gone", group=state.group, topic=topic, broker=self.queue.broker_name))
        out.append(ForgetOffset(answered_by))
        self._drop_for(out, uptime_ms, state.topic_retry_ms)

    def _drop_for(self, out: Instructions, uptime_ms: UptimeMs, pause_ms: int) -> None:
        """Drop the queue now and remove it after a pause. After that a rebalance may take it again."""
        self._drop(out)
        self._departure.at_ms = at_ms = UptimeMs(uptime_ms + pause_ms)
        out.append(Wait(at_ms))


def name_topics(messages: list[ReceivedMessage], is_retry: bool, state: ConsumerState) -> None:
    """Set the topics as programs know them. `is_retry`: the messages come from the group's retry topic."""
    if is_retry:
        give_own_topics(messages, state.own_topics)
    if state.subscriptions.namespace.name:
        give_plain_names(messages, state.subscriptions.namespace)


def give_own_topics(messages: list[ReceivedMessage], own_topics: Mapping[str, str]) -> None:
    """Set the topic that each retry was first sent to. `own_topics`: retry topics that belong to one topic each."""
    for message in messages:
        topic = message.get(RETRY_TOPIC) or message.topic
        message.topic = own_topics.get(topic, topic) if own_topics else topic


def give_plain_names(messages: list[ReceivedMessage], namespace: Namespace) -> None:
    """Remove the namespace from the names of topics."""
    for message in messages:
        message.topic = namespace.unwrap(message.topic)


class Departure:
    """How a queue leaves: once, after its pause, and when no worker is busy with it."""

    def __init__(self) -> None:
        self.at_ms: float = NEVER
        self.queue_offset: int | None = None
        """The offset to store for the next owner; None for the group's progress."""
        self.waits_for_rest = False
        self._is_over = False

    def leave(self, is_busy: bool) -> Instructions:
        """Leave now, or when no worker is busy any more."""
        self.at_ms = NEVER
        if self._is_over:
            return []
        self.waits_for_rest = is_busy
        self._is_over = not is_busy
        return [] if is_busy else [Leave(self.queue_offset)]
