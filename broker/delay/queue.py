"""Which message is delivered when: the delay levels as queues, read by offset. RocketMQ: ScheduleMessageService.

Each level is first in, first out, because all its messages wait equally long. So the next message of a level is the one
at its offset, and no state is needed per waiting message. To deliver in the order of due times over all levels, `due`
reads some entries of each level whose head is due, and merges them.

Invariants: the messages of a level are delivered in order; none is delivered before its due time; a level's offset
moves only after everything before it was delivered, and never backwards.
"""

from collections.abc import Container, Iterator, Sequence
from typing import Annotated, NamedTuple, Protocol

import msgspec

from staticfire.broker.delay.stored_form import Mark
from staticfire.broker.store.outcomes import Entry
from staticfire.protocol.limits import QUEUES_OF_TOPIC_MAX
from staticfire.protocol.numbers import INT64_MAX, LogPosition
from staticfire.protocol.requests.topics import DataVersion
from staticfire.protocol.times import MessageMs

# The smallest number of entries that is read from a level at once, if many levels are due.
_ENTRIES_MIN = 16


class LevelEntries(Protocol):
    """The entries of the levels' messages. An entry's tags code is its due time."""

    def end(self, level: int) -> int:
        """Return the offset after the last entry of a level."""

    def bounds(self, level: int) -> tuple[int, int]:
        """Return the first existing offset and the offset after the last one."""

    def entries(self, level: int, offset: int, count: int) -> Sequence[Entry]:
        """Return up to `count` entries from an offset within the bounds on. They are checked at delivery, not here."""

    def head(self, level: int, offset: int) -> Entry | None:
        """Return the entry at an offset within the bounds.

        It is checked, because a level waits until its head is due.
        """


class DueEntry(NamedTuple):
    """A due message. The fields are ordered so that entries sort in the order of delivery."""

    due_ms: int
    level: int
    offset: int
    log_position: int
    record_bytes: int
    tags_code: int
    """The due time in its entry; `due_ms` may be later, if an earlier message of the level has a later due time."""


_entry = DueEntry._make


