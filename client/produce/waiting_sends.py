"""The messages that wait for one broker, in the order of sending. Pure.

Invariants: the messages of a queue are sent in the order they were added. While an ordered message is in flight, from
when it is added until it is settled, no other message of its queue is sent.
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.produce.pending_send import PendingSend
from staticfire.protocol.times import UptimeMs


class GatheredSends(NamedTuple):
    """The sends of one request."""

    sends: list[PendingSend]
    size: int
    deadline_ms: UptimeMs
    """The deadline of the most urgent one."""


NOTHING = GatheredSends([], 0, UptimeMs(0))


class WaitingSends:
    """A line of sends, with side lines for queues that are blocked by an ordered message."""

    __slots__ = ("_is_mixed", "line", "side_lines")

    def __init__(self) -> None:
        self.line: deque[PendingSend] = deque()
        """The sends that may leave. While there are no side lines, plain sends may be appended directly; others use
        `add`.
        """
        self.side_lines: dict[MessageQueue, deque[PendingSend]] = {}
        """The sends that wait for an ordered message, by queue."""
        self._is_mixed = False
        """Whether the line may contain sends other than first attempts that can share a request."""

    def __len__(self) -> int:
        """Return how many sends may leave now."""
        return len(self.line)

    def add(self, pending: PendingSend) -> None:
        """Add a send at the end of the line, or of the side line of its queue if an ordered message blocks that."""
        self._is_mixed = True
        side_line = self.side_lines.get(pending.queue)
        if side_line is not None:
            side_line.append(pending)
            return
        self.line.append(pending)
        if pending.ordered:
            self.side_lines[pending.queue] = deque()

    def add_bundle(self, bundled: PendingSend) -> None:
        """Add a bundle at the end of the line; as single sends if an ordered message blocks a queue."""
        if not self.side_lines:
            self._is_mixed = True
            self.line.append(bundled)
        elif bundled.bundle is not None:
            for number in range(bundled.count):
                self.add(bundled.bundle.alone(number, bundled))

    def take(self, messages_max: int, bytes_max: int) -> GatheredSends:
        """Remove and return the sends of one request: one that needs its own, or up to the limits, but at least one.

        In a line that is longer than a request, or mixed, sends with a cancelled future are left out.
        """
        line = self.line
        if not line:
            return NOTHING
        if len(line) <= messages_max and not self._is_mixed:
            size = sum([pending.size for pending in line])
            if size <= bytes_max:
                sends = list(line)
                line.clear()
                return GatheredSends(sends, size, sends[0].deadline_ms)
        taken = self._take_some(messages_max, bytes_max)
        if not line and not self.side_lines:
            self._is_mixed = False
        if not taken:
            return NOTHING
        deadline_ms = min([pending.deadline_ms for pending in taken])
        return GatheredSends(taken, sum([pending.size for pending in taken]), deadline_ms)

    def _take_some(self, messages_max: int, bytes_max: int) -> list[PendingSend]:
        taken: list[PendingSend] = []
        room = bytes_max
        line = self.line
        while line and len(taken) < messages_max:
            pending = line[0]
            room -= pending.size
            if taken and (room < 0 or pending.alone):
                break
            taken.append(line.popleft())
            if pending.alone:
                break
        return taken

    def take_all(self) -> list[PendingSend]:
        """Remove and return all sends that may leave, without the side lines."""
        taken = list(self.line)
        self.line.clear()
        return taken

    def everything(self) -> Iterator[PendingSend]:
        """Yield all sends, with the side lines."""
        return chain(self.line, *self.side_lines.values())

    def take_late(self, is_late: Callable[[PendingSend], bool]) -> list[PendingSend]:
        """Remove and return the late sends, also of the side lines. An ordered one releases the sends after it."""
        aside = [pending for side_line in self.side_lines.values() for pending in _take(side_line, is_late)]
        late = _take(self.line, is_late)
        for pending in late:
            self.settle(pending)
        return late + aside

    def settle(self, pending: PendingSend) -> None:
        """Release the sends after an ordered one, up to and including the next ordered one of the queue."""
        if not pending.ordered:
            return
        side_line = self.side_lines.pop(pending.queue)
        while side_line:
            follower = side_line.popleft()
            self.line.append(follower)
            if follower.ordered:
                self.side_lines[pending.queue] = side_line
                return


def _take(line: deque[PendingSend], is_late: Callable[[PendingSend], bool]) -> list[PendingSend]:
    """Remove and return the late sends of a line."""
    late = [pending for pending in line if is_late(pending)]
    if late:
        in_time = [pending for pending in line if not is_late(pending)]
        line.clear()
        line.extend(in_time)
    return late
