"""Decides what to do next with a broker's queues that a consumer pops. Sans-IO, like `queue_decisions.py` for pulls.

    event         while        then
    assigned      -            pop
    popped        IN FLIGHT    deliver subscribed messages; acknowledge others, which have the same tag hash; pop again
    pop_failed    IN FLIGHT    pause; registration lost by the broker: announce
    done          any          acknowledge; if PAUSED because it was full, and there is room now: pop
    let_go        any          the same without acknowledging: its time was changed, or the broker redelivers it
    time          PAUSED, due  pop
    hurry         PAUSED       pop
    revoked       any          pop no more
    left          any          put back what isn't done: it is redelivered at once, to another member

The queue id is -1 for all queues of the topic on the broker, or that of one queue. Other members may pop the same
queues. So messages that were popped before the queue is given away are still consumed and acknowledged here.
"""

import math
from collections.abc import Sequence

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.consume.popping.pop_policy import PopCache, PopPolicy
from staticfire.client.consume.queues.consumer_state import ConsumerState
from staticfire.client.consume.queues.instructions import (
    Ack,
    Deliver,
    GiveUp,
    Instructions,
    Pop,
    PutBack,
    Tell,
    Wait,
    tell,
)
from staticfire.client.consume.queues.pull_failures import judge_failure
from staticfire.client.pop.popped import PoppedMessage, PopResult, PopStatus, split_wanted
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer, StaticfireError
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.times import UptimeMs

NEVER = math.inf
# If an empty pop returns sooner than this, the broker didn't hold it: wait a little before the next one.
SHORT_MS = 20


