"""Decides what happens to popped messages. Pure. RocketMQ: ConsumeMessagePopConcurrentlyService.

Messages needn't be given back: if one isn't acknowledged, it is redelivered after its invisible time, to any member
that pops. When a listener fails, the message's invisible time is changed, and it is redelivered after that. A message
that failed too often is a dead letter; with pop_dead_letters=False it is tried once more and then dropped, as in
RocketMQ.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from staticfire.client.consume.queues.instructions import Count, GiveBack, Instructions
from staticfire.client.consume.results.consume_results import ConsumeContext, ConsumeStatus, Messages, count_done
from staticfire.client.pop.popped import PoppedMessage
from staticfire.client.settings.push_settings import PushSettings
from staticfire.protocol.delay_levels import DEAD_LETTER_LEVEL
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.times import MessageMs, UptimeMs

DELAYS_S = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200)
"""How long a failed message waits, by level. The level is the number of redeliveries, unless the listener sets one."""
TRIED_MS_MAX = 2 * DELAYS_S[-1] * 1_000


class PopCache:
    """The popped messages that aren't done."""

    __slots__ = ("_held", "bytes")

    def __init__(self) -> None:
        self.bytes = 0
        """The total size of the bodies."""
        # By identity: a message can be redelivered while it is held.
        self._held: dict[int, ReceivedMessage] = {}

    def __len__(self) -> int:
        return len(self._held)

    def put(self, messages: Iterable[ReceivedMessage]) -> None:
        """Add messages."""
        for message in messages:
            self._held[id(message)] = message
            self.bytes += len(message.body)

    def remove(self, messages: Iterable[ReceivedMessage]) -> None:
        """Remove messages."""
        for message in messages:
            if self._held.pop(id(message), None) is not None:
                self.bytes -= len(message.body)

    def take_all(self) -> list[ReceivedMessage]:
        """Remove and return all messages."""
        held, self._held, self.bytes = list(self._held.values()), {}, 0
        return held


class PopPolicy:
    """The policy of one queue."""

    __slots__ = ("_cache", "_settings")

    def __init__(self, cache: PopCache, settings: PushSettings) -> None:
        self._cache = cache
        self._settings = settings

    def answered(self, messages: Messages, status: ConsumeStatus, context: ConsumeContext) -> Instructions:
        """Return the instructions that follow from a listener's result."""
        honours = self._settings.reconsume_later_honours_ack_index
        done = count_done(status, context.ack_index, len(messages), honours)
        out: Instructions = [Count(messages[:done])] if done else []
        if failed := messages[done:]:
            out.append(GiveBack(failed, context.delay_level_when_next_consume))
        return out

    def is_to_give_back(self, message: ReceivedMessage) -> bool:
        """Return True: no other code has sent it back."""
        return True

    def overdue_sent(self, message: ReceivedMessage, is_taken: bool, uptime_ms: UptimeMs) -> Instructions:
        """Do nothing: a message that takes too long is redelivered by the broker."""
        return []

    def kept(self, messages: list[ReceivedMessage], uptime_ms: UptimeMs) -> Instructions:
        """Remove messages whose invisible time couldn't be changed: the broker redelivers them."""
        self._cache.remove(messages)
        return []


# -- messages that have failed -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Acknowledge the message, which drops it: it was tried for long enough."""


@dataclass(frozen=True, slots=True)
class Bury:
    """Move the message to the dead letters, then acknowledge it."""


@dataclass(frozen=True, slots=True)
class PutOff:
    """Redeliver the message after this time."""

    invisible_ms: int


@dataclass(frozen=True, slots=True)
class LeaveAlone:
    """Do nothing: its invisible time is over. It was redelivered, unless message time is frozen.

    RocketMQ's brokers would redeliver it twice if the invisible time was changed now.
    """


def judge_failed(
    message: PoppedMessage, delay_level: int, settings: PushSettings, wall_ms: MessageMs, uptime_ms: UptimeMs
) -> Acknowledge | Bury | PutOff | LeaveAlone:
    """Return what happens to a message whose listener failed. `delay_level`: 0 unless the listener set one."""
    if uptime_ms >= message.invisible_until_ms:
        return LeaveAlone()
    is_spent = message.reconsume_times >= settings.retries_max
    if delay_level == DEAD_LETTER_LEVEL or (is_spent and settings.pop_dead_letters):
        return Bury()
    if not is_spent:
        level = delay_level or message.reconsume_times
        return PutOff(DELAYS_S[min(level, len(DELAYS_S) - 1)] * 1_000)
    age_ms = wall_ms - message.born_ms
    if age_ms > TRIED_MS_MAX:
        return Acknowledge()
    level = sum(age_ms >= delay_s * 1_000 for delay_s in DELAYS_S)
    return PutOff(DELAYS_S[min(level, len(DELAYS_S) - 1)] * 1_000)
