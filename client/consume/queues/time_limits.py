"""Finds messages whose consumption takes too long. Pure. RocketMQ: ProcessQueue.cleanExpiredMsg.

No message has a timer. A look goes through all held messages and finds the overdue ones; the next look is when the
first of the others will be overdue. A message whose consumption begins after a look is overdue a whole limit later at
the earliest, and the next look is not later than that. So every message is found on time.

RocketMQ's way (`consume_timeout_scans`): one scan per limit, from the head of the queue, of 16 messages at most. A
message can be found late by a whole limit, and isn't found while an earlier one isn't overdue.
"""

import math
from collections.abc import Iterable

from staticfire.client.consume.queues.instructions import GiveBack
from staticfire.client.consume.queues.process_queue import ProcessQueue
from staticfire.client.settings.push_settings import PushSettings
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.times import UptimeMs

# The level that RocketMQ's consumer requests.
OVERDUE_DELAY_LEVEL = 3
BROKER_DECIDES = 0
SCANNED_MAX = 16


class TimeLimits:
    """The time limits of one consumer. They can be changed while it runs."""

    def __init__(self, settings: PushSettings) -> None:
        self.consume_timeout_ms = settings.consume_timeout_ms
        self.is_scanning = settings.consume_timeout_scans
        self._resend_after_ms = settings.resend_after_ms or math.inf

    @property
    def precise_ms(self) -> float:
        """After this time a message is overdue, exact to the millisecond."""
        return min(self._resend_after_ms, math.inf if self.is_scanning else self.consume_timeout_ms)

    def delay_level(self, took_ms: int) -> int:
        """Return the delay level for an overdue message."""
        return OVERDUE_DELAY_LEVEL if took_ms >= self.consume_timeout_ms else BROKER_DECIDES


class Overdue:
    """The overdue messages of one queue, from when they are found until a broker has them."""

    __slots__ = ("_cache", "_limits", "_look_ms", "_scan_ms", "_sending")

    def __init__(self, cache: ProcessQueue, limits: TimeLimits) -> None:
        self._cache = cache
        self._limits = limits
        self._look_ms = math.inf
        self._scan_ms = math.inf
        self._sending: dict[int, bool] = {}
        """By offset: whether the listener has failed meanwhile."""

    @property
    def due_ms(self) -> float:
        """When to look next."""
        return min(self._look_ms, self._scan_ms)

    def arrived(self, uptime_ms: UptimeMs) -> bool:
        """Note that there are messages. Return whether that has set `due_ms`."""
        if self._look_ms < math.inf or self._scan_ms < math.inf:
            return False
        self._look_ms = uptime_ms + self._limits.precise_ms
        if self._limits.is_scanning:
            self._scan_ms = uptime_ms + self._limits.consume_timeout_ms
        return self.due_ms < math.inf

    def limits_changed(self, uptime_ms: UptimeMs) -> None:
        """Look at the next opportunity."""
        if not self._limits.is_scanning:
            self._look_ms = uptime_ms

    def look(self, uptime_ms: UptimeMs) -> list[GiveBack]:
        """Return the overdue messages, to be sent back, and set the time of the next look."""
        found: list[ReceivedMessage] = []
        if uptime_ms >= self._look_ms:
            found += self._look(uptime_ms)
        if uptime_ms >= self._scan_ms:
            found += self._scan(uptime_ms)
        return [self._give_back(message, uptime_ms) for message in found]

    def _look(self, uptime_ms: UptimeMs) -> Iterable[ReceivedMessage]:
        limit_ms = self._limits.precise_ms
        next_ms = uptime_ms + limit_ms
        found = []
        for message in self._cache.messages():
            began_ms = message.consume_started_ms
            if not began_ms or message.queue_offset in self._sending:
                continue
            if uptime_ms - began_ms >= limit_ms:
                found.append(message)
            else:
                next_ms = min(next_ms, began_ms + limit_ms)
        self._look_ms = next_ms if self._cache else math.inf
        return found

    def _scan(self, uptime_ms: UptimeMs) -> Iterable[ReceivedMessage]:
        limit_ms = self._limits.consume_timeout_ms
        self._scan_ms = uptime_ms + limit_ms if self._cache else math.inf
        found = []
        for message in self._cache.first(SCANNED_MAX):
            began_ms = message.consume_started_ms
            if not began_ms or uptime_ms - began_ms <= limit_ms or message.queue_offset in self._sending:
                break
            found.append(message)
        return found

    def _give_back(self, message: ReceivedMessage, uptime_ms: UptimeMs) -> GiveBack:
        self._sending[message.queue_offset] = False
        return GiveBack((message,), self._limits.delay_level(uptime_ms - message.consume_started_ms))

    def failed(self, message: ReceivedMessage) -> bool:
        """Note that the listener has failed. Return whether the message is being sent back already."""
        if message.queue_offset in self._sending:
            self._sending[message.queue_offset] = True
            return True
        return False

    def sent(self, message: ReceivedMessage, is_taken: bool, again_ms: UptimeMs) -> bool:
        """Note the result of sending a message back. Return whether it must be consumed here again: its listener has
        ended, and no broker accepted it.

        `again_ms`: when to look again, if no broker accepted it and its listener is still running.
        """
        is_given_up = self._sending.pop(message.queue_offset, False)
        if is_taken or message not in self._cache:
            return False
        if not is_given_up:
            self._look_ms = min(self._look_ms, again_ms)
        return is_given_up
