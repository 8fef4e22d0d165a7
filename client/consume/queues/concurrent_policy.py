"""What becomes of messages that are consumed in any order, as they come. Pure.

RocketMQ: ConsumeMessageConcurrentlyService.processConsumeResult. A message is done when its listener says so, or when
it has been sent back; one that nobody takes back is consumed here again in a while. In BROADCASTING there is nobody to
send it to: it is done, too.
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
    """That of one queue."""

    __slots__ = ("_cache", "_group", "_is_broadcasting", "_kept", "_overdue", "_settings")

    is_in_order = False
    is_busy = False
    # Whoever gets the queue gets what is being consumed here, too: nobody waits for its end.

    def __init__(
        self, cache: ProcessQueue, group: str, settings: PushSettings, limits: TimeLimits | None = None
    ) -> None:
        """`limits`: None where nobody listens, so that nothing takes too long."""
        self._cache = cache
        self._group = group
        self._settings = settings
        self._is_broadcasting = settings.message_model is MessageModel.BROADCASTING
        self._kept: deque[tuple[UptimeMs, ReceivedMessage]] = deque()  # Oldest first: each waits for as long.
        self._overdue = None if limits is None else Overdue(cache, limits)

    @property
    def due_ms(self) -> float:
        """When the first message that nobody took back is consumed again, or one may have taken too long."""
        again_ms = self._kept[0][0] if self._kept else math.inf
        return again_ms if self._overdue is None else min(again_ms, self._overdue.due_ms)

    def is_trusted(self, uptime_ms: UptimeMs) -> bool:
        """Yes: there are no locks."""
        return True

    def is_sure(self, uptime_ms: UptimeMs) -> bool:
        """Yes: who has the queue is the members' agreement."""
        return True

    def pulled(self, new: list[ReceivedMessage], uptime_ms: UptimeMs) -> Instructions:
        """Deliver all of it."""
        overdue = self._overdue
        if overdue is not None and overdue.arrived(uptime_ms):
            return [Deliver(new), Wait(UptimeMs(int(overdue.due_ms)))]
        return [Deliver(new)]

    def revoked(self, uptime_ms: UptimeMs) -> None:
        """Do nothing: results that come later count for nothing."""

    def answered(self, messages: Messages, status: ConsumeStatus, context: ConsumeContext) -> Instructions:
        """Say what follows from any answer of a listener."""
        honours = self._settings.reconsume_later_honours_ack_index
        done = count_done(status, context.ack_index, len(messages), honours)
        out: Instructions = []
        if done:
            out.append(Count(messages[:done]))
        failed = messages[done:]
        for message in failed:
            message.consume_started_ms = 0  # Nobody is at work on it any more.
        if failed and self._is_broadcasting:
            fields = {"group": self._group, "queue": str(context.queue), "messages": len(failed)}
            out += [Tell("message_dropped", fields), Count(failed, is_ok=False)]
        elif failed:
            out.append(GiveBack(failed, context.delay_level_when_next_consume))
        return out

    def is_to_give_back(self, message: ReceivedMessage) -> bool:
        """Whether a message that has failed is still to be given back: that may have been done, for taking too long."""
        is_under_way = self._overdue is not None and self._overdue.failed(message)
        return message in self._cache and not is_under_way

    def overdue_sent(self, message: ReceivedMessage, is_taken: bool, uptime_ms: UptimeMs) -> Instructions:
        """Say what follows when a message that took too long was given back, or no broker took it."""
        again_ms = UptimeMs(uptime_ms + self._settings.retry_here_ms)
        if self._overdue is not None and self._overdue.sent(message, is_taken, again_ms):
            return self.kept([message], uptime_ms)
        return [Count([message], is_ok=False)] if is_taken else [Wait(again_ms)]

    def kept(self, messages: list[ReceivedMessage], uptime_ms: UptimeMs) -> Instructions:
        """Consume messages here again that no broker took."""
        again_ms = UptimeMs(uptime_ms + self._settings.retry_here_ms)
        for message in messages:
            message.reconsume_times += 1
            message.consume_started_ms = 0
            self._kept.append((again_ms, message))
        return [Wait(again_ms)] if messages else []

    def turn_ended(self, pause_ms: int | None, uptime_ms: UptimeMs, may_go_on: bool) -> Instructions:
        """Do nothing: there are no turns."""
        return []

    def time(self, uptime_ms: UptimeMs) -> Instructions:
        """Deliver what was kept for long enough, give back what took too long."""
        again = []
        while self._kept and uptime_ms >= self._kept[0][0]:
            again.append(self._kept.popleft()[1])
        out: Instructions = [Deliver(again)] if again else []
        if self._overdue is not None:
            out += self._overdue.look(uptime_ms)
        return out

    def limits_changed(self, uptime_ms: UptimeMs) -> None:
        """Look now whether something has taken too long."""
        if self._overdue is not None:
            self._overdue.limits_changed(uptime_ms)
