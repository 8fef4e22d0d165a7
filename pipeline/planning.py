"""Which messages a query reads, and in which pieces. Pure.

A *range* is a part of one queue, from `start` up to and without `end`; a Spark partition is one range. Ranges of one
plan never overlap, and together they are exactly what lies between two sets of offsets.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from staticfire.client.cluster.queues import MessageQueue
from staticfire.pipeline.offsets import EARLIEST_NUMBER, LATEST_NUMBER, Offsets


class QueueEnds(NamedTuple):
    """What a queue has at a moment: offsets from `min_offset` up to and without `max_offset`."""

    min_offset: int
    max_offset: int


class QueueRange(NamedTuple):
    """A part of one queue."""

    queue: MessageQueue
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets there are in it."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.queue} offsets {self.start} to {self.end}"


class Loss(NamedTuple):
    """Messages that were wanted and aren't there."""

    queue: MessageQueue
    wanted: str
    there: QueueEnds

    def __str__(self) -> str:
        ends = f"{self.there.min_offset} to {self.there.max_offset}"
        return f"{self.queue}: wanted {self.wanted}, the broker has {ends}"


class Plan(NamedTuple):
    """What to read, and what can't be read any more."""

    ranges: list[QueueRange]
    losses: list[Loss]


def plan_reads(
    starts: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int], there: Mapping[MessageQueue, QueueEnds]
) -> Plan:
    """Return what can be read between two sets of offsets, and what of it is lost.

    A queue that isn't in `starts` is new and begins where it begins. One that isn't `there` has a broker that is away:
    its range stays as it is, and whoever reads it waits for the broker. One whose end is before its start was emptied
    and filled again: what it has up to the end is read.
    """
    ranges: list[QueueRange] = []
    losses: list[Loss] = []
    for queue in sorted(ends):
        known = there.get(queue)
        if known is None:
            ranges.append(QueueRange(queue, starts.get(queue, 0), ends[queue]))
        else:
            wanted = QueueRange(queue, starts.get(queue, known.min_offset), ends[queue])
            found, words = _what_is_there(wanted, known)
            ranges.append(found)
            losses += [Loss(queue, words, known)] if words else []
    return Plan([each for each in ranges if each.size > 0], losses)


def _what_is_there(wanted: QueueRange, there: QueueEnds) -> tuple[QueueRange, str]:
    """Return the part of a range that can be read, and in words what was wanted where that is more."""
    queue, start, end = wanted
    if start == end:
        return wanted, ""
    if start > end or start > there.max_offset:
        return QueueRange(queue, there.min_offset, min(end, there.max_offset)), f"offset {start} and what follows"
    if start < there.min_offset or end > there.max_offset:
        readable = QueueRange(queue, max(start, there.min_offset), min(end, there.max_offset))
        return readable, f"offsets {start} to {end}"
    return wanted, ""


def resolve(
    queues: Iterable[MessageQueue], wanted: Mapping[MessageQueue, int], there: Mapping[MessageQueue, QueueEnds]
) -> Offsets:
    """Return real offsets: -2 and -1 become what each queue has now. All of `queues` are in both maps."""
    return {queue: _real(wanted[queue], there[queue]) for queue in queues}


def _real(offset: int, there: QueueEnds) -> int:
    if offset == EARLIEST_NUMBER:
        return there.min_offset
    return there.max_offset if offset == LATEST_NUMBER else offset


def limit_ends(starts: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int], offsets_max: int) -> Offsets:
    """Return ends such that at most `offsets_max` messages lie between, and exactly so many where there are more.

    Each queue gets its part in proportion to what waits in it; what rounding leaves goes to those that lost most.
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
    """Return the ranges, the large ones in pieces, so that there are about `min_partitions`.

    As Spark's Kafka source does: pieces in proportion to size, at least one per range; a hint, not a promise.
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
