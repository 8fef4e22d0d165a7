"""Pops and notifications that found nothing and wait. Pure. RocketMQ: PopLongPollingService.

They are kept by topic, group and queue id of their request. Each ends once: woken, expired, or dropped with its
connection. If an arrival could wake several, it wakes one: the pop with the earliest deadline, or the notification with
the latest deadline.

All deadlines are in one heap. Each hold has a number of its own, because a pop that was woken in vain is held again:
its earlier entry in the heap isn't valid then. Such entries are removed when there are more of them than others.
"""

from bisect import insort
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush

import msgspec

from staticfire.broker.pulls.checks import Wanted
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.dispatcher import Call

Key = tuple[str, int]
"""Group and queue id of the request."""
_STALE_MIN = 1024


class HeldPop(msgspec.Struct, gc=False, eq=False):
    """A pop or a notification that waits."""

    call: Call
    topic: str
    key: Key
    deadline_ms: UptimeMs
    wanted: Wanted = None
    hold_number: int = 0
    """The number of its current hold; 0 while it isn't held."""


_Due = tuple[int, int, HeldPop]
"""Deadline, the number of the hold, the pop."""


class HeldPops:
    """All held pops, or all held notifications."""

    def __init__(self, takes_last: bool = False) -> None:
        """`takes_last`: wake the one with the latest deadline first."""
        self._takes_last = takes_last
        self._by_topic: dict[str, dict[Key, list[HeldPop]]] = {}
        self._dues: list[_Due] = []
        self._last_number = 0
        self.count = 0
        """How many are held."""

    def count_of(self, topic: str, key: Key) -> int:
        """Return how many wait with this key."""
        return len(self._by_topic.get(topic, {}).get(key, ()))

    def keys_of(self, topic: str, queue_id: int) -> list[Key]:
        """Return the keys of the pops that a message in this queue can wake."""
        return [key for key in self._by_topic.get(topic, ()) if key[1] in (-1, queue_id)]

    def keys_of_group(self, topic: str, group: str) -> list[Key]:
        """Return the keys of a group; that for all queues is first."""
        return sorted(key for key in self._by_topic.get(topic, ()) if key[0] == group)

    def hold(self, pop: HeldPop) -> None:
        """Hold a pop."""
        insort(self._by_topic.setdefault(pop.topic, {}).setdefault(pop.key, []), pop, key=_deadline_of)
        self.count += 1
        self._last_number += 1
        pop.hold_number = self._last_number
        heappush(self._dues, (pop.deadline_ms, pop.hold_number, pop))
        if len(self._dues) > 2 * self.count + _STALE_MIN:
            self._dues = [due for due in self._dues if _is_valid(due)]
            heapify(self._dues)

    def take(self, topic: str, key: Key, fits: Callable[[HeldPop], bool]) -> HeldPop | None:
        """Remove and return a pop to wake. Pops whose connection is closed are dropped."""
        waiting = self._by_topic.get(topic, {}).get(key, [])
        for pop in [*reversed(waiting)] if self._takes_last else [*waiting]:
            if not pop.call.connection.is_open:
                self._remove(pop)
            elif fits(pop):
                self._remove(pop)
                return pop
        return None

    def cancel(self, topic: str, group: str, is_meant: Callable[[HeldPop], bool]) -> HeldPop | None:
        """Remove and return the pop of a group that is meant, of any key; None if it isn't held."""
        found = (self.take(topic, key, is_meant) for key in self.keys_of_group(topic, group))
        return next((pop for pop in found if pop is not None), None)

    def next_deadline_ms(self) -> UptimeMs | None:
        """Return the earliest deadline."""
        while self._dues and not _is_valid(self._dues[0]):
            heappop(self._dues)
        return UptimeMs(self._dues[0][0]) if self._dues else None

    def expire(self, uptime_ms: UptimeMs) -> Iterator[HeldPop]:
        """Remove and yield the pops whose deadline has passed."""
        while (deadline_ms := self.next_deadline_ms()) is not None and deadline_ms <= uptime_ms:
            pop = heappop(self._dues)[2]
            self._remove(pop)
            yield pop

    def take_all(self) -> list[HeldPop]:
        """Remove and return all pops."""
        pops = [due[2] for due in sorted(self._dues, key=_order_of) if _is_valid(due)]
        for pop in pops:
            self._remove(pop)
        return pops

    def drop(self, is_gone: Callable[[HeldPop], bool]) -> None:
        """Drop the pops for which `is_gone` is true."""
        for due in self._dues:
            if _is_valid(due) and is_gone(due[2]):
                self._remove(due[2])

    def _remove(self, pop: HeldPop) -> None:
        pop.hold_number = 0
        self.count -= 1
        keys = self._by_topic[pop.topic]
        waiting = keys[pop.key]
        waiting.remove(pop)
        if not waiting:
            del keys[pop.key]
            if not keys:
                del self._by_topic[pop.topic]


def _deadline_of(pop: HeldPop) -> int:
    return pop.deadline_ms


def _is_valid(due: _Due) -> bool:
    return due[2].hold_number == due[1]


def _order_of(due: _Due) -> tuple[int, int]:
    return due[:2]
