"""What is delivered when: the delay levels as queues, read by offset. RocketMQ: ScheduleMessageService.

Each level is first in, first out: everybody waits equally long. So the next message of a level is the one at its
offset, and nothing is kept per message that waits. Invariants: a level's messages come in their order; none comes
before its due time; a level's offset moves only when what lies before it was delivered, and never back.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, NamedTuple, Protocol

import msgspec

from staticfire.broker.delay.stored_form import Mark
from staticfire.broker.store.outcomes import Entry
from staticfire.protocol.limits import QUEUES_OF_TOPIC_MAX
from staticfire.protocol.numbers import INT64_MAX, LogPosition
from staticfire.protocol.requests.topics import DataVersion
from staticfire.protocol.times import MessageMs

_ENTRIES_MIN = 16
# Read of a level at once, if many levels are due.


class LevelEntries(Protocol):
    """Where the messages of the levels are. An entry's tags code is its due time."""

    def bounds(self, level: int) -> tuple[int, int]:
        """Return the first offset that there is and the one behind the last."""

    def entries(self, level: int, offset: int, count: int) -> Sequence[Entry]:
        """Return up to `count` entries from an offset within the bounds on, as they are: who delivers checks them."""

    def head(self, level: int, offset: int) -> Entry | None:
        """Return the entry at an offset within the bounds, checked: a level waits as long as its head says."""


class DueEntry(NamedTuple):
    """A message whose time has come; they sort in the order of delivery."""

    due_ms: int
    level: int
    offset: int
    log_position: int
    record_bytes: int
    tags_code: int
    """What its entry says of the due time; `due_ms` may be later, that of its forerunner."""


_entry = DueEntry._make


