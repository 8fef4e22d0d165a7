"""Redeliver messages whose invisible time is over. RocketMQ: PopReviveService.

A message is copied to the POP retry topic of its group and topic, with its reconsume count increased by one; a message
of that retry topic is copied to the same topic again. The copies and the end of their check-points are one burst, which
is stored as a whole or not at all. Messages are handled when they are due, in slices, in the order of their due times.

A message that can't be copied is tried again later, alone: the others of its check-point are redelivered. As in
RocketMQ, the pauses between two tries grow from 10 s to 2 hours, and the tries end when the message is removed for its
age. Here they end at that age also if its segment is kept.

With `popDeadLetters` a message that was redelivered as often as its group allows becomes a dead letter; RocketMQ's
brokers redeliver it forever.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from staticfire.broker.groups.dead_letters import DeadLetters
from staticfire.broker.groups.retries import is_dead
from staticfire.broker.pop.answers import handle_bytes_max, offsets_of, single_records
from staticfire.broker.pop.copying import Copies
from staticfire.broker.pop.events import GroupQueue, mask_of
from staticfire.broker.pop.in_flight import NO_CLIENT, CheckPoint, PoppedQueue
from staticfire.broker.pop.tables import PopTables
from staticfire.broker.retention import HOUR_MS
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.new_record import NewRecord
from staticfire.broker.store.outcomes import PutOutcome, ReadStatus
from staticfire.protocol.errors import BrokerAnswer, ProtocolError, StorageError
from staticfire.protocol.hosts import pack_host
from staticfire.protocol.message_ids import offset_id, offset_id_prefix
from staticfire.protocol.names import fits_store, is_retry_topic, pop_retry_topic, requested_topic
from staticfire.protocol.properties import (
    DELAY,
    ORIGIN_MESSAGE_ID,
    POP_CK,
    RETRY_TOPIC,
    append_property,
    find_property,
    with_property,
    without_property,
)
from staticfire.protocol.record import StoredRecord, decode_record
from staticfire.protocol.record_copies import cut
from staticfire.protocol.tags import tags_code
from staticfire.protocol.times import MessageMs
from staticfire.runtime.log import logger

log = logger("broker")

# How many messages are redelivered before the event loop continues.
SLICE_MAX = 128
# The pauses between the tries if the copy of a message can't be stored. RocketMQ: ckRewriteIntervalsInSeconds.
PAUSES_S = (10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
# For how many check-points the tries are counted. The oldest one begins with the shortest pause again.
TRIED_MAX = 10_000

OnReturned = Callable[[str, str], None]
"""Called with the group, and the topic of the popped message."""


class Returner:
    """Redelivers messages."""

    def __init__(
        self, tables: PopTables, dead_letters: DeadLetters, settle: Callable[[], None], on_returned: OnReturned
    ) -> None:
        self._tables = tables
        self._state = tables.state
        self._store = tables.state.store
        self._dead_letters = dead_letters
        self._settle = settle
        self._on_returned = on_returned
        self._host = pack_host(self._state.machine.identity.host_ip, self._state.settings.listen_port)
        self._handle_bytes_max = handle_bytes_max(self._state.settings.broker_name)
        self._tries: dict[tuple[int, int, int], int] = {}
        """The number of tries by queue number, start offset and pop time. A restart counts from 0 again."""

    async def return_until(self, message_ms: MessageMs) -> int:
        """Redeliver everything due by then; return the number of messages. Raises: StorageError (not possible now)."""
        returned = 0
        while due := self._take_due(message_ms):
            returned += self._return(due, message_ms)
            await asyncio.sleep(0)
        return returned

    def _take_due(self, message_ms: MessageMs) -> list[tuple[PoppedQueue, CheckPoint]]:
        due: list[tuple[PoppedQueue, CheckPoint]] = []
        count = 0
        while count < SLICE_MAX and (one := self._tables.in_flight.take_due(message_ms)) is not None:
            due.append(one)
            count += one[1].messages.bit_count()
        return due

    def _return(self, due: list[tuple[PoppedQueue, CheckPoint]], message_ms: MessageMs) -> int:
        """Store the copies of these check-points, in one burst. Raises: StorageError, which concerns all of them."""
        tables, returned = self._tables, 0
        if self._store.refusal is not None:
            self._put_back(due)
            raise StorageError(str(self._store.refusal))
        outcome: list[bool] = []
        reached = 0
        trouble: OSError | None = None
        for queue, check_point in due:
            try:
                returned += self._return_all(queue, check_point, message_ms)
            except OSError as error:
                trouble = error  # The disk failed: no message may be dropped because of that.
                break
            except (BrokerAnswer, ProtocolError, StorageError) as error:
                self._postpone(queue, check_point, message_ms, str(error))
            reached += 1
        tables.log.when_written(outcome.append)
        self._settle()
        if outcome == [False]:
            self._put_back(due)
            raise self._store.failure or StorageError("messages whose invisible time is over could not be stored")
        if trouble is not None:
            self._put_back(due[reached:])
            raise StorageError(f"a message whose invisible time is over could not be read: {trouble}") from trouble
        return returned

    def _put_back(self, due: list[tuple[PoppedQueue, CheckPoint]]) -> None:
        for queue, check_point in due:
            self._tables.in_flight.put(queue, check_point)

    def _postpone(self, queue: PoppedQueue, left: CheckPoint, message_ms: MessageMs, reason: str) -> None:
        """Try the messages that are left of a check-point again later, if they aren't too old.

        Their client had its time and is done.
        """
        place, key = queue.place, (queue.number, left.start, left.pop_ms)
        tries = self._tries.pop(key, 0)
        what: dict[str, Any] = {
            "group": place.group,
            "topic": place.topic,
            "queue_id": place.queue_id,
            "start_offset": left.start,
        }
        what |= {"messages": left.messages.bit_count(), "error": reason}
        if message_ms - left.pop_ms > self._state.settings.file_reserved_time * HOUR_MS:
            self._tables.remove(queue, left.start, left.pop_ms, left.messages)
            log.error("pop_given_up", **what)
            return
        retry_ms = PAUSES_S[min(tries, len(PAUSES_S) - 1)] * 1_000
        self._tries[key] = tries + 1
        if len(self._tries) > TRIED_MAX:
            del self._tries[next(iter(self._tries))]
        self._tables.in_flight.put(queue, left._replace(due_ms=message_ms + retry_ms, owner=NO_CLIENT))
        log.error("pop_not_returned", **what, retry_ms=retry_ms)

    # -- one check-point -----------------------------------------------------------------------------------------

    def _return_all(self, popped: PoppedQueue, check_point: CheckPoint, message_ms: MessageMs) -> int:
        """Add the copies of a check-point, and its end, to the burst; return how many.

        Messages that can't be copied are left in it. Raises: as `_target`, OSError, StorageError.
        """
        place = popped.place
        count, unwritable = 0, dict[int, str]()
        if place.topic in self._tables.topics.topics and self._tables.groups.configs.find(place.group) is not None:
            records = self._records(popped, check_point)
            unwritable = self._copy(place, records, check_point.pop_ms)
            count = len(records) - len(unwritable)
            self._on_returned(place.group, place.topic)
        left = mask_of(unwritable, check_point.start)
        self._tables.remove(popped, check_point.start, check_point.pop_ms, check_point.messages & ~left)
        if unwritable:
            first_reason = next(iter(unwritable.values()))
            self._postpone(popped, check_point._replace(messages=left), message_ms, first_reason)
        return count

    def _copy(self, place: GroupQueue, records: list[bytes], pop_ms: int) -> dict[int, str]:
        """Add copies, or dead letters, to the burst; return the reason for each that can't be written, by its offset.

        Raises: as `_target`.
        """
        state, now_ms = self._state, self._state.clock.message_ms()
        has_dead, times_max = (
            state.settings.pop_dead_letters,
            self._tables.groups.configs.groups[place.group].retry_max_times,
        )
        target = self._target(place.group, place.topic)
        copies = Copies(self._store, target, self._host, self._handle_bytes_max, now_ms)
        first_pop = b"%d" % pop_ms
        unwritable: dict[int, str] = {}
        for data in records:
            parts = cut(data)
            try:
                if has_dead and is_dead(parts.reconsume_times, times_max, False):
                    copies.flush()
                    letter = self._dead_letter(place.group, decode_record(data))
                    on_stored = self._dead_letters.counted(place.group, letter.properties, _no_word)
                    self._store.put(letter, now_ms, on_stored)
                    copies.flush()
                else:
                    copies.add(parts, first_pop)
            except (BrokerAnswer, ProtocolError, StorageError) as error:
                unwritable[parts.queue_offset] = str(error)
        copies.flush()
        return unwritable

    def _target(self, group: str, topic: str) -> Queue:
        """Return the queue of the retry topic, created if needed. Raises: ProtocolError (its name is too long)."""
        state, name = self._state, topic
        if not is_retry_topic(topic):
            name = pop_retry_topic(topic, group, 2 if state.settings.enable_retry_topic_v2 else 1)
        if name not in self._tables.topics.topics:
            if not fits_store(name):
                raise ProtocolError(f"the name of its retry topic {name} is too long")
            self._tables.topics.create_for_group(name, 1)
        if self._tables.groups.offsets.committed(group, name, 0) < 0:
            self._tables.groups.offsets.commit(group, name, 0, 0)
        return state.store.queue(name, 0)

    def _records(self, popped: PoppedQueue, check_point: CheckPoint) -> list[bytes]:
        """Return the messages of a check-point that can be read. Raises: OSError, StorageError."""
        place, start = popped.place, check_point.start
        queue = self._store.queue(place.topic, place.queue_id)
        left = check_point.messages
        records: list[bytes] = []
        if left & left + 1 == 0:  # The messages are successive: one read is enough.
            found = self._store.read(queue, start, left.bit_length())
            if found.status is ReadStatus.FOUND:
                slices = self._store.records(found)
                records += single_records(slices, found.sizes)
                for offset in offsets_of(found, slices):
                    left &= ~(1 << (offset - start))
        return records + self._single_records(place, queue, start, left) if left else records

    def _single_records(self, place: GroupQueue, queue: Queue, start: int, messages: int) -> list[bytes]:
        """Return messages of a check-point, read one by one. Raises: OSError, StorageError."""
        records: list[bytes] = []
        first = start + (messages & -messages).bit_length() - 1
        entries = self._store.entries(queue, first, start + messages.bit_length() - first)
        for offset, entry in enumerate(entries, max(first, queue.min_offset)):
            if not messages >> (offset - start) & 1:
                continue
            data = self._store.record_at(entry.log_position) if entry.record_bytes > 0 else None
            record = None if data is None else decode_record(data)
            if data is None or record is None or record.topic != place.topic or record.queue_offset != offset:
                log.error("pop_message_gone", group=place.group, topic=place.topic, queue_offset=offset)
                continue
            records.append(data)
        return records

    def _dead_letter(self, group: str, record: StoredRecord) -> NewRecord:
        properties = without_property(record.properties, POP_CK)
        if find_property(properties, RETRY_TOPIC) is None:
            properties = append_property(properties, RETRY_TOPIC, requested_topic(record.topic, group))
        if find_property(properties, ORIGIN_MESSAGE_ID) is None:
            first_id = offset_id(offset_id_prefix(self._host), record.log_position)
            properties = append_property(properties, ORIGIN_MESSAGE_ID, first_id)
        properties = with_property(properties, DELAY, b"0")
        queue = self._dead_letters.queue_of(group)
        return NewRecord(
            queue, properties, tags_code(properties), record.body, record.born_ms, record.born_host, record.sys_flag,
            record.flag, record.reconsume_times + 1, wait_flush=False,
        )  # fmt: skip


def _no_word(_context: Any, _queue_offset: int, _log_position: int, _outcome: PutOutcome) -> None:
    """Do nothing: no caller waits for this record."""