class DelayQueue:
    """The delivery progress of each level."""

    def __init__(self, delays_ms: Sequence[int], entries: LevelEntries) -> None:
        """`delays_ms`: the delay of each level, level 1 first."""
        self._delays_ms = dict(enumerate(delays_ms, start=1))
        self._entries = entries
        self._offsets = dict.fromkeys(self._delays_ms, 0)
        # Offsets of levels that no longer exist. They may be configured again.
        self._gone: dict[int, int] = {}
        # The next entry of each level. A missing one must be read.
        self._heads: dict[int, Entry] = {}
        # The entries that were last read of each level, with their first offset: most of them weren't due yet.
        self._ahead: dict[int, tuple[int, Sequence[Entry]]] = {}
        # By level: how many messages were skipped because their records are gone, since that was last reported.
        self._skipped: dict[int, int] = {}
        self._version = 0

    @property
    def level_max(self) -> int:
        return len(self._delays_ms)

    # -- what is next --------------------------------------------------------------------------------------------

    def next_due_ms(self, message_ms: MessageMs) -> MessageMs | None:
        """Return when the next message of any level is due; None if none waits."""
        due = [self._due_ms(level, head.tags_code, message_ms) for level, head in self._next_of_levels()]
        return MessageMs(min(due)) if due else None

    def due(self, message_ms: MessageMs, limit: int, blocked: Container[int] = ()) -> list[DueEntry]:
        """Return at most `limit` messages that are due at that time, in the order of their due times.

        Those of the `blocked` levels are left out.
        """
        due = {level: self._due_ms(level, head.tags_code, message_ms) for level, head in self._next_of_levels()}
        due = {level: due_ms for level, due_ms in due.items() if due_ms <= message_ms and level not in blocked}
        count = max(limit // max(len(due), 1), _ENTRIES_MIN)
        found: list[DueEntry] = []
        looked_until_ms: int = message_ms
        for level, due_ms in due.items():
            offset = self._offsets[level]
            farthest_ms = message_ms + self._delays_ms[level]
            for position, record_bytes, tags_code in self._read_ahead(level, offset, count, message_ms):
                # An entry may be due before the previous one, which was stored when the level's delay was longer. It
                # waits for that one.
                if tags_code > due_ms:
                    due_ms = tags_code if tags_code <= farthest_ms else max(due_ms, message_ms)
                    if due_ms > message_ms:
                        break
                found.append(_entry((due_ms, level, offset, position, record_bytes, tags_code)))
                offset += 1
            if offset == self._offsets[level] + count:
                looked_until_ms = min(looked_until_ms, due_ms)  # This level may have more due messages after these.
        if len(due) == 1:
            return found[:limit]
        found.sort()
        return [entry for entry in found if entry.due_ms <= looked_until_ms][:limit]

    def _read_ahead(self, level: int, offset: int, count: int, message_ms: MessageMs) -> Sequence[Entry]:
        """Return up to `count` entries from the level's offset on; fewer if the last of them isn't due."""
        head = self._heads[level]
        start, entries = self._ahead.get(level, (offset, ()))
        if not entries or self._due_ms(level, entries[-1].tags_code, message_ms) <= message_ms:
            entries = ()
        if not start <= offset < start + len(entries) or entries[offset - start] != head:
            # The head was checked, the new entries weren't.
            start, entries = offset, [head, *self._entries.entries(level, offset, count)[1:]]
            self._ahead[level] = start, entries
        return entries[offset - start : offset - start + count]

    def read_anew(self) -> None:
        """Forget all entries that were read, because some were repaired."""
        self._heads.clear()
        self._ahead.clear()

    def _next_of_levels(self) -> Iterator[tuple[int, Entry]]:
        for level, offset in self._offsets.items():
            head = self._heads.get(level)
            if head is None and self._entries.end(level) <= offset:
                continue
            first, end = self._entries.bounds(level)
            if head is None or not first <= offset < end:
                self._heads.pop(level, None)  # It may have been removed by retention, or with the topic.
                if offset < first:
                    self._skipped[level] = self._skipped.get(level, 0) + first - offset
                    offset = self._offsets[level] = first
                head = self._entries.head(level, offset) if offset < end else None
                if head is None:
                    continue
                self._heads[level] = head
            yield level, head

    def _due_ms(self, level: int, due_ms: int, message_ms: MessageMs) -> int:
        """Return when an entry is due: now, if that is further away than the level's delay.

        The delay was longer when the message was stored. RocketMQ: correctDeliverTimestamp.
        """
        return due_ms if due_ms <= message_ms + self._delays_ms[level] else message_ms

    def first_position(self) -> int | None:
        """Return the log position of the oldest waiting message; None if none waits."""
        return min((head.log_position for _, head in self._next_of_levels()), default=None)

    # -- progress ------------------------------------------------------------------------------------------------

    def delivered(self, level: int, offset: int) -> None:
        """Note that all messages up to `offset` were delivered, or skipped for good."""
        if offset >= self._offsets[level]:
            self._offsets[level] = offset + 1
            self._heads.pop(level, None)
            self._version += 1

    def take_in(self, mark: Mark) -> None:
        """Note a delivery whose mark was found in the log."""
        if mark.level in self._offsets:
            self.delivered(mark.level, mark.offset)
        else:
            self._gone[mark.level] = max(self._gone.get(mark.level, 0), mark.offset + 1)

    def keep_within_bounds(self) -> dict[int, int]:
        """Correct impossible offsets; return the number of skipped messages by level. RocketMQ: correctDelayOffset."""
        for level, offset in self._offsets.items():
            first, end = self._entries.bounds(level)
            if offset < first:
                self._skipped[level] = self._skipped.get(level, 0) + first - offset
            self._offsets[level] = min(max(offset, first), end)
        self.read_anew()
        skipped, self._skipped = self._skipped, {}
        return skipped

    def forget_impossible(self) -> dict[int, int]:
        """Restart levels whose offset is after their end at offset 0, and return their old offsets.

        RocketMQ leaves them at the end, and so never delivers the messages that wait there.
        """
        beyond = {level: offset for level, offset in self._offsets.items() if offset > self._entries.bounds(level)[1]}
        for level in beyond:
            self._offsets[level] = 0
        return beyond

    def forget(self) -> None:
        """Reset the progress: all levels are empty again."""
        self._offsets = dict.fromkeys(self._offsets, 0)
        self._gone.clear()
        self._skipped.clear()
        self.read_anew()
        self._version += 1

    @property
    def version(self) -> int:
        """A number that grows with each change."""
        return self._version

    def offset(self, level: int) -> int:
        """Return the delivery progress of a level, also of one that no longer exists."""
        return self._offsets[level] if level in self._offsets else self._gone.get(level, 0)

    def waiting(self) -> dict[int, int]:
        """Return the number of waiting messages by level, without empty levels."""
        counts = {level: self._entries.bounds(level)[1] - offset for level, offset in self._offsets.items()}
        return {level: count for level, count in counts.items() if count > 0}

    def snapshot(self, log_position: int) -> bytes:
        """Return the content of delayOffset.json. It covers all deliveries before `log_position`."""
        table = {level: offset for level, offset in (self._offsets | self._gone).items() if offset}
        saved = {"dataVersion": DataVersion(counter=self._version), "offsetTable": table, "logPosition": log_position}
        return msgspec.json.format(msgspec.json.encode(saved), indent=1)

    def restore(self, data: bytes) -> int:
        """Restore from delayOffset.json and return its log position. Raises: msgspec.MsgspecError (it is invalid)."""
        saved = msgspec.json.decode(data, type=_SavedProgress)
        self._version = saved.data_version.counter
        for level, offset in saved.offset_table.items():
            (self._offsets if level in self._offsets else self._gone)[level] = offset
        return saved.log_position


_Level = Annotated[int, msgspec.Meta(ge=1, le=QUEUES_OF_TOPIC_MAX)]
_Offset = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]


class _SavedProgress(msgspec.Struct, rename="camel"):
    offset_table: dict[_Level, _Offset]
    data_version: DataVersion = DataVersion()
    log_position: LogPosition = 0