class PopQueue:
    """One queue, from when it is taken. Each event returns the instructions to execute, in order."""

    is_dropped = False
    """Always False: messages that were popped are consumed here, whichever client pops next."""
    # Always unknown for popped messages.
    max_offset = -1

    def __init__(self, queue: MessageQueue, state: ConsumerState, uptime_ms: UptimeMs) -> None:
        self.queue = queue
        self.cache = PopCache()
        self.policy = PopPolicy(self.cache, state.settings)
        self.tally = state.statistics.tally(queue.topic)
        self.finished: list[ReceivedMessage] = []
        """Messages that are done but not yet reported."""
        self.last_pop_ms = uptime_ms
        self.is_revoked = False
        self._state = state
        self._is_popping = False
        self._is_full = False
        self._paused_until_ms: float | None = None

    @property
    def is_idle(self) -> bool:
        """Whether it holds no message, and no pop of it is in flight."""
        return not self.cache and not self._is_popping

    # -- popping -------------------------------------------------------------------------------------------------

    def assigned(self, uptime_ms: UptimeMs) -> Instructions:
        """Begin to pop."""
        out: Instructions = []
        self._decide_pop(out, uptime_ms)
        return out

    def _decide_pop(self, out: Instructions, uptime_ms: UptimeMs) -> None:
        """Pop; if that isn't allowed now, decide until when to pause."""
        state = self._state
        settings = state.settings
        self._paused_until_ms, self._is_full = None, False
        if self._is_popping or self.is_revoked or state.is_over:
            return
        self.last_pop_ms = uptime_ms
        if state.is_paused(self.queue):
            self._paused_until_ms = NEVER
        elif len(self.cache) > settings.pop_threshold_for_queue:
            self._is_full = True
            self._pause(out, uptime_ms, settings.flow_control_pause_ms)
        elif (subscription := state.wanted.get(self.queue.topic)) is None:
            self._pause(out, uptime_ms, settings.pull_error_pause_ms)
        else:
            self._is_popping = True
            out.append(Pop(subscription))

    def _pause(self, out: Instructions, uptime_ms: UptimeMs, pause_ms: int) -> None:
        self._paused_until_ms = until_ms = UptimeMs(uptime_ms + pause_ms)
        out.append(Wait(until_ms))

    def hurry(self, uptime_ms: UptimeMs) -> Instructions:
        """End the current pause, if there is one."""
        out: Instructions = []
        if self._paused_until_ms is not None:
            self._decide_pop(out, uptime_ms)
        return out

    def popped(self, result: PopResult, uptime_ms: UptimeMs) -> Instructions:
        """Process a pop's response."""
        self._is_popping = False
        state, settings = self._state, self._state.settings
        out: Instructions = []
        if result.lost:
            out.append(
                tell("popped_without_handle", group=state.group, messages=result.lost, reason=result.reason)
            )  # fmt: skip
        subscription = state.wanted.get(self.queue.topic)
        if state.is_over or subscription is None:
            return [*out, PutBack(result.messages)] if result.messages else out
        state.lost_topics.discard(self.queue.topic)
        messages, unwanted = split_wanted(result.messages, subscription.tags)
        if unwanted:
            out.append(Ack(unwanted))
        if messages:
            self._found(out, messages, uptime_ms)
        if result.status is PopStatus.POLLING_FULL:
            self._pause(out, uptime_ms, settings.pull_error_pause_ms)
        elif not result.messages and uptime_ms - self.last_pop_ms < SHORT_MS:
            self._pause(out, uptime_ms, settings.flow_control_pause_ms)
        elif result.status is PopStatus.FOUND and settings.pull_interval_ms:
            self._pause(out, uptime_ms, settings.pull_interval_ms)
        else:
            self._decide_pop(out, uptime_ms)
        return out

    def _found(self, out: Instructions, messages: list[PoppedMessage], uptime_ms: UptimeMs) -> None:
        self.tally.pull_found(len(messages), uptime_ms - self.last_pop_ms)
        retries_max = self._state.settings.retries_max
        spent = [message for message in messages if message.reconsume_times > retries_max]
        if spent:
            out.append(GiveUp(spent))
            messages = [message for message in messages if message.reconsume_times <= retries_max]
        if messages:
            self.cache.put(messages)
            out.append(Deliver(messages))

    def pop_failed(self, error: StaticfireError, uptime_ms: UptimeMs) -> Instructions:
        """Log the problem and try again later."""
        self._is_popping = False
        state, topic = self._state, self.queue.topic
        if self.is_revoked or state.is_over:
            return []
        failure = judge_failure(error, self.queue, state, state.wanted.get(topic))
        out = failure.instructions
        if isinstance(error, BrokerAnswer) and error.code == ResponseCode.TOPIC_NOT_EXIST:
            if topic not in state.lost_topics:
                state.lost_topics.add(topic)
                out.append(tell("topic_is_gone", group=state.group, topic=topic, broker=self.queue.broker_name))
            self._pause(out, uptime_ms, state.topic_retry_ms)
        else:
            self._pause(out, uptime_ms, failure.pause_ms)
        return out

    # -- results -------------------------------------------------------------------------------------------------

    def done(self, messages: Sequence[ReceivedMessage], uptime_ms: UptimeMs) -> Instructions:
        """Acknowledge messages, even if their invisible time is over: the broker may not have noticed yet."""
        out: Instructions = [Ack(messages)]
        return out + self.let_go(messages, uptime_ms)

    def let_go(self, messages: Sequence[ReceivedMessage], uptime_ms: UptimeMs) -> Instructions:
        """Remove messages whose invisible time was changed, or that the broker redelivers."""
        out: Instructions = []
        self.cache.remove(messages)
        if self._is_full and len(self.cache) * 2 <= self._state.settings.pop_threshold_for_queue:
            self._decide_pop(out, uptime_ms)
        return out

    # -- time, and the end ---------------------------------------------------------------------------------------

    def time(self, uptime_ms: UptimeMs) -> Instructions:
        """Do what is due, and return when to be called next."""
        out: Instructions = []
        due_ms = self._paused_until_ms
        if due_ms is not None and uptime_ms >= due_ms:
            self._decide_pop(out, uptime_ms)
        elif due_ms is not None and due_ms < NEVER:
            out.append(Wait(UptimeMs(int(due_ms))))
        return out

    def revoked(self) -> Instructions:
        """Stop popping."""
        self.is_revoked, self._paused_until_ms = True, None
        return [Tell("queue_dropped", {"group": self._state.group, "queue": str(self.queue)}, is_warning=False)]

    def left(self) -> Instructions:
        """Put back what isn't done: no listener works on it any more."""
        held = self.cache.take_all()
        return [PutBack(held)] if held else []
