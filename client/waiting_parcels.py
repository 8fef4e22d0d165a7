"""The messages that wait for one broker, in the order in which they leave. Pure.

Invariants: the messages of a queue leave in the order they were added; while an ordered one is under way, from the
moment it is added until it is settled, no other message of its queue leaves.
"""

from collections import deque

from staticfire.client.parcel import Parcel
from staticfire.client.queues import MessageQueue


class WaitingParcels:
    """A line of parcels, with side lines for queues that an ordered message has to itself."""

    __slots__ = ("_line", "_side_lines")

    def __init__(self) -> None:
        self._line: deque[Parcel] = deque()
        self._side_lines: dict[MessageQueue, deque[Parcel]] = {}

    def __len__(self) -> int:
        """Return how many may leave now."""
        return len(self._line)

    def add(self, parcel: Parcel) -> None:
        """Put a parcel at the end of the line, or behind the ordered one of its queue."""
        if self._side_lines:
            side_line = self._side_lines.get(parcel.queue)
            if side_line is not None:
                side_line.append(parcel)
                return
        self._line.append(parcel)
        if parcel.ordered:
            self._side_lines[parcel.queue] = deque()

    def take(self, messages_max: int, bytes_max: int) -> list[Parcel]:
        """Remove and return what goes into one request: one that is alone, or messages up to the limits, at least one.

        Parcels that nobody waits for any more are passed over: they come back as settled from here.
        """
        taken: list[Parcel] = []
        room = bytes_max
        line = self._line
        while line and len(taken) < messages_max:
            parcel = line[0]
            if parcel.future.done():
                self.settle(line.popleft())
                continue
            room -= parcel.size
            if taken and (room < 0 or parcel.alone):
                break
            taken.append(line.popleft())
            if parcel.alone:
                break
        return taken

    def take_all(self) -> list[Parcel]:
        """Remove and return everything that may leave, side lines not included."""
        taken = list(self._line)
        self._line.clear()
        return taken

    def settle(self, parcel: Parcel) -> None:
        """Let those behind an ordered parcel follow: up to and with the next ordered one of the queue."""
        if not parcel.ordered:
            return
        side_line = self._side_lines.pop(parcel.queue)
        while side_line:
            follower = side_line.popleft()
            self._line.append(follower)
            if follower.ordered:
                self._side_lines[parcel.queue] = side_line
                return
