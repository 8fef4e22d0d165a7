"""The offset of each group in each queue. RocketMQ: ConsumerOffsetManager.

Offsets are kept in memory, and saved every few seconds and at the stop. Any value and any queue id is accepted, as in
RocketMQ; a negative offset counts as none. A reset is pending until the queue's owner has taken it
(pending_resets.py); until then commits of that queue are ignored.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from staticfire.protocol.numbers import INT64_MAX, INT64_MIN, Int32, Int64, LogPosition
from staticfire.protocol.requests.pull import PullMessage
from staticfire.protocol.requests.topics import DataVersion
from staticfire.protocol.times import UptimeMs

if TYPE_CHECKING:
    from staticfire.broker.groups.pending_resets import PendingReset

# For how many groups and queues the latest reset is remembered.
LAST_RESETS_MAX = 10_000
GroupTopic = tuple[str, str]
"""(group, topic)"""


class OffsetTable:
    """Committed, pulled and reset offsets by group and topic, then by queue id."""

    def __init__(self, on_commit: Callable[[str, str, int, int], None]) -> None:
        """`on_commit`: called with each commit: group, topic, queue id, offset."""
        self._on_commit = on_commit
        self._committed: dict[GroupTopic, dict[int, int]] = {}
        self._pulled: dict[GroupTopic, dict[int, int]] = {}
        self._resets: dict[GroupTopic, dict[int, PendingReset]] = {}
        self.dirty = False
        self.saved_position: int | None = None
        """Where the log ended when the restored file was written; None if the file doesn't contain it."""
        self.copied_position: int | None = None
        """At a slave: the offsets are those of its master when the master's log ended here. None at a master.

        What was popped later is only in the log (pop/recovery.py).
        """
        self.left_out: list[str] = []
        """Queues whose offset in the restored file is not valid."""

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Store the offset of a group; a lower one is accepted, too."""
        queues = self._committed.get((group, topic))
        if queues is None:
            queues = self._committed[group, topic] = {}
        queues[queue_id] = offset
        self.dirty = True
        self._on_commit(group, topic, queue_id, offset)

    def committed(self, group: str, topic: str, queue_id: int) -> int:
        """Return the offset of a group, or that of its pending reset; -1 if there is none."""
        key = (group, topic)
        reset = self._resets.get(key, {}).get(queue_id)
        if reset is not None:
            return reset.offset
        return self._committed.get(key, {}).get(queue_id, -1)

    def pulled(self, group: str, topic: str, queue_id: int, next_offset: int) -> None:
        """Remember how far a group has pulled."""
        queues = self._pulled.get((group, topic))
        if queues is None:
            queues = self._pulled[group, topic] = {}
        queues[queue_id] = next_offset

    def pull_offset(self, group: str, topic: str, queue_id: int) -> int:
        """Return how far a group has pulled; -1 if it never pulled."""
        return self._pulled.get((group, topic), {}).get(queue_id, -1)

    def begin_copying(self, end_position: int) -> None:
        """Begin as a slave whose log ends here: the restored offsets are those of a master, or become that."""
        known = self.copied_position if self.copied_position is not None else self.saved_position or 0
        self.copied_position = min(known, end_position)

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Move a group: its pulls of that queue receive this offset until the owner continues there."""
        self._wait_for_owner(group, topic, {queue_id: offset})
        self.commit(group, topic, queue_id, offset)

    def _wait_for_owner(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        from staticfire.broker.groups.pending_resets import PendingReset  # imported here: most brokers reset no group

        waiting = self._resets.setdefault((group, topic), {})
        for queue_id, offset in offsets.items():
            waiting[queue_id] = PendingReset(offset)

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        resets = self._resets
        return bool(resets) and queue_id in resets.get((group, topic), {})

    def answer_reset(self, request: PullMessage, reader: Hashable, may_end: bool) -> int | None:
        """Return the offset from which the client of a pull must continue, None if it isn't affected by a reset.

        `reader`: the pull's connection. `may_end`: whether the pull arrived just now, and so can show that the reset
        was taken; one that was held before can't.
        """
        if not self._resets:
            return None
        group, topic, queue_id = request.consumer_group, request.topic, request.queue_id
        reset = self._resets.get((group, topic), {}).get(queue_id)
        if reset is None:
            return None
        if may_end and reset.ends_with(reader, request.queue_offset):
            self.take_reset(group, topic, queue_id)
            return None
        reset.notify(reader)
        return reset.offset

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Remove and return a pending reset."""
        if not self._resets:
            return None
        queues = self._resets.get((group, topic))
        if queues is None:
            return None
        reset = queues.pop(queue_id, None)
        self.dirty = True
        if not queues:
            del self._resets[group, topic]
        return None if reset is None else reset.offset

    def topics_of(self, group: str) -> list[str]:
        """Return the topics in which a group has an offset."""
        return sorted(topic for owner, topic in self._committed if owner == group)

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have an offset in a topic."""
        return sorted(group for group, name in self._committed if name == topic)

    def places(self) -> list[GroupTopic]:
        """Return all pairs of group and topic with an offset."""
        return list(self._committed)

    def queues_of(self, group: str, topic: str) -> dict[int, int]:
        """Return a group's offsets by queue id."""
        return dict(self._committed.get((group, topic), {}))

    def forget_queues(self, group: str, topic: str, queue_ids: Iterable[int]) -> None:
        """Remove the offsets of some queues."""
        queues = self._committed.get((group, topic), {})
        for queue_id in queue_ids:
            if queues.pop(queue_id, None) is not None:
                self.dirty = True

    def forget_place(self, group: str, topic: str) -> None:
        """Remove all offsets of a group in a topic."""
        for table in (self._committed, self._pulled, self._resets):
            if table.pop((group, topic), None) is not None:
                self.dirty = True

    def forget_topic(self, topic: str) -> None:
        """Remove all offsets of a topic."""
        for table in (self._committed, self._pulled, self._resets):
            for key in [key for key in table if key[1] == topic]:
                del table[key]
        self.dirty = True

    def forget_group(self, group: str) -> None:
        """Remove all offsets of a group."""
        for table in (self._committed, self._pulled, self._resets):
            for key in [key for key in table if key[0] == group]:
                del table[key]
        self.dirty = True

    def forget_all(self) -> None:
        """Remove all offsets."""
        for table in (self._committed, self._pulled, self._resets):
            table.clear()
        self.dirty = True

    def all_committed(self) -> list[tuple[str, str, int, int]]:
        """Return the offsets of all groups: group, topic, queue id, offset."""
        return [
            (group, topic, queue_id, offset)
            for (group, topic), queues in self._committed.items()
            for queue_id, offset in queues.items()
        ]

    def snapshot(self, log_position: int) -> bytes:
        """Return consumerOffset.json, with keys as RocketMQ writes them: topic@group.

        `log_position`: where the log ends. The file must not be written before the disk has the log up to there.
        """
        table = {f"{topic}@{group}": queues for (group, topic), queues in self._committed.items()}
        topics: dict[str, list[str]] = {}
        for group, topic in self._committed:
            topics.setdefault(group, []).append(topic)
        saved = {
            "dataVersion": DataVersion(),
            "groupTopicMap": topics,
            "offsetTable": table,
            "logPosition": log_position,
        }
        if self.copied_position is not None:
            saved["copiedPosition"] = self.copied_position
        if self._resets:
            saved["resetOffsetTable"] = {
                f"{topic}@{group}": {queue_id: reset.offset for queue_id, reset in queues.items()}
                for (group, topic), queues in self._resets.items()
            }
        self.dirty = False
        return msgspec.json.format(msgspec.json.encode(saved), indent=1)

    def restore(self, data: bytes) -> None:
        """Load consumerOffset.json. Raises: msgspec.MsgspecError, ValueError (the content is not valid)."""
        saved = msgspec.json.decode(data, type=_SavedOffsets)
        self.saved_position, self.copied_position = saved.log_position, saved.copied_position
        for key, queues in saved.offset_table.items():
            topic, separator, group = key.partition("@")
            if not separator:
                raise ValueError(f"{key!r} is not of the form topic@group")
            # Earlier versions accepted offsets beyond 64 bits. They fit into no response, so they are forgotten.
            legal = {queue_id: offset for queue_id, offset in queues.items() if INT64_MIN <= offset <= INT64_MAX}
            self.left_out += [f"{key} queue {queue_id}" for queue_id in queues.keys() - legal.keys()]
            self._committed[group, topic] = legal
        for key, queues in saved.reset_offset_table.items():
            topic, _, group = key.partition("@")
            self._wait_for_owner(group, topic, queues)


class _SavedOffsets(msgspec.Struct, rename="camel"):
    offset_table: dict[str, dict[Int32, int]]
    log_position: LogPosition | None = None
    copied_position: LogPosition | None = None
    reset_offset_table: dict[str, dict[Int32, Int64]] = {}


class LastReset(msgspec.Struct, gc=False, frozen=True):
    """The latest reset of a group in one queue."""

    topic: str
    queue_id: int
    before: int
    """The committed offset before the reset; -1 if there was none."""
    offset: int
    at_ms: UptimeMs


class LastResets:
    """The latest resets since the broker was started, for people who look for the cause of missing messages.

    A reset that skips messages leaves no other trace: the group has nothing left to consume there.
    """

    def __init__(self) -> None:
        self._resets: dict[tuple[str, str, int], LastReset] = {}

    def note(self, group: str, reset: LastReset) -> None:
        """Remember a reset."""
        key = (group, reset.topic, reset.queue_id)
        self._resets.pop(key, None)
        self._resets[key] = reset  # The last entry is the latest reset.
        if len(self._resets) > LAST_RESETS_MAX:
            del self._resets[next(iter(self._resets))]

    def of_group(self, group: str) -> Iterator[LastReset]:
        """Yield the resets of a group, oldest first."""
        return (reset for (name, _, _), reset in self._resets.items() if name == group)
