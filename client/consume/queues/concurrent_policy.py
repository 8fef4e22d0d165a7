"""Decides what happens to messages that are consumed in any order. Pure.

RocketMQ: ConsumeMessageConcurrentlyService.processConsumeResult. A message is done when its listener reports success,
or when a broker has accepted it for redelivery. If no broker accepts it, this consumer consumes it again after a pause.
In BROADCASTING mode a failed message isn't sent to a broker: it is dropped, and counts as done.
"""

import math
from collections import deque

from staticfire.client.consume.queues.instructions import Count, Deliver, GiveBack, Instructions, Tell, Wait
from staticfire.client.consume.queues.process_queue import ProcessQueue
from staticfire.client.consume.queues.time_limits import Overdue, TimeLimits
from staticfire.client.consume.results.consume_results import ConsumeContext, ConsumeStatus, Messages, count_done
from staticfire.client.settings.push_settings import MessageModel, PushSettings
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.times import UptimeMs


class ConcurrentPolicy:
    """The policy of one queue."""

    __slots__ = ("_cache", "_group", "_is_broadcasting", "_kept", "_overdue", "_settings")

    is_in_order = False
    # The next owner of the queue also receives the messages that are in flight here, so it needn't wait for this one.
    is_busy = False

    def __init__(
        self, cache: ProcessQueue, group: str, settings: PushSettings, limits: TimeLimits | None = None
    ) -> None:
        """`limits`: None if there is no listener, so that no message can take too long."""
        self._cache = cache
        self._group = group
        self._settings = settings
        self._is_broadcasting = settings.message_model is MessageModel.BROADCASTING
        # Every message waits equally long, so the oldest is first.
        self._kept: deque[tuple[UptimeMs, ReceivedMessage]] = deque()
        self._overdue = None if limits is None else Overdue(cache, limits)

    @property
    def due_ms(self) -> float:
        """When to consume a message again that no broker accepted, or to look for messages that took too long."""
        again_ms = self._kept[0][0] if self._kept else math.inf
        return again_ms if self._overdue is None else min(again_ms, self._overdue.due_ms)

    def is_trusted(self, uptime_ms: UptimeMs) -> bool:
        """Return True: there are no locks."""
        return True

    def is_sure(self, uptime_ms: UptimeMs) -> bool:
        """Return True: the members of the group agree on who owns the queue."""
        return True

    def pulled(self, new: list[ReceivedMessage], uptime_ms: UptimeMs) -> Instructions:
        """Deliver all new messages."""
        overdue = self._overdue
        if overdue is not None and overdue.arrived(uptime_ms):
            return [Deliver(new), Wait(UptimeMs(int(overdue.due_ms)))]
        return [Deliver(new)]

    def revoked(self, uptime_ms: UptimeMs) -> None:
        """Do nothing: results that arrive later are ignored."""

    def answered(self, messages: Messages, status: ConsumeStatus, context: ConsumeContext) -> Instructions:
        """Return the instructions that follow from a listener's result."""
        honours = self._settings.reconsume_later_honours_ack_index
        done = count_done(status, context.ack_index, len(messages), honours)
        out: Instructions = []
        if done:
            out.append(Count(messages[:done]))
        failed = messages[done:]
        for message in failed:
            message.consume_started_ms = 0  # No listener works on it any more.
        if failed and self._is_broadcasting:
            fields = {"group": self._group, "queue": str(context.queue), "messages": len(failed)}
            out += [Tell("message_dropped", fields), Count(failed, is_ok=False)]
        elif failed:
            out.append(GiveBack(failed, context.delay_level_when_next_consume))
        return out

    def is_to_give_back(self, message: ReceivedMessage) -> bool:
        """Whether a failed message must still be sent back: it may have been sent already because it took too long."""
        is_under_way = self._overdue is not None and self._overdue.failed(message)
        return message in self._cache and not is_under_way

    def overdue_sent(self, message: ReceivedMessage, is_taken: bool, uptime_ms: UptimeMs) -> Instructions:
        """Return the instructions for a message that took too long, after a broker accepted it or no broker did."""
        again_ms = UptimeMs(uptime_ms + self._settings.retry_here_ms)
        if self._overdue is not None and self._overdue.sent(message, is_taken, again_ms):
            return self.kept([message], uptime_ms)
        return [Count([message], is_ok=False)] if is_taken else [Wait(again_ms)]

    def kept(self, messages: list[ReceivedMessage], uptime_ms: UptimeMs) -> Instructions:
        """Consume messages again here after a pause: no broker accepted them."""
        again_ms = UptimeMs(uptime_ms + self._settings.retry_here_ms)
        for message in messages:
            message.reconsume_times += 1
            message.consume_started_ms = 0
            self._kept.append((again_ms, message))
        return [Wait(again_ms)] if messages else []

    def turn_ended(self, pause_ms: int | None, uptime_ms: UptimeMs, may_go_on: bool) -> Instructions:
        """Do nothing: only ordered queues have turns."""
        return []

    def time(self, uptime_ms: UptimeMs) -> Instructions:
        """Deliver the messages whose pause is over, and send back those that took too long."""
        again = []
        while self._kept and uptime_ms >= self._kept[0][0]:
            again.append(self._kept.popleft()[1])
        out: Instructions = [Deliver(again)] if again else []
        if self._overdue is not None:
            out += self._overdue.look(uptime_ms)
        return out

    def limits_changed(self, uptime_ms: UptimeMs) -> None:
        """Look now for messages that took too long."""
        if self._overdue is not None:
            self._overdue.limits_changed(uptime_ms)
