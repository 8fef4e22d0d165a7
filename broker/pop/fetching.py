"""Take the messages of one pop, queue by queue. RocketMQ: PopMessageProcessor.popMsgFromTopic, popMsgFromQueue.

Everything is changed, and noted for the log, at once, so that two pops of one burst never take the same message. If the
burst can't be written, `take_back` undoes the changes.

One random number from 0 to 99 decides at which queue a pop begins, which version of the retry topic it reads, and
whether it reads the retry topic first. RocketMQ's pops read only that version. Here a pop that has room left reads the
other version, too: otherwise a message that returns to it would wake a held pop in vain.
"""

from collections.abc import Callable
from typing import Any

from staticfire.broker.pop.answers import offsets_of, rewritten, single_records
from staticfire.broker.pop.events import NO_OFFSET, GroupQueue, OrderState, mask_of
from staticfire.broker.pop.in_flight import CheckPoint
from staticfire.broker.pop.orders import counts_of, is_blocked, taken
from staticfire.broker.pop.tables import PopTables
from staticfire.broker.pulls.checks import Wanted
from staticfire.broker.pulls.choosing import Choice
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.outcomes import ReadResult, ReadStatus
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Records
from staticfire.protocol.errors import BrokerAnswer, ProtocolError, StorageError
from staticfire.protocol.limits import PULL_ANSWER_BYTES_MAX
from staticfire.protocol.names import pop_retry_topic
from staticfire.protocol.pop_handles import (
    NORMAL,
    OrderCounts,
    PopHandle,
    QueueKey,
    flag_of,
    format_message_offsets,
    format_order_counts,
    format_start_offsets,
)
from staticfire.protocol.record import pack_topic
from staticfire.protocol.requests.pop import ORDERLY_REVIVE_QUEUE, PopAnswer, PopMessage
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger

log = logger("broker")

# Handles contain the number of a revive queue. There are no revive queues, so it is always this one.
REVIVE_QUEUE = 0
# How often one queue is read at most: its offset may have to be corrected first.
READS_MAX = 3

_CORRECTED = frozenset(
    {
        ReadStatus.OFFSET_OVERFLOW_BADLY, ReadStatus.OFFSET_TOO_SMALL, ReadStatus.OFFSET_FOUND_NULL,
        ReadStatus.NO_MESSAGE_IN_QUEUE,
    }
)  # fmt: skip


class OnePop:
    """What one pop has taken so far."""

    def __init__(self, request: PopMessage, wanted: Wanted, pop_ms: int) -> None:
        self.request = request
        self.wanted = wanted
        self.pop_ms = pop_ms
        self.is_order = bool(request.order)
        self.left = request.max_msg_nums
        self.rest = 0
        self.start_offsets: dict[QueueKey, int] = {}
        self.message_offsets: dict[QueueKey, list[int]] = {}
        self.counts = OrderCounts({}, {})
        self.slices: list[bytes] = []
        self.count = 0
        self.undo: list[Callable[[], None]] = []

    def answer(self) -> PopAnswer:
        """Return the response to a pop that has taken something."""
        request = self.request
        return PopAnswer(
            self.pop_ms, request.invisible_time, ORDERLY_REVIVE_QUEUE if self.is_order else REVIVE_QUEUE, self.rest,
            format_start_offsets(self.start_offsets), format_message_offsets(self.message_offsets),
            format_order_counts(self.counts) if self.is_order else None,
            remark="FOUND", body=Records(self.slices, self.count),
        )  # fmt: skip

    def nothing(self, code: ResponseCode) -> PopAnswer:
        """Return the response to a pop that has taken nothing."""
        return PopAnswer(
            self.pop_ms, self.request.invisible_time, ORDERLY_REVIVE_QUEUE if self.is_order else REVIVE_QUEUE,
            self.rest, "", "", "" if self.is_order else None, code=int(code), remark="NO_MESSAGE_IN_QUEUE",
        )  # fmt: skip

    def take_back(self) -> None:
        """Undo everything: the burst could not be written."""
        for undo in reversed(self.undo):
            undo()


