"""When a message must be delivered: by its delay level, the n-th entry of the broker's list of delays, or at any time.

RocketMQ: ScheduleMessageService, HookUtils.
"""

import re

import msgspec

from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer, UsageError
from staticfire.protocol.numbers import INT64_MAX
from staticfire.protocol.properties import DELAY, TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS, find_property

DELAY_LEVELS_DEFAULT = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
# The delay of records that were stored when the list was longer (RocketMQ: computeDeliverTimestamp).
UNKNOWN_LEVEL_DELAY_MS = 1_000

FIRST_RETRY_LEVEL = 3
# In a send-back: the message is a dead letter, without a retry.
DEAD_LETTER_LEVEL = -1

_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DIGITS_MAX = 9
_LONG_DIGITS = 19
_JAVA_INT = re.compile(rb"[+-]?[0-9]{1,10}")
_INT_MAX = 2**31 - 1


class DelayLevels(msgspec.Struct, frozen=True):
    """The delays of a broker, level 1 first."""

    delays_ms: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> "DelayLevels":
        """Return the levels of a setting like `1s 5s 10m 2h 1d`. Raises: UsageError."""
        delays_ms = []
        for item in text.split():
            number, unit = item[:-1], item[-1]
            if unit not in _UNIT_MS or not (number.isascii() and number.isdigit()) or len(number) > _DIGITS_MAX:
                raise UsageError(f"messageDelayLevel: {item!r} is not a delay; write delays as in `1s 5s 10m 2h 1d`")
            delays_ms.append(int(number) * _UNIT_MS[unit])
        if not delays_ms:
            raise UsageError("messageDelayLevel: it contains no delay; write delays as in `1s 5s 10m 2h 1d`")
        return cls(tuple(delays_ms))

    @property
    def level_max(self) -> int:
        return len(self.delays_ms)

    def clamp(self, level: int) -> int:
        """Return the level to store for a requested one."""
        return min(level, len(self.delays_ms))

    def delay_ms(self, level: int) -> int:
        """Return the delay of a message with that level."""
        if 1 <= level <= len(self.delays_ms):
            return self.delays_ms[level - 1]
        return UNKNOWN_LEVEL_DELAY_MS

    def __str__(self) -> str:
        return " ".join(map(_text_of, self.delays_ms))


def _text_of(delay_ms: int) -> str:
    for unit in "dhm":
        if delay_ms and delay_ms % _UNIT_MS[unit] == 0:
            return f"{delay_ms // _UNIT_MS[unit]}{unit}"
    return f"{delay_ms // 1000}s"


def requested_level(properties: bytes) -> int:
    """Return the level that a message requests in DELAY, 0 if none. Raises: BrokerAnswer (not a number)."""
    value = find_property(properties, DELAY)
    if value is None:
        return 0
    if _JAVA_INT.fullmatch(value) is None or not -_INT_MAX - 1 <= int(value) <= _INT_MAX:
        text = value.decode("utf-8", "replace")
        raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, f"the delay level {text!r} is not a number")
    return int(value)


def requested_time_ms(properties: bytes, now_ms: int) -> int | None:
    """Return the time at which a message requests to be delivered; None if it requests none.

    Of several properties, only the first in this order counts. -1: the value isn't a number. `now_ms`: when the message
    is stored. RocketMQ: HookUtils.handleTimerMessage.
    """
    for name, unit_ms, since_ms in (
        (TIMER_DELAY_SEC, 1000, now_ms),
        (TIMER_DELAY_MS, 1, now_ms),
        (TIMER_DELIVER_MS, 1, 0),
    ):
        text = find_property(properties, name)
        if text is not None:
            number = _whole_number(text.decode("utf-8", "replace"))
            return -1 if number is None else max(since_ms + number * unit_ms, 0)
    return None


def _whole_number(text: str) -> int | None:
    """Return the result of Java's Long.parseLong for a text, or None if it refuses the text."""
    sign, digits = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    figures = digits.lstrip("0") or "0"
    if not digits.isdecimal() or len(figures) > _LONG_DIGITS:
        return None
    number = int(sign + figures)
    return number if -INT64_MAX - 1 <= number <= INT64_MAX else None


def retry_level(reconsume_times: int) -> int:
    """Return the level of a retry if the consumer left the choice to the broker: 10 s after the first failure."""
    return FIRST_RETRY_LEVEL + reconsume_times


def queue_of_level(level: int) -> int:
    """Return the queue of the schedule topic in which messages of a level wait."""
    return level - 1


def level_of_queue(queue_id: int) -> int:
    """Return the level of the messages that wait in a queue of the schedule topic."""
    return queue_id + 1


DEFAULT_DELAY_LEVELS = DelayLevels.parse(DELAY_LEVELS_DEFAULT)
