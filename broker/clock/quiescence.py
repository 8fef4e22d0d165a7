"""Whether the consumers of this broker are at rest: no message left to deliver, no delivered one still in progress.

The conditions for every online clustering group and every readable queue of its topics: (a) the group's last pull was
at the queue's end, or the group has committed up to it, and (b) everything delivered is committed or sent back. For
broadcasting groups, and consumers that pull by themselves, only (a) counts, and only in queues that they have pulled.
`progress.py` tracks the necessary data.
"""

from collections.abc import Iterator

from staticfire.broker.clock.progress import Progress, ProgressTable
from staticfire.broker.groups.consumers import BROADCASTING, ConsumerGroup, ConsumerManager
from staticfire.broker.groups.offsets import OffsetTable
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.store import MessageStore
from staticfire.broker.topics import TopicTable
from staticfire.protocol.permissions import readable
from staticfire.protocol.requests.clock import Unrest

REASONS_MAX = 10
PUSH = "CONSUME_PASSIVELY"


class QuiescenceWatch:
    """Determines whether all work is done, and what isn't."""

    def __init__(
        self,
        topics: TopicTable,
        consumers: ConsumerManager,
        offsets: OffsetTable,
        store: MessageStore,
        progress: ProgressTable,
    ) -> None:
        self._topics = topics
        self._consumers = consumers
        self._offsets = offsets
        self._store = store
        self._progress = progress

    @property
    def is_at_rest(self) -> bool:
        """Whether all work is done. If it isn't, this usually checks only one busy queue."""
        groups = self._consumers.consumer_table.values()
        return not any(True for group in groups for _ in self._restless(group))

    def unrest(self) -> list[Unrest]:
        """Return why the broker isn't at rest, at most REASONS_MAX reasons; empty if it is."""
        reasons: list[Unrest] = []
        for group in self._consumers.consumer_table.values():
            for queue, progress, reason in self._restless(group):
                reasons.append(self._described(group, queue, progress, reason))
                if len(reasons) >= REASONS_MAX:
                    return reasons
        return reasons

    def _restless(self, group: ConsumerGroup) -> Iterator[tuple[Queue, Progress, str]]:
        """Yield the queues of a group with unfinished work, and the reason."""
        by_asking_only = group.message_model == BROADCASTING or group.consume_type != PUSH
        for topic in group.subscriptions:
            config = self._topics.get(topic)
            if config is None or not readable(config.perm):
                continue
            for queue_id in range(config.read_queue_nums):
                progress = self._progress.find(group.name, topic, queue_id)
                if by_asking_only and progress is None:
                    continue
                queue = self._store.queue(topic, queue_id)
                reason = self._reason(group.name, queue, progress or _NONE, by_asking_only)
                if reason:
                    yield queue, progress or _NONE, reason

    def _reason(self, group: str, queue: Queue, progress: Progress, by_asking_only: bool) -> str:
        committed = self._offsets.committed(group, queue.topic, queue.queue_id)
        end = queue.max_offset
        if end > queue.min_offset and max(committed, progress.empty_pull_offset) < end:
            return (
                "no member has pulled the remaining messages" if progress.delivered_to < end else "the next pull is due"
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