class PopFetcher:
    """Takes messages for groups."""

    def __init__(self, tables: PopTables) -> None:
        self._tables = tables
        self._state = tables.state
        self._random = tables.state.machine.identity.random

    def take(self, request: PopMessage, wanted: Wanted, connection: Connection) -> OnePop:
        """Return what a pop gets. Raises: BrokerAnswer (nothing can be written now), StorageError."""
        state = self._state
        if (refusal := state.store.refusal) is not None:
            words = f"no message is delivered, because it can't be recorded: {refusal}"
            raise BrokerAnswer(ResponseCode.SERVICE_NOT_AVAILABLE, words)
        popped = OnePop(request, wanted, state.clock.message_ms())
        owners = self._tables.owners
        owner = (
            owners.push_number_of(connection, request.consumer_group)
            if request.for_push
            else owners.number_of(connection)
        )
        draw = self._random.randrange(100)
        retries, others = ([], []) if popped.is_order else self._retries(request, draw)
        retry_first = bool(retries) and draw < state.settings.pop_from_retry_probability
        normal = [(request.topic, queue_id) for queue_id in self._queue_ids(request, draw)]
        first, later = ([*retries, *normal], others) if retry_first else (normal, [*retries, *others])
        for topic, queue_id in first:
            self._try(popped, (topic, queue_id, flag_of(topic)), owner)
        if popped.count < request.max_msg_nums:
            for topic, queue_id in later:
                self._try(popped, (topic, queue_id, flag_of(topic)), owner)
        return popped

    def _try(self, popped: OnePop, where: tuple[str, int, int], owner: int) -> None:
        """Visit a queue. If it can't be read, messages of other queues are still delivered. Raises: StorageError."""
        try:
            self._visit(popped, where, owner)
        except (StorageError, ProtocolError, OSError) as error:
            if not popped.count:
                raise
            log.error("queue_not_popped", topic=where[0], queue_id=where[1], error=str(error))

    def _retries(self, request: PopMessage, draw: int) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
        """Return the queues of the retry topic, and those of its other version if both are in use."""
        settings = self._state.settings
        if not settings.enable_retry_topic_v2:
            return self._retry_queues(request, 1), []
        if not settings.retrieve_message_from_pop_retry_topic_v1:
            return self._retry_queues(request, 2), []
        version = 2 if draw % 2 else 1
        return self._retry_queues(request, version), self._retry_queues(request, 3 - version)

    def _retry_queues(self, request: PopMessage, version: int) -> list[tuple[str, int]]:
        name = pop_retry_topic(request.topic, request.consumer_group, version)
        config = self._tables.topics.topics.get(name)
        return [] if config is None else [(name, queue_id) for queue_id in range(config.read_queue_nums)]

    def _queue_ids(self, request: PopMessage, draw: int) -> list[int]:
        if request.queue_id >= 0:
            return [request.queue_id]
        count = self._tables.topics.topics[request.topic].read_queue_nums
        return [(draw + index) % count for index in range(count)]

    # -- one queue -----------------------------------------------------------------------------------------------

    def _visit(self, popped: OnePop, where: tuple[str, int, int], owner: int) -> None:
        """Take the messages that are wanted, up to the limits of the pop. Raises: StorageError."""
        topic, queue_id, flag = where
        place = GroupQueue(popped.request.consumer_group, topic, queue_id)
        queue = self._state.store.queue(topic, queue_id)
        offset = self.start_offset(place, queue, is_from_min=flag != NORMAL or popped.request.init_mode == 0)
        if self._has_enough(place):
            popped.rest += max(0, queue.max_offset - offset)
            return
        order = self._tables.orders.find(place) if popped.is_order else None
        if popped.is_order and is_blocked(order, popped.request.attempt_id, popped.pop_ms):
            return
        if popped.left <= 0:
            popped.rest += max(0, queue.max_offset - offset)
            return
        found, offset = self._read(popped, queue, place, offset)
        popped.rest += max(0, found.max_offset - found.next_offset)
        if found.status is not ReadStatus.FOUND:
            self._tables.statistics.missed.times += 1
            if found.next_offset != offset:
                self._tables.commit(place, found.next_offset)
            return
        key = flag, queue_id
        slices = self._state.store.records(found)
        offsets = shown = offsets_of(found, slices)
        if flag != NORMAL and topic != popped.request.topic:
            slices, shown = self._as_requested(popped, offsets, slices, found, (offset, queue_id, flag))
        if popped.is_order:
            self._take_in_order(popped, place, offset, offsets, order)
            self._tables.orders.hand_out(place, offsets, owner)
        else:
            self._take(popped, place, CheckPoint(offset, popped.pop_ms, 0, 0, owner), (offsets, found.next_offset))
        popped.left -= len(offsets)
        if not shown:
            return
        popped.start_offsets[key] = offset
        popped.message_offsets[key] = shown
        popped.slices += slices
        popped.count += len(shown)
        self._tables.statistics.delivered(place.group, topic, len(shown), found.record_bytes)

    def start_offset(self, place: GroupQueue, queue: Queue, is_from_min: bool) -> int:
        """Return where a pop begins. This takes a pending reset, and commits an offset if there was none.

        A reset also counts if server-side resets were switched off later: until it is taken, it is the group's offset.
        """
        settings = self._state.settings
        offsets = self._tables.groups.offsets
        names = place.group, place.topic, place.queue_id
        if offsets.has_reset(*names):
            reset = offsets.take_reset(*names)
            if self._tables.orders.find(place) is not None:
                self._tables.put_order(place, None, reset if reset is not None else NO_OFFSET)
        committed = offsets.committed(*names)
        if committed >= 0:
            return committed
        offset = queue.min_offset
        if not is_from_min and not (offset <= 0 and settings.init_pop_offset_by_check_msg_in_mem):
            offset = max(0, queue.max_offset - 1)
        self._tables.commit(place, offset)
        return offset

    def _has_enough(self, place: GroupQueue) -> bool:
        settings = self._state.settings
        if not settings.enable_pop_message_threshold:
            return False
        queue = self._tables.in_flight.find(place.group, place.topic, place.queue_id)
        return queue is not None and queue.count > settings.pop_inflight_message_threshold

    def _read(self, popped: OnePop, queue: Queue, place: GroupQueue, offset: int) -> tuple[ReadResult, int]:
        """Return what is found, and the offset of the read, corrected if necessary. Raises: StorageError."""
        store, settings = self._state.store, self._state.settings
        bytes_max = min(settings.max_transfer_bytes_on_message_in_memory, PULL_ANSWER_BYTES_MAX)
        wanted: Any = popped.wanted
        for _ in range(READS_MAX):
            if isinstance(wanted, Choice):
                found = wanted.read(store, queue, offset, popped.left, bytes_max)
            else:
                found = store.read(queue, offset, popped.left, bytes_max, wanted)
            if found.status not in _CORRECTED or found.next_offset == offset:
                break
            offset = found.next_offset
            self._tables.commit(place, offset)
        return found, offset

    # -- taking --------------------------------------------------------------------------------------------------

    def _take(self, popped: OnePop, place: GroupQueue, new: CheckPoint, what: tuple[list[int], int]) -> None:
        offsets, next_offset = what
        messages = mask_of(offsets, new.start)
        due_ms = new.pop_ms + popped.request.invisible_time
        tables = self._tables
        queue = tables.in_flight.queue_of(place)
        old = queue.find(new.start, new.pop_ms)
        if old is not None:  # Frozen time, and a reset: both share one check-point, with the later due time.
            messages, due_ms = messages | old.messages, max(due_ms, old.due_ms)
        tables.put(queue, new._replace(messages=messages, due_ms=due_ms), next_offset)
        tables.commit(place, next_offset)

        def undo() -> None:
            tables.in_flight.remove(queue, new.start, new.pop_ms, messages)
            self._go_back(place, new.start)

        popped.undo.append(undo)

    def _take_in_order(
        self, popped: OnePop, place: GroupQueue, offset: int, offsets: list[int], old: OrderState | None
    ) -> None:
        tables, request = self._tables, popped.request
        state = taken(old, offsets, request.attempt_id, (popped.pop_ms, request.invisible_time))
        tables.put_order(place, state, offset)
        tables.commit(place, offset)
        counts = counts_of(state, (flag_of(place.topic), place.queue_id))
        popped.counts.by_offset.update(counts.by_offset)
        popped.counts.by_queue.update(counts.by_queue)
        popped.undo.append(lambda: tables.orders.put(place, old))

    def _go_back(self, place: GroupQueue, offset: int) -> None:
        """Set a group back to an offset, unless it has been set further back in the meantime."""
        committed = self._tables.groups.offsets.committed(place.group, place.topic, place.queue_id)
        if committed > offset:
            self._tables.commit(place, offset)

    def _as_requested(
        self,
        popped: OnePop,
        offsets: list[int],
        slices: list[bytes],
        found: ReadResult,
        where: tuple[int, int, int],
    ) -> tuple[list[bytes], list[int]]:
        """Return records of a retry topic as records of the requested topic, with their handles, and their offsets.

        A message that has no room for its handle is left out. It counts as taken, and is redelivered later, if that is
        possible. RocketMQ does the same. `where`: start offset, queue id and flag.
        """
        state = self._state
        if state.settings.pop_response_return_actual_retry_topic:
            return slices, offsets
        start, queue_id, flag = where
        request = popped.request
        handle = PopHandle(
            start, popped.pop_ms, request.invisible_time, REVIVE_QUEUE, flag, state.settings.broker_name, queue_id, 0
        )  # fmt: skip
        topic = pack_topic(request.topic)
        records, shown = [], []
        for offset, record in zip(offsets, single_records(slices, found.sizes), strict=True):
            try:
                records.append(rewritten(record, topic, handle))
            except ProtocolError as error:
                names = {"group": request.consumer_group, "topic": request.topic, "flag": flag, "queue_id": queue_id}
                log.error("pop_message_left_out", **names, queue_offset=offset, error=str(error))
            else:
                shown.append(offset)
        return records, shown
