"""Plans a copy: the target queue of each queue, the messages that are there already, groups' offsets. Pure.

Messages that are there already are found by their unique id, properties and retry count, which a copy has, too: after
an interrupted or earlier copy, as many of the same are skipped as the target queue has. If a send was repeated, the
source has two messages with one id, and so has the copy. The retries of a message have one id, too, and differ.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.checksums import crc32
from staticfire.protocol.errors import UsageError
from staticfire.protocol.properties import UNIQ_KEY, find_property
from staticfire.protocol.record import StoredRecord
from staticfire.runtime.ranges import INT64_MAX


class QueuePair(NamedTuple):
    """A source queue and its target queue."""

    source: MessageQueue
    target: MessageQueue


def pair_queues(topic: str, counts: Mapping[str, int], targets: Sequence[str]) -> list[QueuePair]:
    """Return the target of each queue. `counts`: queues by source broker; `targets`: brokers of the target.

    If the target has as many brokers or more, each queue keeps its id, on the broker with the same name or the same
    rank. If it has fewer, several source brokers share one; the queue ids of each start after those of the one before.
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
    """Return how many queues each target broker needs."""
    needed: dict[str, int] = {}
    for pair in pairs:
        name = pair.target.broker_name
        needed[name] = max(needed.get(name, 0), pair.target.queue_id + 1)
    return needed


class MessageIdentity(NamedTuple):
    """What a message has in common with its copies, and with no other message."""

    unique_id: bytes
    """Empty if it has none."""
    reconsume_times: int
    born_ms: int
    checksum: int
    """Of its properties; without a unique id also of its body."""


def identity_of(record: StoredRecord) -> MessageIdentity:
    """Return the identity of a message."""
    unique_id = find_property(record.properties, UNIQ_KEY) or b""
    text = record.properties if unique_id else b"%b%b" % (record.properties, record.body)
    return MessageIdentity(unique_id, record.reconsume_times, record.born_ms, crc32(text))


class AlreadyThere:
    """The messages in a target queue; each can be matched once."""

    def __init__(self) -> None:
        self._offsets: dict[MessageIdentity, deque[int]] = {}

    def add(self, record: StoredRecord) -> None:
        """Add a message of the target."""
        self._offsets.setdefault(identity_of(record), deque()).append(record.queue_offset)

    def has_all(self, records: Iterable[StoredRecord]) -> bool:
        """Return whether the target has all of these messages of the source."""
        wanted = Counter(map(identity_of, records))
        return all(len(self._offsets.get(identity, ())) >= number for identity, number in wanted.items())

    def left(self) -> dict[MessageIdentity, int]:
        """Return how many of each message aren't matched yet."""
        return {identity: len(offsets) for identity, offsets in self._offsets.items() if offsets}

    def newest(self, left: Iterable[MessageIdentity]) -> MessageIdentity:
        """Return the message that is the newest in the target of these, which are at least one."""
        return max(left, key=lambda identity: self._offsets[identity][-1])

    def take(self, record: StoredRecord) -> int | None:
        """Return the offset of a source message in the target; None if it must be copied."""
        offsets = self._offsets.get(identity_of(record))
        return offsets.popleft() if offsets else None


class OrderCheck:
    """Finds out whether a copy would break the order: a message would be appended after a later one of its queue.

    It looks at the messages of the source in their order, from the first that may be missing.
    """

    def __init__(self, pair: QueuePair, left: Mapping[MessageIdentity, int]) -> None:
        """`left`: how many of each message the target has, that earlier messages of the source haven't taken."""
        self._pair = pair
        self.left = dict(left)
        """The same, without those that it has looked at."""
        self._missing: int | None = None

    def look_at(self, records: Iterable[StoredRecord]) -> bool:
        """Look at the next messages of the source; return whether a later one may be in the target.

        Raises: UsageError (one is there, and an earlier one isn't).
        """
        for record in records:
            identity = identity_of(record)
            if identity not in self.left:
                self._missing = record.queue_offset if self._missing is None else self._missing
                continue
            if self._missing is not None:
                raise UsageError(self._refusal(record.queue_offset))
            self.left[identity] -= 1
            if not self.left[identity]:
                del self.left[identity]
        return bool(self.left)

    def _refusal(self, offset: int) -> str:
        source, target = self._pair
        return (
            f"{target} in the target has the message at offset {offset} of {source}, and not the earlier one at offset "
            f"{self._missing}, which could only be appended after it. To copy both in order, delete the topic in the "
            f"target first: `staticfire mqadmin deleteTopic -c CLUSTER -t {target.topic}`. To add only newer messages, "
            "don't copy older ones than before: --since, --limit"
        )


class OffsetsInCopy:
    """The groups' offsets in one queue of the copy, found while its messages are processed in order."""

    def __init__(self, committed: Mapping[str, int]) -> None:
        """`committed`: offsets in the source, by group."""
        self._waiting = sorted(((offset, group) for group, offset in committed.items()), reverse=True)
        self._end = -1
        self.found: dict[str, int] = {}

    def passed(self, source_offset: int, target_offset: int) -> None:
        """Note that a source message is in the target, at this offset."""
        while self._waiting and self._waiting[-1][0] <= source_offset:
            self.found[self._waiting.pop()[1]] = target_offset
        self._end = max(self._end, target_offset + 1)

    def finish(self, target_end: int) -> dict[str, int]:
        """Return all groups' offsets. For groups that have consumed everything, it is after the last message."""
        for _, group in self._waiting:
            self.found[group] = self._end if self._end >= 0 else target_end
        self._waiting.clear()
        return self.found


class Bounds(NamedTuple):
    """The range of queue offsets to copy; `end` is exclusive."""

    start: int
    end: int = INT64_MAX

    def newest(self, limit: int | None) -> "Bounds":
        """Return the bounds of the newest `limit` messages."""
        return self if limit is None else Bounds(max(self.start, self.end - limit), self.end)


def check_limits(since_ms: int | None, until_ms: int | None, limit: int | None) -> None:
    """Refuse limits that leave nothing to copy. Raises: UsageError."""
    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit}: the number of messages of each queue must be at least 1")
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise UsageError("--since must be before --until")
