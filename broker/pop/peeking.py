"""Find what a pop would take, without taking it. RocketMQ: PeekMessageProcessor, NotificationProcessor."""

from collections.abc import Iterator

from staticfire.broker.pop.events import GroupQueue
from staticfire.broker.pop.orders import is_blocked
from staticfire.broker.pop.tables import PopTables
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.outcomes import ReadStatus
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Records
from staticfire.protocol.limits import PULL_ANSWER_MESSAGES_MAX
from staticfire.protocol.names import pop_retry_topic
from staticfire.protocol.requests.pop import Notification, PeekMessage, PopAnswer


class PopPeeker:
    """Reads queues from where a group's pops would begin."""

    def __init__(self, tables: PopTables) -> None:
        self._tables = tables
        self._state = tables.state

    def peek(self, request: PeekMessage) -> PopAnswer:
        """Return the messages that a pop would take. Raises: StorageError."""
        left = min(max(request.max_msg_nums, 0), PULL_ANSWER_MESSAGES_MAX)
        rest, count = 0, 0
        slices: list[bytes] = []
        for queue, offset in self._queues(request, with_retries=True):
            rest += max(0, queue.max_offset - offset)  # The returned messages count as well: they were not taken.
            if left <= 0 or offset >= queue.max_offset:
                continue
            found = self._state.store.read(queue, max(offset, queue.min_offset), left)
            if found.status is ReadStatus.FOUND:
                slices += self._state.store.records(found)
                count += found.record_count
                left -= found.record_count
        if not count:
            code = int(ResponseCode.PULL_NOT_FOUND)
            return PopAnswer(0, 0, 0, rest, code=code, remark="NO_MESSAGE_IN_QUEUE")
        return PopAnswer(0, 0, 0, rest, remark="FOUND", body=Records(slices, count))

    def has_message(self, request: Notification) -> bool:
        """Return whether there is something to pop; filters are ignored. Raises: StorageError."""
        is_order = bool(request.order)
        for queue, offset in self._queues(request, with_retries=not is_order):
            if queue.max_offset <= offset:
                continue
            place = GroupQueue(request.consumer_group, queue.topic, queue.queue_id)
            now_ms = self._state.clock.message_ms()
            if is_order and is_blocked(self._tables.orders.find(place), request.attempt_id, now_ms):
                continue
            return True
        return False

    def _queues(self, request: Notification | PeekMessage, with_retries: bool) -> Iterator[tuple[Queue, int]]:
        """Yield the queues of a pop, and the offset at which it would begin."""
        topics, store = self._tables.topics.topics, self._state.store
        group, topic = request.consumer_group, request.topic
        ids = [request.queue_id] if request.queue_id >= 0 else range(topics[topic].read_queue_nums)
        names = [(topic, queue_id) for queue_id in ids]
        for version in (1, 2) if with_retries else ():
            retry = pop_retry_topic(topic, group, version)
            if retry in topics:
                names += [(retry, queue_id) for queue_id in range(topics[retry].read_queue_nums)]
        for name in names:
            queue = store.queue(*name)
            committed = self._tables.groups.offsets.committed(group, *name)
            yield queue, queue.min_offset if committed < 0 else committed
