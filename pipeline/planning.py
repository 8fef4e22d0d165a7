"""Which messages a query reads, and in which pieces. Pure.

A *range* is a part of one queue, from `start` up to but without `end`. A Spark partition is one range. The ranges of a
plan never overlap, and together they are exactly the messages between two sets of offsets.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from staticfire.client.cluster.queues import MessageQueue
from staticfire.pipeline.offsets import EARLIEST_NUMBER, LATEST_NUMBER, Offsets


class QueueEnds(NamedTuple):
    """The offsets of a queue at some time: from `min_offset` up to but without `max_offset`."""

    min_offset: int
    max_offset: int
    has_master: bool = True
    """False if a slave reported them: it may lack messages that its master has."""
    newest_ms: int = 0
    """When the message before `max_offset` was stored; 0 if that is unknown."""

    def may_lack(self, offset: int) -> bool:
        """Whether only the master knows whether there are messages before this offset."""
        return not self.has_master and offset > self.max_offset


class QueueRange(NamedTuple):
    """A part of one queue."""

    queue: MessageQueue
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets in it."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.queue} offsets {self.start} to {self.end}"


class Loss(NamedTuple):
    """Messages that were wanted but don't exist."""

    queue: MessageQueue
    wanted: str
    there: QueueEnds

    def __str__(self) -> str:
        ends = f"{self.there.min_offset} to {self.there.max_offset}"
        return f"{self.queue}: wanted {self.wanted}, the broker has {ends}"


class Plan(NamedTuple):
    """The ranges to read, and the messages that are lost."""

    ranges: list[QueueRange]
    losses: list[Loss]


def plan_reads(
    starts: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int], there: Mapping[MessageQueue, QueueEnds]
) -> Plan:
    """Return the messages that can be read between two sets of offsets, and those that are lost.

    A queue that isn't in `starts` is new and starts at its first offset. If one isn't in `there`, or only a slave is
    left that is behind, its broker is away: its range is kept unchanged, and the reader waits for the broker. One whose
    end is before its start was emptied and filled again: its messages up to the end are read.
    """
    ranges: list[QueueRange] = []
    losses: list[Loss] = []
    for queue in sorted(ends):
        known = there.get(queue)
        wanted = QueueRange(queue, starts.get(queue, known.min_offset if known else 0), ends[queue])
        if known is None or known.may_lack(max(wanted.start, wanted.end)):
            ranges.append(wanted)
        else:
            found, words = _what_is_there(wanted, known)
            ranges.append(found)
            losses += [Loss(queue, words, known)] if words else []
    return Plan([each for each in ranges if each.size > 0], losses)


def _what_is_there(wanted: QueueRange, there: QueueEnds) -> tuple[QueueRange, str]:
    """Return the part of a range that can be read. If that isn't all, also return what was wanted, as text."""
    queue, start, end = wanted
    if start == end:
        return wanted, ""
    if start > end or start > there.max_offset:
        return QueueRange(queue, there.min_offset, min(end, there.max_offset)), f"offset {start} and all that follow"
    if start < there.min_offset or end > there.max_offset:
        readable = QueueRange(queue, max(start, there.min_offset), min(end, there.max_offset))
        return readable, f"offsets {start} to {end}"
    return wanted, ""


def resolve(
    queues: Iterable[MessageQueue], wanted: Mapping[MessageQueue, int], there: Mapping[MessageQueue, QueueEnds]
) -> Offsets:
    """Return actual offsets: -2 and -1 become the queue's current ones. Both maps contain all of `queues`."""
    return {queue: _real(wanted[queue], there[queue]) for queue in queues}


def _real(offset: int, there: QueueEnds) -> int:
    if offset == EARLIEST_NUMBER:
        return there.min_offset
    return there.max_offset if offset == LATEST_NUMBER else offset


def limit_ends(starts: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int], offsets_max: int) -> Offsets:
    """Return ends with at most `offsets_max` messages before them, and exactly that many if there are more.

    Each queue gets a share in proportion to its waiting messages. What is left by rounding down goes to the queues with
    the largest remainders.
    """
    waiting = {queue: max(0, ends[queue] - starts.get(queue, 0)) for queue in sorted(ends)}
    total = sum(waiting.values())
    if total <= offsets_max:
        return dict(ends)
    parts = {queue: count * offsets_max // total for queue, count in waiting.items()}
    left = offsets_max - sum(parts.values())
    by_remainder = sorted(waiting, key=lambda queue: (-(waiting[queue] * offsets_max % total), queue))
    for queue in by_remainder[:left]:
        parts[queue] += 1
    return {queue: starts.get(queue, 0) + parts[queue] if waiting[queue] else ends[queue] for queue in ends}


def split(ranges: list[QueueRange], min_partitions: int) -> list[QueueRange]:
    """Split large ranges, so that there are about `min_partitions`.

    As in Spark's Kafka source: pieces in proportion to size, at least one per range. The number is only approximate.
    """
    total = sum(each.size for each in ranges)
    if min_partitions <= len(ranges) or not total:
        return ranges
    pieces: list[QueueRange] = []
    for queue, start, end in ranges:
        count = min(end - start, max(1, round((end - start) * min_partitions / total)))
        edges = [start + (end - start) * number // count for number in range(count + 1)]
        pieces += [QueueRange(queue, edges[number], edges[number + 1]) for number in range(count)]
    return pieces
