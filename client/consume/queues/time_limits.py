"""Messages that are in consumption for too long. Pure. RocketMQ: ProcessQueue.cleanExpiredMsg.

Every message is looked at when its own time is over, and no message has a timer. A look goes through what is held: it
finds what is overdue, and the next one is due when the first of the others will be. What begins after a look isn't
overdue before a whole limit has passed; so that is when the next look is at the latest, and nothing is found late.

RocketMQ's way (`consume_timeout_scans`): a look per limit, at the head of the queue only, and at 16 messages at most.
So a message can be late by a whole limit, and wait for as long as it isn't the head.
"""

import math
from collections.abc import Iterable

from staticfire.client.consume.queues.instructions import GiveBack
from staticfire.client.consume.queues.process_queue import ProcessQueue
from staticfire.client.settings.push_settings import PushSettings
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.times import UptimeMs

OVERDUE_DELAY_LEVEL = 3
# What RocketMQ's consumer asks for.
BROKER_DECIDES = 0
SCANNED_MAX = 16


class TimeLimits:
    """Those of one consumer. They can be changed while it runs."""

    def __init__(self, settings: PushSettings) -> None:
        self.consume_timeout_ms = settings.consume_timeout_ms
        self.is_scanning = settings.consume_timeout_scans
        self._resend_after_ms = settings.resend_after_ms or math.inf

    @property
    def precise_ms(self) -> float:
        """After that a message is overdue to the millisecond."""
        return min(self._resend_after_ms, math.inf if self.is_scanning else self.consume_timeout_ms)

    def delay_level(self, took_ms: int) -> int:
        """Return how long a broker keeps a message that is overdue."""
        return OVERDUE_DELAY_LEVEL if took_ms >= self.consume_timeout_ms else BROKER_DECIDES


class Overdue:
    """The messages of one queue that took too long, from when that is found until a broker has them."""

    __slots__ = ("_cache", "_limits", "_look_ms", "_scan_ms", "_sending")

    def __init__(self, cache: ProcessQueue, limits: TimeLimits) -> None:
        self._cache = cache
        self._limits = limits
        self._look_ms = math.inf
        self._scan_ms = math.inf
        self._sending: dict[int, bool] = {}
        """By offset: whether the listener has given up on it meanwhile."""

    @property
    def due_ms(self) -> float:
        """When to look next."""
        return min(self._look_ms, self._scan_ms)

    def arrived(self, uptime_ms: UptimeMs) -> bool:
        """Know that there are messages; return whether `due_ms` was set by that."""
        if self._look_ms < math.inf or self._scan_ms < math.inf:
            return False
        self._look_ms = uptime_ms + self._limits.precise_ms
        if self._limits.is_scanning:
            self._scan_ms = uptime_ms + self._limits.consume_timeout_ms
        return self.due_ms < math.inf

    def limits_changed(self, uptime_ms: UptimeMs) -> None:
        """Look now."""
        if self._cache and not self._limits.is_scanning:
            self._look_ms = uptime_ms

    def look(self, uptime_ms: UptimeMs) -> list[GiveBack]:
        """Return what is overdue, to be given back, and know when to look next."""
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
        return GiveBack((message,), self._limits.delay_level(uptime_ms - message.consume_started_ms), is_overdue=True)

    def failed(self, message: ReceivedMessage) -> bool:
        """Know that the listener has given up on a message; return whether it is being given back already."""
        if message.queue_offset in self._sending:
            self._sending[message.queue_offset] = True
            return True
        return False

    def sent(self, message: ReceivedMessage, is_taken: bool, again_ms: UptimeMs) -> bool:
        """Know what came of giving a message back; return whether nobody is at work on it any more, and nobody has it.

        `again_ms`: when to look again at one that no broker took, and that its listener is still at work on.
        """
        is_given_up = self._sending.pop(message.queue_offset, False)
        if is_taken or message not in self._cache:
            return False
        if not is_given_up:
            self._look_ms = min(self._look_ms, again_ms)
        return is_given_up
