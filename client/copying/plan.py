"""Which queue of the source goes where, what is there already, and where groups stand in the copy. Pure.

What is there already is known by unique ids: a copy that was broken off, or is made again later, skips as many messages
with an id as the queue has. Two messages of the source with one id, of a send that was repeated, are two in the copy.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.checksums import crc32
from staticfire.protocol.errors import UsageError
from staticfire.protocol.properties import UNIQ_KEY, find_property
from staticfire.protocol.record import StoredRecord


class QueuePair(NamedTuple):
    """A queue, and the one that gets its messages."""

    source: MessageQueue
    target: MessageQueue


def pair_queues(topic: str, counts: Mapping[str, int], targets: Sequence[str]) -> list[QueuePair]:
    """Return where each queue goes. `counts`: queues by broker of the source; `targets`: brokers of the target.

    With as many brokers or more each queue keeps its id, on the broker of that name or of that rank. With fewer,
    several brokers of the source share one, whose queues begin behind those of the one before.
    """
    brokers, there = sorted(counts), sorted(targets)
    same = all(broker in there for broker in brokers)
    begins = dict.fromkeys(there, 0)
    pairs = []
    for rank, broker in enumerate(brokers):
        target = broker if same else there[rank % len(there)]
        first = begins[target]
        pairs += [
            QueuePair(MessageQueue(topic, broker, queue_id), MessageQueue(topic, target, first + queue_id))
            for queue_id in range(counts[broker])
        ]
        begins[target] += counts[broker]
    return pairs


def queues_needed(pairs: Iterable[QueuePair]) -> dict[str, int]:
    """Return how many queues each broker of the target needs."""
    needed: dict[str, int] = {}
    for pair in pairs:
        name = pair.target.broker_name
        needed[name] = max(needed.get(name, 0), pair.target.queue_id + 1)
    return needed


def key_of(record: StoredRecord) -> bytes:
    """Return what a message is known by: its unique id, or, without one, its birth and body."""
    unique_id = find_property(record.properties, UNIQ_KEY)
    return unique_id or b"%d %d %d" % (record.born_ms, len(record.body), crc32(record.body))


class AlreadyThere:
    """The messages that a queue of the target has, each to be found once."""

    def __init__(self) -> None:
        self._offsets: dict[bytes, deque[int]] = {}

    def add(self, record: StoredRecord) -> None:
        """Note a message of the target."""
        self._offsets.setdefault(key_of(record), deque()).append(record.queue_offset)

    def take(self, record: StoredRecord) -> int | None:
        """Return at which offset the target has a message of the source; None when it has to be copied."""
        offsets = self._offsets.get(key_of(record))
        return offsets.popleft() if offsets else None


class OffsetsInCopy:
    """Where groups stand in one queue of the copy, found while its messages go by in order."""

    def __init__(self, committed: Mapping[str, int]) -> None:
        """`committed`: by group, in the source."""
        self._waiting = sorted(((offset, group) for group, offset in committed.items()), reverse=True)
        self._end = -1
        self.found: dict[str, int] = {}

    def passed(self, source_offset: int, target_offset: int) -> None:
        """A message of the source is there in the target."""
        while self._waiting and self._waiting[-1][0] <= source_offset:
            self.found[self._waiting.pop()[1]] = target_offset
        self._end = max(self._end, target_offset + 1)

    def finish(self, target_end: int) -> dict[str, int]:
        """Return where all groups stand: who had consumed everything, behind the last message."""
        for _, group in self._waiting:
            self.found[group] = self._end if self._end >= 0 else target_end
        self._waiting.clear()
        return self.found


class Bounds(NamedTuple):
    """Which messages of a queue are copied: queue offsets, the second one isn't."""

    start: int
    end: int

    def newest(self, limit: int | None) -> "Bounds":
        """Return the bounds of the newest so many."""
        return self if limit is None else Bounds(max(self.start, self.end - limit), self.end)


def check_limits(since_ms: int | None, until_ms: int | None, limit: int | None) -> None:
    """Refuse what leaves nothing to copy. Raises: UsageError."""
    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit}: how many messages of each queue, 1 or more")
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise UsageError("--since is not before --until: there is nothing between them")
