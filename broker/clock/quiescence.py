"""Whether the consumers of this broker have come to rest: nothing left to deliver, nothing delivered still in work.

For every online clustering group and every readable queue of its topics: (a) the group's last pull asked at the queue's
end, or the group has committed up to it, and (b) what was delivered is committed past or sent back. Broadcasting and
self-driven members count by (a) only, in the queues that they have pulled. Kept per group and queue in three integers
and the set of sent-back offsets, at one dictionary look-up per pull.
"""

from collections.abc import Iterator

import msgspec

from staticfire.broker.groups.consumers import BROADCASTING, ConsumerGroup, ConsumerManager
from staticfire.broker.groups.offsets import OffsetTable
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.store import MessageStore
from staticfire.broker.topics import TopicTable
from staticfire.protocol.permissions import readable
from staticfire.protocol.requests.clock import Unrest

REASONS_MAX = 10
PUSH = "CONSUME_PASSIVELY"


class Progress(msgspec.Struct, gc=False):
    """What a group has been given of a queue."""

    asked_offset: int = -1
    """Where its last pull looked in vain."""
    delivered_from: int = 0
    delivered_to: int = 0
    sent_back: set[int] = set()


class QuiescenceWatch:
    """Follows pulls, commits and send-backs; says whether all is done, and if not, what isn't."""

    def __init__(
        self, topics: TopicTable, consumers: ConsumerManager, offsets: OffsetTable, store: MessageStore
    ) -> None:
        self._topics = topics
        self._consumers = consumers
        self._offsets = offsets
        self._store = store
        self._progress: dict[tuple[str, str, int], Progress] = {}
        self.activity = 0
        """Counts stores, deliveries, commits and send-backs."""

    def _of(self, group: str, topic: str, queue_id: int) -> Progress:
        key = (group, topic, queue_id)
        progress = self._progress.get(key)
        if progress is None:
            progress = self._progress[key] = Progress()
        return progress

    def asked_in_vain(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """A pull found nothing from there on."""
        self._of(group, topic, queue_id).asked_offset = offset

    def delivered(self, group: str, topic: str, queue_id: int, first_offset: int, end_offset: int) -> None:
        """Messages from `first_offset` to before `end_offset` are on their way to a member."""
        self.activity += 1
        progress = self._of(group, topic, queue_id)
        if first_offset > progress.delivered_to or first_offset < progress.delivered_from:
            # A new owner starts where the group stands; what an old one was given before that no longer counts.
            progress.delivered_from = first_offset
            progress.delivered_to = end_offset
        elif end_offset > progress.delivered_to:
            progress.delivered_to = end_offset

    def sent_back(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """A member gave a message back."""
        self.activity += 1
        self._of(group, topic, queue_id).sent_back.add(offset)

    def committed(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """A group stands there now."""
        self.activity += 1
        progress = self._progress.get((group, topic, queue_id))
        if progress is not None and progress.sent_back:
            progress.sent_back = {one for one in progress.sent_back if one >= offset}

    def forget_all(self) -> None:
        """Start anew: the broker was reset."""
        self._progress.clear()
        self.activity += 1

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is left to do; costs one look at a busy queue when there is."""
        groups = self._consumers.consumer_table.values()
        return not any(True for group in groups for _ in self._restless(group))

    def unrest(self) -> list[Unrest]:
        """Return why the broker isn't at rest, at most REASONS_MAX reasons; empty when it is."""
        reasons: list[Unrest] = []
        for group in self._consumers.consumer_table.values():
            for queue, progress, reason in self._restless(group):
                reasons.append(self._described(group, queue, progress, reason))
                if len(reasons) >= REASONS_MAX:
                    return reasons
        return reasons

    def _restless(self, group: ConsumerGroup) -> Iterator[tuple[Queue, Progress, str]]:
        """Yield the queues of a group in which something is left to do, and what."""
        by_asking_only = group.message_model == BROADCASTING or group.consume_type != PUSH
        for topic in group.subscriptions:
            config = self._topics.get(topic)
            if config is None or not readable(config.perm):
                continue
            for queue_id in range(config.read_queue_nums):
                progress = self._progress.get((group.name, topic, queue_id))
                if by_asking_only and progress is None:
                    continue
                queue = self._store.queue(topic, queue_id)
                reason = self._reason(group.name, queue, progress or _NONE, by_asking_only)
                if reason:
                    yield queue, progress or _NONE, reason

    def _reason(self, group: str, queue: Queue, progress: Progress, by_asking_only: bool) -> str:
        committed = self._offsets.committed(group, queue.topic, queue.queue_id)
        end = queue.max_offset
        if end > queue.min_offset and max(committed, progress.asked_offset) < end:
            return (
                "there are messages that nobody has pulled" if progress.delivered_to < end else "the next pull is due"
            )
        if by_asking_only:
            return ""
        start = max(progress.delivered_from, committed)
        open_offsets = progress.delivered_to - start
        if open_offsets <= 0:
            return ""
        returned = sum(1 for offset in progress.sent_back if start <= offset < progress.delivered_to)
        return "" if returned >= open_offsets else "messages are being consumed"

    def _described(self, group: ConsumerGroup, queue: Queue, progress: Progress, reason: str) -> Unrest:
        return Unrest(
            group.name,
            queue.topic,
            queue.queue_id,
            self._offsets.committed(group.name, queue.topic, queue.queue_id),
            progress.delivered_to,
            queue.max_offset,
            self._consumers.client_ids(group.name),
            reason,
        )


_NONE = Progress()
