"""The messages that wait for one broker, in the order in which they leave. Pure.

Invariants: the messages of a queue leave in the order they were added; while an ordered one is under way, from the
moment it is added until it is settled, no other message of its queue leaves.
"""

from collections import deque
from typing import NamedTuple

from staticfire.client.parcel import Parcel
from staticfire.client.queues import MessageQueue
from staticfire.protocol.times import UptimeMs


class Consignment(NamedTuple):
    """What leaves in one request."""

    parcels: list[Parcel]
    size: int
    deadline_ms: UptimeMs
    """That of the most urgent one."""


NOTHING = Consignment([], 0, UptimeMs(0))


class WaitingParcels:
    """A line of parcels, with side lines for queues that an ordered message has to itself."""

    __slots__ = ("_is_mixed", "line", "side_lines")

    def __init__(self) -> None:
        self.line: deque[Parcel] = deque()
        """Who may leave. Plain parcels may be appended as long as there are no side lines; all others go to `add`."""
        self.side_lines: dict[MessageQueue, deque[Parcel]] = {}
        """Who waits behind an ordered message, by queue. Never iterated."""
        self._is_mixed = False
        """Whether the line may hold others than first attempts that can share a request."""

    def __len__(self) -> int:
        """Return how many may leave now."""
        return len(self.line)

    def add(self, parcel: Parcel) -> None:
        """Put a parcel at the end of the line, or behind the ordered one of its queue."""
        self._is_mixed = True
        side_line = self.side_lines.get(parcel.queue)
        if side_line is not None:
            side_line.append(parcel)
            return
        self.line.append(parcel)
        if parcel.ordered:
            self.side_lines[parcel.queue] = deque()

    def take(self, messages_max: int, bytes_max: int) -> Consignment:
        """Remove and return what goes into one request: one that is alone, or messages up to the limits, at least one.

        In a line that is longer than a request, or mixed, parcels that nobody waits for any more are left out.
        """
        line = self.line
        if not line:
            return NOTHING
        if len(line) <= messages_max and not self._is_mixed:
            size = sum([parcel.size for parcel in line])
            if size <= bytes_max:
                parcels = list(line)
                line.clear()
                return Consignment(parcels, size, parcels[0].deadline_ms)
        taken = self._take_some(messages_max, bytes_max)
        if not line and not self.side_lines:
            self._is_mixed = False
        if not taken:
            return NOTHING
        deadline_ms = min([parcel.deadline_ms for parcel in taken])
        return Consignment(taken, sum([parcel.size for parcel in taken]), deadline_ms)

    def _take_some(self, messages_max: int, bytes_max: int) -> list[Parcel]:
        taken: list[Parcel] = []
        room = bytes_max
        line = self.line
        while line and len(taken) < messages_max:
            parcel = line[0]
            room -= parcel.size
            if taken and (room < 0 or parcel.alone):
                break
            taken.append(line.popleft())
            if parcel.alone:
                break
        return taken

    def take_all(self) -> list[Parcel]:
        """Remove and return everything that may leave, side lines not included."""
        taken = list(self.line)
        self.line.clear()
        return taken

    def settle(self, parcel: Parcel) -> None:
        """Let those behind an ordered parcel follow: up to and with the next ordered one of the queue."""
        if not parcel.ordered:
            return
        side_line = self.side_lines.pop(parcel.queue)
        while side_line:
            follower = side_line.popleft()
            self.line.append(follower)
            if follower.ordered:
                self.side_lines[parcel.queue] = side_line
                return
