"""Which half messages are open, and when each is to be asked about. Pure.

A half message is first asked about when it is `transactionTimeOut` old (or older, if it asks for more), then every
`transactionCheckInterval`. RocketMQ looks at all of them every interval: there the first question comes up to one
interval later. Those that began together have one place in the heap of due times; those that have ended leave it when
their time comes, or when more have ended than are open.
"""

from heapq import heappop, heappush, heapreplace
from typing import NamedTuple

import msgspec

from staticfire.protocol.numbers import LogPosition
from staticfire.protocol.record import StoredRecord, decode_record
from staticfire.protocol.times import MessageMs

ENDED_DUE_MAX = 4_096
# Beside as many as are open, more that have ended don't stay in the heap.


RECENT_MAX, RECENT_BODY_BYTES_MAX = 1_024, 8_192
# How many are kept in memory, and how large a body may be: 8 MiB together. The compiled twin knows the second, too.


class OpenHalf(NamedTuple):
    """One half message."""

    log_position: int
    group: str
    """Whose producers are asked."""
    due_ms: int
    checks: int = 0


class SavedHalves(msgspec.Struct, rename="camel", gc=False):
    """What a start needs: the open ones of before `half_end` and `op_end`, and from where on to read."""

    half_end: LogPosition = 0
    op_end: LogPosition = 0
    checks: dict[LogPosition, LogPosition] = {}
    """By queue offset: how often each open one was asked about."""


class OpenHalves:
    """The open half messages of one broker, by queue offset."""

    def __init__(self) -> None:
        self.halves: dict[int, tuple[int, str, int, int]] = {}
        """Each as `OpenHalf` has it; compiled code makes these."""
        self._due: list[tuple[int, int, list[int]]] = []
        # Due time, offset, and the offsets behind it that are due at the same time, the next one last.
        self._ended = 0
        # Since they were last removed from the heap.

    def __len__(self) -> int:
        return len(self.halves)

    def begin(self, offset: int, half: OpenHalf) -> None:
        """Take in a half message."""
        self.halves[offset] = half
        heappush(self._due, (half.due_ms, offset, []))

    def begin_all(self, halves: dict[int, tuple[int, str, int, int]], due_ms: int) -> None:
        """Take in half messages that are due at the same time, in the order of their offsets."""
        self.halves.update(halves)
        offsets = [*reversed(halves)]
        heappush(self._due, (due_ms, offsets.pop(), offsets))

    def end_all(self, offsets: list[int]) -> None:
        """Forget those that were ended."""
        pop = self.halves.pop
        for offset in offsets:
            pop(offset, None)
        self._ended += len(offsets)
        if self._ended > len(self.halves) + ENDED_DUE_MAX:
            self._ended = 0
            self._due = sorted((due_ms, offset, []) for offset, (_, _, due_ms, _) in self.halves.items())

    def get(self, offset: int) -> OpenHalf:
        """Return one that is open."""
        return OpenHalf(*self.halves[offset])

    def postpone(self, offset: int, due_ms: MessageMs, checks: int | None = None) -> None:
        """Ask about one again at that time; it was asked about so often."""
        if offset in self.halves:
            half = self.get(offset)
            self.halves[offset] = half._replace(due_ms=due_ms, checks=half.checks if checks is None else checks)
            heappush(self._due, (due_ms, offset, []))

    def forgive(self, offsets: list[int]) -> None:
        """Count the newest question about these as not asked."""
        for offset in offsets:
            half = self.halves.get(offset)
            if half is not None and half[3]:
                self.halves[offset] = OpenHalf(*half)._replace(checks=half[3] - 1)

    def next_due_ms(self) -> MessageMs | None:
        """Return when the next one is to be asked about."""
        self._skip_ended()
        return MessageMs(self._due[0][0]) if self._due else None

    def take_due(self, message_ms: MessageMs, count_max: int) -> list[int]:
        """Return who is to be asked about by now, in that order; each is to be postponed or ended then."""
        due: list[int] = []
        while len(due) < count_max:
            self._skip_ended()
            if not self._due or self._due[0][0] > message_ms:
                break
            due.append(self._due[0][1])
            self._leave()
        return due

    def _skip_ended(self) -> None:
        while self._due:
            due_ms, offset, _ = self._due[0]
            half = self.halves.get(offset)
            if half is not None and half[2] == due_ms:
                return
            self._leave()

    def _leave(self) -> None:
        """Let the first one leave the heap, and the one behind it take its place."""
        due_ms, _, rest = self._due[0]
        if rest:
            heapreplace(self._due, (due_ms, rest.pop(), rest))
        else:
            heappop(self._due)

    def forget(self) -> None:
        """Start anew."""
        self.halves.clear()
        self._due.clear()
        self._ended = 0

    def saved(self, half_end: int, op_end: int) -> SavedHalves:
        """Return what to keep."""
        checks = {offset: checks for offset, (_, _, _, checks) in self.halves.items() if offset < half_end}
        return SavedHalves(half_end, op_end, checks)


class RecentHalves:
    """The newest half messages by log position, as records or, where they came in a run, as they lie in the log.

    Most are ended soon, and don't have to be read for it. Invariant: whatever is kept is open, and its end isn't on the
    burst. Who ends one, or asks about it, takes it out.
    """

    def __init__(self) -> None:
        self.by_position: dict[int, StoredRecord | bytes] = {}

    def add(self, log_position: int, half: StoredRecord | bytes) -> None:
        """Keep one, in place of the oldest when there are too many."""
        kept = self.by_position
        if len(kept) >= RECENT_MAX:
            del kept[next(iter(kept))]
        kept[log_position] = half

    def add_all(self, records: dict[int, bytes]) -> None:
        """Keep those that came in a run."""
        kept = self.by_position
        kept.update(records)
        while len(kept) > RECENT_MAX:
            del kept[next(iter(kept))]

    def take(self, log_position: int) -> StoredRecord | None:
        """Return one and keep it no longer; None if there is none."""
        half = self.by_position.pop(log_position, None)
        return decode_record(half) if isinstance(half, bytes) else half

    def clear(self) -> None:
        """Keep none."""
        self.by_position.clear()
