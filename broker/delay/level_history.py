"""Which delay levels due times were computed with, by log position. Pure.

The entry of a waiting message contains its due time: its stored time and the delay of its level. Entries are compared
with the records that they are computed from, and rebuilt from them. After a restart messageDelayLevel may be another
one, but a message that waits keeps its due time. So a file contains which levels have applied from which log position
on:

    <store>/config/delayLevels.json
    {"levels": [{"fromPosition": 0, "messageDelayLevel": "1s 5s"},
                {"fromPosition": 4096, "messageDelayLevel": "1s 1h"}]}

It is written before the first record after such a position is stored. It describes the entries of this broker: a slave
computes its own from the copied records. RocketMQ has no such file, as it compares nothing; an entry that it rebuilds
gets the current delay.
"""

from bisect import bisect_right

import msgspec

from staticfire.protocol.delay_levels import DelayLevels
from staticfire.protocol.numbers import LogPosition

FILE = "delayLevels.json"


class LevelHistory:
    """The delay levels of one broker, current and former ones."""

    def __init__(self, current: DelayLevels) -> None:
        self.current = current
        """The levels of messages that are stored now."""
        self._positions = [0]
        self._levels = [current]

    def at(self, log_position: int) -> DelayLevels:
        """Return the levels with which the due time of the record at a log position was computed."""
        if log_position >= self._positions[-1]:
            return self._levels[-1]
        return self._levels[max(bisect_right(self._positions, log_position) - 1, 0)]

    def begin(self, min_position: int, end_position: int) -> bool:
        """Let the current levels apply from the log's end on; return whether that is a change.

        Levels whose records are no longer in the log are forgotten: removed by age, or lost.
        """
        before = [*zip(self._positions, self._levels, strict=True)]
        kept = [(position, levels) for position, levels in before if position < end_position]
        if not kept or kept[-1][1] != self.current:
            kept.append((end_position if kept else 0, self.current))
        while len(kept) > 1 and kept[1][0] <= min_position:
            del kept[0]
        self._positions, self._levels = [position for position, _ in kept], [levels for _, levels in kept]
        return kept != before

    def snapshot(self) -> bytes:
        """Return the content of delayLevels.json."""
        listed = [_LevelsSince(*one) for one in zip(self._positions, map(str, self._levels), strict=True)]
        return msgspec.json.format(msgspec.json.encode(_SavedLevels(listed)), indent=1)

    def restore(self, data: bytes) -> None:
        """Restore from delayLevels.json. Raises: msgspec.MsgspecError, UsageError, ValueError (it is invalid)."""
        listed = msgspec.json.decode(data, type=_SavedLevels).levels
        positions = [one.from_position for one in listed]
        levels = [DelayLevels.parse(one.message_delay_level) for one in listed]
        if not listed or positions != sorted(positions):
            raise ValueError("it must contain levels with ascending positions")
        self._positions, self._levels = positions, levels


class _LevelsSince(msgspec.Struct, rename="camel"):
    from_position: LogPosition
    message_delay_level: str


class _SavedLevels(msgspec.Struct):
    levels: list[_LevelsSince]