class DelayQueue:
    """How far each level has been delivered."""

    def __init__(self, delays_ms: Sequence[int], entries: LevelEntries) -> None:
        """`delays_ms`: of each level, level 1 first."""
        self._delays_ms = dict(enumerate(delays_ms, start=1))
        self._entries = entries
        self._offsets = dict.fromkeys(self._delays_ms, 0)
        self._gone: dict[int, int] = {}
        # Offsets of levels that there were once: they may come back.
        self._heads: dict[int, Entry] = {}
        # The next entry of a level; missing when it has to be read.
        self._ahead: dict[int, tuple[int, Sequence[Entry]]] = {}
        # The entries of a level that were read last, from which offset on: most of them weren't due yet.
        self._version = 0

    @property
    def level_max(self) -> int:
        return len(self._delays_ms)

    # -- what is next --------------------------------------------------------------------------------------------

    def next_due_ms(self, message_ms: MessageMs) -> MessageMs | None:
        """Return when the next message of any level is due; None when none waits."""
        due = [self._due_ms(level, head.tags_code, message_ms) for level, head in self._next_of_levels()]
        return MessageMs(min(due)) if due else None

    def due(self, message_ms: MessageMs, limit: int) -> list[DueEntry]:
        """Return messages that are due by then, at most `limit`, in the order of their due times; empty for none."""
        due = {level: self._due_ms(level, head.tags_code, message_ms) for level, head in self._next_of_levels()}
        due = {level: due_ms for level, due_ms in due.items() if due_ms <= message_ms}
        count = max(limit // max(len(due), 1), _ENTRIES_MIN)
        found: list[DueEntry] = []
        looked_until_ms: int = message_ms
        for level, due_ms in due.items():
            offset = self._offsets[level]
            farthest_ms = message_ms + self._delays_ms[level]
            for position, record_bytes, tags_code in self._read_ahead(level, offset, count, message_ms):
                # One that is due before its forerunner was stored when the level's delay was longer: it waits for it.
                if tags_code > due_ms:
                    due_ms = tags_code if tags_code <= farthest_ms else max(due_ms, message_ms)
                    if due_ms > message_ms:
                        break
                found.append(_entry((due_ms, level, offset, position, record_bytes, tags_code)))
                offset += 1
            if offset == self._offsets[level] + count:
                looked_until_ms = min(looked_until_ms, due_ms)  # there may be more of this level behind that
        if len(due) == 1:
            return found[:limit]
        found.sort()
        return [entry for entry in found if entry.due_ms <= looked_until_ms][:limit]

    def _read_ahead(self, level: int, offset: int, count: int, message_ms: MessageMs) -> Sequence[Entry]:
        """Return up to `count` entries from an offset on, the level's head; fewer if the last one of them isn't due."""
        head = self._heads[level]
        start, entries = self._ahead.get(level, (offset, ()))
        if not entries or self._due_ms(level, entries[-1].tags_code, message_ms) <= message_ms:
            entries = ()
        if not start <= offset < start + len(entries) or entries[offset - start] != head:
            # The head was checked, what is read now wasn't.
            start, entries = offset, [head, *self._entries.entries(level, offset, count)[1:]]
            self._ahead[level] = start, entries
        return entries[offset - start : offset - start + count]

    def read_anew(self) -> None:
        """Forget what was read: entries have been put right."""
        self._heads.clear()
        self._ahead.clear()

    def _next_of_levels(self) -> Iterator[tuple[int, Entry]]:
        for level, offset in self._offsets.items():
            head = self._heads.get(level)
            first, end = self._entries.bounds(level)
            if head is None or not first <= offset < end:
                self._heads.pop(level, None)  # Retention may have removed it meanwhile, or a deletion of the topic.
                if offset < first:
                    offset = self._offsets[level] = first
                head = self._entries.head(level, offset) if offset < end else None
                if head is None:
                    continue
                self._heads[level] = head
            yield level, head

    def _due_ms(self, level: int, due_ms: int, message_ms: MessageMs) -> int:
        """Return when an entry is due: at once if that is further away than the level's delay, which was longer once.

        RocketMQ: correctDeliverTimestamp.
        """
        return due_ms if due_ms <= message_ms + self._delays_ms[level] else message_ms

    # -- how far it has come -------------------------------------------------------------------------------------

    def delivered(self, level: int, offset: int) -> None:
        """Note that the messages up to that at `offset` were delivered, or skipped for good."""
        if offset >= self._offsets[level]:
            self._offsets[level] = offset + 1
            self._heads.pop(level, None)
            self._version += 1

    def take_in(self, mark: Mark) -> None:
        """Note a delivery of which the log has the mark."""
        if mark.level in self._offsets:
            self.delivered(mark.level, mark.offset)
        else:
            self._gone[mark.level] = max(self._gone.get(mark.level, 0), mark.offset + 1)

    def keep_within_bounds(self) -> None:
        """Correct offsets that can't be. RocketMQ: correctDelayOffset."""
        for level, offset in self._offsets.items():
            first, end = self._entries.bounds(level)
            self._offsets[level] = min(max(offset, first), end)
        self.read_anew()

    def forget_impossible(self) -> dict[int, int]:
        """Let levels that stand behind their end begin anew, and return where they stood.

        RocketMQ lets them stand at the end: what waits there is never delivered.
        """
        beyond = {level: offset for level, offset in self._offsets.items() if offset > self._entries.bounds(level)[1]}
        for level in beyond:
            self._offsets[level] = 0
        return beyond

    def forget(self) -> None:
        """Start anew: all levels are empty again."""
        self._offsets = dict.fromkeys(self._offsets, 0)
        self._gone.clear()
        self.read_anew()
        self._version += 1

    @property
    def version(self) -> int:
        """Grows with each change."""
        return self._version

    def offset(self, level: int) -> int:
        """Return how far a level has been delivered, also one that there was once."""
        return self._offsets[level] if level in self._offsets else self._gone.get(level, 0)

    def waiting(self) -> dict[int, int]:
        """Return how many messages wait, by level; levels without any are left out."""
        counts = {level: self._entries.bounds(level)[1] - offset for level, offset in self._offsets.items()}
        return {level: count for level, count in counts.items() if count > 0}

    def snapshot(self, log_position: int) -> bytes:
        """Return delayOffset.json; `log_position`: it knows of all deliveries before that."""
        table = {level: offset for level, offset in (self._offsets | self._gone).items() if offset}
        saved = {"dataVersion": DataVersion(counter=self._version), "offsetTable": table, "logPosition": log_position}
        return msgspec.json.format(msgspec.json.encode(saved), indent=1)

    def restore(self, data: bytes) -> int:
        """Take over delayOffset.json and return its log position. Raises: msgspec.MsgspecError when it is none."""
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
