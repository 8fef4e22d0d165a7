"""Popped messages that are not done, by queue and by due time. Pure.

A check-point is stored as two numbers instead of an object, since there may be a hundred thousand of them:

    key     start offset << 50 | pop time                 an acknowledgement contains both
    value   messages << 88 | owner << 64 | due time       messages: bits, counted from the start offset

All due times are in one heap of numbers. The entry of an acknowledged check-point is removed later: when the heap has
more such entries than others, it is rebuilt.
"""

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from staticfire.broker.pop.events import GroupQueue

POP_MS_BITS = 50
POP_MS_MAX = (1 << POP_MS_BITS) - 1
DUE_BITS, OWNER_BITS = 64, 24
DUE_MS_MAX = (1 << 62) - 1
"""The limit of due times. Clients may request any invisible time, but records and responses contain 64 bits."""
NEVER_MS = 1 << 63
OWNERS_MAX = (1 << OWNER_BITS) - 1
NO_CLIENT = 0
GIVEN_BACK = OWNERS_MAX
_OWNER_MASK = OWNERS_MAX
_DUE_MASK = (1 << DUE_BITS) - 1
_MESSAGES_SHIFT = DUE_BITS + OWNER_BITS
_KEY_BITS = POP_MS_BITS + 63
_KEY_MASK = (1 << _KEY_BITS) - 1
_QUEUE_BITS = 32
_QUEUE_MASK = (1 << _QUEUE_BITS) - 1
_STALE_MIN = 1024


class CheckPoint(NamedTuple):
    """The messages that one pop took from one queue and that are not done."""

    start: int
    pop_ms: int
    messages: int
    """Bits, counted from `start`."""
    due_ms: int
    owner: int
    """The number of the client that has them. NO_CLIENT: after a restart. GIVEN_BACK: the client failed to consume
    them."""

    def runs(self) -> Iterator[tuple[int, int]]:
        """Yield the runs of successive messages: the first and the last offset of each run."""
        messages, at = self.messages, self.start
        while messages:
            gap = _trailing_zeros(messages)
            count = _trailing_zeros(~(messages >> gap))
            yield at + gap, at + gap + count - 1
            messages >>= gap + count
            at += gap + count


class PoppedQueue:
    """The messages that one group has popped from one queue."""

    __slots__ = ("check_points", "count", "number", "place")

    def __init__(self, place: GroupQueue, number: int) -> None:
        self.place = place
        self.number = number
        self.check_points: dict[int, int] = {}
        self.count = 0
        """The number of messages in all check-points."""

    def find(self, start: int, pop_ms: int) -> CheckPoint | None:
        """Return a check-point; None if there is none. Accepts any numbers, since clients send them."""
        if start < 0 or not 0 <= pop_ms <= POP_MS_MAX:
            return None
        value = self.check_points.get(start << POP_MS_BITS | pop_ms)
        return None if value is None else _unpacked(start << POP_MS_BITS | pop_ms, value)

    def __iter__(self) -> Iterator[CheckPoint]:
        for key, value in self.check_points.items():
            yield _unpacked(key, value)


