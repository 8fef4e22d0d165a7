"""Which half messages are open, and when each must be checked. Pure.

A half message is checked for the first time at the age of `transactionTimeOut` (or later, if it requests that), then
every `transactionCheckInterval`. RocketMQ scans all of them every interval, so there the first check is up to one
interval later. Half messages that began together share one item in the heap of due times. Those that have ended leave
the heap at their due time, or when more have ended than are open.
"""

from heapq import heappop, heappush, heapreplace
from typing import NamedTuple

import msgspec

from staticfire.protocol.numbers import LogPosition
from staticfire.protocol.record import StoredRecord, decode_record
from staticfire.protocol.times import MessageMs

# The heap is rebuilt when it contains this number of ended half messages more than there are open ones.
ENDED_DUE_MAX = 4_096


# The number of half messages in memory, and the largest body: 8 MiB together. The compiled extension has the second,
# too.
RECENT_MAX, RECENT_BODY_BYTES_MAX = 1_024, 8_192


class OpenHalf(NamedTuple):
    """One half message."""

    log_position: int
    group: str
    """The producer group to check with."""
    due_ms: int
    checks: int = 0


class SavedHalves(msgspec.Struct, rename="camel", gc=False):
    """The saved state: the open half messages before `half_end` and `op_end`.

    A start reads the queues from there on.
    """

    half_end: LogPosition = 0
    op_end: LogPosition = 0
    checks: dict[LogPosition, LogPosition] = {}
    """By queue offset: the number of checks of each open half message."""
    committed_late: list[LogPosition] = []
    """The queue offsets of half messages that were committed after they were moved away."""


class OpenHalves:
    """The open half messages of one broker, by queue offset."""

    def __init__(self) -> None:
        self.halves: dict[int, tuple[int, str, int, int]] = {}
        """The fields of `OpenHalf`, as plain tuples because compiled code creates them, too."""
        # Due time, offset, and the later offsets with the same due time, in descending order.
        self._due: list[tuple[int, int, list[int]]] = []
        # The number of half messages that ended since ended ones were last removed from the heap.
        self._ended = 0

    def __len__(self) -> int:
        return len(self.halves)

    def begin(self, offset: int, half: OpenHalf) -> None:
        """Add a half message."""
        self.halves[offset] = half
        heappush(self._due, (half.due_ms, offset, []))

    def begin_all(self, halves: dict[int, tuple[int, str, int, int]], due_ms: int) -> None:
        """Add half messages with the same due time, in the order of their offsets."""
        self.halves.update(halves)
        offsets = [*reversed(halves)]
        heappush(self._due, (due_ms, offsets.pop(), offsets))

    def end_all(self, offsets: list[int]) -> None:
        """Remove half messages that were ended."""
        pop = self.halves.pop
        for offset in offsets:
            pop(offset, None)
        self._ended += len(offsets)
        if self._ended > len(self.halves) + ENDED_DUE_MAX:
            self._order_anew()

    def _order_anew(self) -> None:
        self._ended = 0
        self._due = sorted((due_ms, offset, []) for offset, (_, _, due_ms, _) in self.halves.items())

    def get(self, offset: int) -> OpenHalf:
        """Return an open half message."""
        return OpenHalf(*self.halves[offset])

    def postpone(self, offset: int, due_ms: MessageMs, checks: int | None = None) -> None:
        """Set the next check of a half message, and the number of its checks so far."""
        if offset in self.halves:
            half = self.get(offset)
            self.halves[offset] = half._replace(due_ms=due_ms, checks=half.checks if checks is None else checks)
            heappush(self._due, (due_ms, offset, []))

    def hasten(self, by_ms: int) -> None:
        """Let the first check of each half message be due that much earlier."""
        for offset, half in self.halves.items():
            if not half[3]:
                self.halves[offset] = OpenHalf(*half)._replace(due_ms=half[2] - by_ms)
        self._order_anew()

    def forgive(self, offsets: list[int]) -> None:
        """Don't count the last check of these half messages."""
        for offset in offsets:
            half = self.halves.get(offset)
            if half is not None and half[3]:
                self.halves[offset] = OpenHalf(*half)._replace(checks=half[3] - 1)

    def first_position(self) -> int | None:
        """Return the log position of the oldest open half message; None if there is none."""
        return min((log_position for log_position, *_ in self.halves.values()), default=None)

    def next_due_ms(self) -> MessageMs | None:
        """Return when the next half message must be checked."""
        self._skip_ended()
        return MessageMs(self._due[0][0]) if self._due else None

    def take_due(self, message_ms: MessageMs, count_max: int) -> list[int]:
        """Remove from the heap and return the half messages due by now, in order.

        The caller must postpone or end each.
        """
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
        """Replace the first item of the heap by the next offset of the same item, if there is one."""
        due_ms, _, rest = self._due[0]
        if rest:
            heapreplace(self._due, (due_ms, rest.pop(), rest))
        else:
            heappop(self._due)

    def forget(self) -> None:
        """Reset everything."""
        self.halves.clear()
        self._due.clear()
        self._ended = 0

    def checks_before(self, half_end: int) -> dict[int, int]:
        """Return the number of checks of each half message before an offset."""
        return {offset: checks for offset, (_, _, _, checks) in self.halves.items() if offset < half_end}


class RecentHalves:
    """The newest half messages by log position, as records or, if they came in a run, as stored bytes.

    Most half messages are ended soon, and needn't be read for it. Invariant: each one here is open, and its end isn't
    in the burst. A caller that ends or checks one removes it from here.
    """

    def __init__(self) -> None:
        self.by_position: dict[int, StoredRecord | bytes] = {}

    def add(self, log_position: int, half: StoredRecord | bytes) -> None:
        """Add one, and remove the oldest if there are too many."""
        kept = self.by_position
        if len(kept) >= RECENT_MAX:
            del kept[next(iter(kept))]
        kept[log_position] = half

    def add_all(self, records: dict[int, bytes]) -> None:
        """Add those that came in a run."""
        kept = self.by_position
        kept.update(records)
        while len(kept) > RECENT_MAX:
            del kept[next(iter(kept))]

    def take(self, log_position: int) -> StoredRecord | None:
        """Remove and return one; None if it isn't here."""
        half = self.by_position.pop(log_position, None)
        return decode_record(half) if isinstance(half, bytes) else half

    def clear(self) -> None:
        """Remove all."""
        self.by_position.clear()
