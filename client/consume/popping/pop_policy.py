"""What becomes of messages that were popped. Pure. RocketMQ: ConsumeMessagePopConcurrentlyService.

Nobody has to give them back: what isn't acknowledged comes again after its invisible time, to whichever member asks.
A message whose listener has failed is put off: it comes again when the new invisible time is over. One that has failed
too often is a dead letter; with pop_dead_letters=False it is tried once more and then dropped, as RocketMQ does.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from staticfire.client.consume.listeners.send_back import DEAD_LETTER_LEVEL
from staticfire.client.consume.queues.instructions import Count, GiveBack, Instructions
from staticfire.client.consume.results.consume_results import ConsumeContext, ConsumeStatus, Messages, count_done
from staticfire.client.pop.popped import PoppedMessage
from staticfire.client.settings.push_settings import PushSettings
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.times import MessageMs, UptimeMs

DELAYS_S = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200)
"""How long a failed message waits, by its level; that is how often it has come again, unless the listener says one."""
TRIED_MS_MAX = 2 * DELAYS_S[-1] * 1_000


class PopCache:
    """What was popped and isn't done."""

    __slots__ = ("_held", "bytes")

    def __init__(self) -> None:
        self.bytes = 0
        """Of the bodies."""
        self._held: dict[int, ReceivedMessage] = {}  # By identity: a message can come again while it is held.

    def __len__(self) -> int:
        return len(self._held)

    def put(self, messages: Iterable[ReceivedMessage]) -> None:
        """Take in messages."""
        for message in messages:
            self._held[id(message)] = message
            self.bytes += len(message.body)

    def remove(self, messages: Iterable[ReceivedMessage]) -> None:
        """Let go of messages."""
        for message in messages:
            if self._held.pop(id(message), None) is not None:
                self.bytes -= len(message.body)

    def take_all(self) -> list[ReceivedMessage]:
        """Let go of everything; return it."""
        held, self._held, self.bytes = list(self._held.values()), {}, 0
        return held


class PopPolicy:
    """That of one queue."""

    __slots__ = ("_cache", "_settings")

    def __init__(self, cache: PopCache, settings: PushSettings) -> None:
        self._cache = cache
        self._settings = settings

    def answered(self, messages: Messages, status: ConsumeStatus, context: ConsumeContext) -> Instructions:
        """Say what follows from any answer of a listener."""
        honours = self._settings.reconsume_later_honours_ack_index
        done = count_done(status, context.ack_index, len(messages), honours)
        out: Instructions = [Count(messages[:done])] if done else []
        if failed := messages[done:]:
            out.append(GiveBack(failed, context.delay_level_when_next_consume))
        return out

    def is_to_give_back(self, message: ReceivedMessage) -> bool:
        """Yes: nobody else has done so."""
        return True

    def overdue_sent(self, message: ReceivedMessage, is_taken: bool, uptime_ms: UptimeMs) -> Instructions:
        """Do nothing: what takes too long comes again by itself."""
        return []

    def kept(self, messages: list[ReceivedMessage], uptime_ms: UptimeMs) -> Instructions:
        """Have nothing to do with messages that couldn't be put off: they come again by themselves."""
        self._cache.remove(messages)
        return []


# -- messages that have failed -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Drop it: it was tried for long enough."""


@dataclass(frozen=True, slots=True)
class Bury:
    """Put it to the dead letters, then acknowledge it."""


@dataclass(frozen=True, slots=True)
class PutOff:
    """Let it come again in so long."""

    invisible_ms: int


@dataclass(frozen=True, slots=True)
class LeaveAlone:
    """Its invisible time is over: it was redelivered, unless message time is frozen. RocketMQ's brokers would redeliver
    it twice if that time was changed."""


def judge_failed(
    message: PoppedMessage, delay_level: int, settings: PushSettings, wall_ms: MessageMs, uptime_ms: UptimeMs
) -> Acknowledge | Bury | PutOff | LeaveAlone:
    """Return what becomes of a message whose listener has failed. `delay_level`: 0 unless the listener said one."""
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