class InFlight:
    """All check-points of a broker."""

    def __init__(self) -> None:
        self._by_place: dict[tuple[str, str, int], PoppedQueue] = {}
        self._by_number: dict[int, PoppedQueue] = {}
        self._next_number = 0
        self._dues: list[int] = []
        self.check_points = 0
        """The number of check-points."""
        self.soonest_ms = NEVER_MS
        """The earliest due time that was added since the last call of `take_soonest`."""

    def take_soonest(self) -> int:
        """Return the earliest due time that was added since the last call, NEVER_MS for none."""
        soonest_ms, self.soonest_ms = self.soonest_ms, NEVER_MS
        return soonest_ms

    def find(self, group: str, topic: str, queue_id: int) -> PoppedQueue | None:
        """Return the messages that a group has popped from a queue; None if it never popped from it."""
        return self._by_place.get((group, topic, queue_id))

    def queue_of(self, place: GroupQueue) -> PoppedQueue:
        """Return the messages that a group has popped from a queue; create an empty object if there is none."""
        key = (place.group, place.topic, place.queue_id)
        queue = self._by_place.get(key)
        if queue is None:
            queue = self._by_place[key] = PoppedQueue(place, self._next_number)
            self._by_number[self._next_number] = queue
            self._next_number += 1
        return queue

    def __iter__(self) -> Iterator[PoppedQueue]:
        return iter(list(self._by_place.values()))

    # -- changes -------------------------------------------------------------------------------------------------

    def put(self, queue: PoppedQueue, new: CheckPoint) -> None:
        """Add or replace a check-point."""
        key = new.start << POP_MS_BITS | new.pop_ms
        old = queue.check_points.get(key)
        if old is None:
            self.check_points += 1
        else:
            queue.count -= (old >> _MESSAGES_SHIFT).bit_count()
        queue.count += new.messages.bit_count()
        due_ms = min(max(new.due_ms, 0), DUE_MS_MAX)
        queue.check_points[key] = new.messages << _MESSAGES_SHIFT | new.owner << DUE_BITS | due_ms
        if due_ms < self.soonest_ms:
            self.soonest_ms = due_ms
        heappush(self._dues, (due_ms << _QUEUE_BITS | queue.number) << _KEY_BITS | key)
        if len(self._dues) > 2 * self.check_points + _STALE_MIN:
            self._forget_stale()

    def remove(self, queue: PoppedQueue, start: int, pop_ms: int, messages: int) -> int:
        """Remove messages from a check-point; return those that it contained."""
        key = start << POP_MS_BITS | pop_ms
        value = queue.check_points.get(key)
        if value is None:
            return 0
        found = value >> _MESSAGES_SHIFT & messages
        if found:
            queue.count -= found.bit_count()
            value ^= found << _MESSAGES_SHIFT
            if value >> _MESSAGES_SHIFT:
                queue.check_points[key] = value
            else:
                del queue.check_points[key]
                self.check_points -= 1
        return found

    def forget_topic(self, topic: str) -> None:
        """Remove all check-points of a topic."""
        for key in [key for key in self._by_place if key[1] == topic]:
            queue = self._by_place.pop(key)
            del self._by_number[queue.number]
            self.check_points -= len(queue.check_points)

    # -- due times -----------------------------------------------------------------------------------------------

    def next_due_ms(self) -> int | None:
        """Return when the next invisible time is over; None if nothing is in flight."""
        found = self._front()
        return None if found is None else found[1].due_ms

    def take_due(self, message_ms: int) -> tuple[PoppedQueue, CheckPoint] | None:
        """Return a check-point that is due by then, or None. The caller must `remove` it, or `put` it again."""
        found = self._front()
        if found is None or found[1].due_ms > message_ms:
            return None
        due = heappop(self._dues)
        while self._dues and self._dues[0] == due:
            heappop(self._dues)  # The same entry was added more than once.
        return found

    def _front(self) -> tuple[PoppedQueue, CheckPoint] | None:
        dues = self._dues
        while dues:
            due = dues[0]
            key, queue = due & _KEY_MASK, self._by_number.get(due >> _KEY_BITS & _QUEUE_MASK)
            value = None if queue is None else queue.check_points.get(key)
            if queue is not None and value is not None and value & _DUE_MASK == due >> _KEY_BITS + _QUEUE_BITS:
                return queue, _unpacked(key, value)
            heappop(dues)
        return None

    def _forget_stale(self) -> None:
        self._dues = [
            ((value & _DUE_MASK) << _QUEUE_BITS | queue.number) << _KEY_BITS | key
            for queue in self._by_place.values()
            for key, value in queue.check_points.items()
        ]
        heapify(self._dues)


def joined_runs(check_points: Iterable[CheckPoint]) -> list[list[int]]:
    """Return the offsets of the messages in check-points: the first and the last of each run, ascending."""
    joined: list[list[int]] = []
    for first, last in sorted(run for one in check_points for run in one.runs()):
        if joined and first <= joined[-1][1] + 1:
            joined[-1][1] = max(last, joined[-1][1])
        else:
            joined.append([first, last])
    return joined


def _trailing_zeros(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _unpacked(key: int, value: int) -> CheckPoint:
    return CheckPoint(
        key >> POP_MS_BITS, key & POP_MS_MAX, value >> _MESSAGES_SHIFT, value & _DUE_MASK,
        value >> DUE_BITS & _OWNER_MASK,
    )  # fmt: skip
