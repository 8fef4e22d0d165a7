"""Restore the state of POP at the start, from the events in the log, beginning at the low water.

To keep this short, a round writes everything in flight to the log again, a part at a time, while new events are also
written. After the round no event before its beginning is needed any more: the records then contain its beginning as the
low water. A round is done when there were many more events than there are things in flight. So a start reads only a few
times as many events as are in flight, and no other file is needed.

The offsets of groups are in consumerOffset.json, which contains the log position of its own state; pops after that
position add the rest. The file of a slave also contains the position of its master's log to which the offsets belong:
pops between the two positions move a group forward, but not back behind what it has committed at the slave.

After a failed fsync the log may contain an event without the messages that it is about. So offsets after the end of
their queue are dropped: otherwise the next messages with these offsets would count as popped.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import msgspec

from staticfire.broker.pop.events import (
    NO_OFFSET,
    Done,
    Event,
    GroupQueue,
    Ordered,
    OrderState,
    Taken,
    pack_bits,
    read_events,
    unpack_bits,
)
from staticfire.broker.pop.in_flight import NO_CLIENT, POP_MS_MAX, CheckPoint
from staticfire.broker.pop.tables import PopTables
from staticfire.broker.store.consume_queue import Queue
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.record import decode_record
from staticfire.runtime.log import logger

log = logger("broker")

READ_MAX = 512
EVENTS_AT_ONCE = 1_000
# A round begins after this many events plus two for each thing in flight.
ROUND_EVENTS_MIN = 50_000


class _Read(NamedTuple):
    log_position: int
    low_water: int
    events: list[Event]


class PopRecovery:
    """Restores the state of POP at the start, and limits how much of the log must be read."""

    def __init__(self, tables: PopTables, settle: Callable[[], None]) -> None:
        self._tables = tables
        self._settle = settle

    # -- at start ------------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Restore what is in flight, and the offsets of groups. Raises: StorageError."""
        tables = self._tables
        queue = tables.log.queue
        offsets = tables.groups.offsets
        known_to = -1 if offsets.saved_position is None else offsets.saved_position
        copied_to = known_to if offsets.copied_position is None else offsets.copied_position
        low_water = tables.log.low_water = self._low_water(queue)
        first = max(queue.min_offset, min(low_water, self._offset_at(queue, min(known_to, copied_to))))
        committed: dict[GroupQueue, None] = {}
        for offset, position, events in self._records(queue, first):
            for event in events:
                if position < tables.state.store.deletions.get(event.place.topic, 0):
                    continue
                if offset >= low_water:
                    self._take_in(event)
                if position >= min(known_to, copied_to) and self._commit(event, may_go_back=position >= known_to):
                    committed[event.place] = None
            tables.log.events += len(events)
        self._forget_lost(committed)

    def _low_water(self, queue: Queue) -> int:
        """Return the low water in the newest readable record."""
        for offset in range(queue.max_offset - 1, queue.min_offset - 1, -1):
            for record in self._read(queue, offset, 1):
                if record is not None:
                    return record.low_water
        return queue.min_offset

    def _offset_at(self, queue: Queue, log_position: int) -> int:
        """Return the first offset whose record is at this log position or after it. Raises: StorageError."""
        low, high, store = queue.min_offset, queue.max_offset, self._tables.state.store
        while low < high:
            middle = (low + high) // 2
            entries = store.entries(queue, middle, 1)
            if entries and entries[0].log_position < log_position:
                low = middle + 1
            else:
                high = middle
        return low

    def _records(self, queue: Queue, offset: int) -> Iterator[tuple[int, int, list[Event]]]:
        """Yield offset, log position and events of each record. Raises: StorageError."""
        while offset < queue.max_offset:
            for record in self._read(queue, offset, READ_MAX):
                if record is not None:
                    yield offset, record.log_position, record.events
                offset += 1

    def _read(self, queue: Queue, offset: int, count: int) -> Iterator["_Read | None"]:
        """Yield the decoded records, None for a damaged one. Raises: StorageError."""
        store = self._tables.state.store
        for entry in store.entries(queue, offset, min(count, queue.max_offset - offset)):
            try:
                data = store.record_at(entry.log_position) if entry.record_bytes > 0 else None
                if data is None:
                    raise ProtocolError("it is damaged")
                read = read_events(decode_record(data).body)
            except (ProtocolError, OSError) as error:
                _report(entry.log_position, str(error))
                yield None
            else:
                for words in read.errors:
                    _report(entry.log_position, words)
                yield _Read(entry.log_position, read.low_water, read.events)

    def _take_in(self, event: Event) -> None:
        tables = self._tables
        if isinstance(event, Ordered):
            tables.orders.put(event.place, event.state)
            return
        if not (0 <= event.pop_ms <= POP_MS_MAX and event.start >= 0):
            return
        queue = tables.in_flight.queue_of(event.place)
        messages = unpack_bits(event.bits)
        if isinstance(event, Done):
            tables.in_flight.remove(queue, event.start, event.pop_ms, messages)
        elif messages:
            tables.in_flight.put(queue, CheckPoint(event.start, event.pop_ms, messages, event.due_ms, NO_CLIENT))

    def _commit(self, event: Event, may_go_back: bool) -> bool:
        """Set the group's offset to that of the event; return whether that was done."""
        if isinstance(event, Done) or event.committed == NO_OFFSET:
            return False
        place, offsets = event.place, self._tables.groups.offsets
        if not may_go_back and event.committed <= offsets.committed(place.group, place.topic, place.queue_id):
            return False
        offsets.take_reset(place.group, place.topic, place.queue_id)
        self._tables.commit(place, event.committed)
        return True

    def _forget_lost(self, committed: Iterable[GroupQueue]) -> None:
        """Drop everything after the end of its queue, and note that for the next start. Raises: StorageError."""
        tables = self._tables
        for place in committed:
            end = self._end_if_below(place, tables.groups.offsets.committed(place.group, place.topic, place.queue_id))
            if end is not None:
                tables.commit(place, end)
                tables.log.note(Taken(place, end, 0, 0, b"", end))
                reason = "its messages are lost, but the records of their pops are not: the group continues at the end"
                log.warning("pop_taken_back", **msgspec.structs.asdict(place), offset=end, reason=reason)
        for queue in tables.in_flight:
            for one in list(queue):
                end = self._end_if_below(queue.place, one.start + one.messages.bit_length())
                if end is not None:
                    kept = max(0, end - one.start)
                    tables.remove(queue, one.start, one.pop_ms, one.messages >> kept << kept)
        for place, state in list(tables.orders):
            end = self._end_if_below(place, max(state.offsets, default=-1) + 1)
            if end is not None:
                tables.put_order(place, _below(state, end))

    def _end_if_below(self, place: GroupQueue, offset: int) -> int | None:
        """Return the end of a queue if it is below an offset, else None. Raises: StorageError."""
        store = self._tables.state.store
        if offset <= store.end_at_least(place.topic, place.queue_id):
            return None
        end = store.queue(place.topic, place.queue_id).max_offset
        return end if end < offset else None

    # -- rounds --------------------------------------------------------------------------------------------------

    async def round_if_due(self, pause: Callable[[int], Awaitable[None]]) -> bool:
        """Do a round if there have been many events; return whether it was begun."""
        tables = self._tables
        live = tables.in_flight.check_points + len(tables.orders)
        if tables.log.events <= ROUND_EVENTS_MIN + 2 * live:
            return False
        begin = tables.log.queue.max_offset
        tables.log.events = 0
        logged = self._logged_events()
        while events := list(islice(logged, EVENTS_AT_ONCE)):
            is_written: list[bool] = []
            for event in events:
                tables.log.note(event)
            tables.log.when_written(is_written.append)
            self._settle()
            if is_written != [True]:
                return True
            await pause(0)
        tables.log.low_water = begin
        return True

    def _logged_events(self) -> Iterator[Event]:
        """Yield everything in flight, in its current state."""
        tables = self._tables
        for place, _ in tables.orders:
            yield Ordered(place, tables.orders.find(place))
        for queue in tables.in_flight:
            for start, pop_ms in [(one.start, one.pop_ms) for one in queue]:
                now = queue.find(start, pop_ms)
                if now is not None:
                    yield Taken(queue.place, start, pop_ms, now.due_ms, pack_bits(now.messages))


def _report(log_position: int, error: str) -> None:
    words = "popped messages may be redelivered or lost: their records can't be read"
    log.error("pop_events_unreadable", log_position=log_position, error=error, reason=words)


def _below(state: OrderState, end: int) -> OrderState | None:
    """Return the part of a state that is about offsets below `end`; None if it is empty."""
    offsets, acked = ([offset for offset in found if offset < end] for found in (state.offsets, state.acked))
    return msgspec.structs.replace(state, offsets=offsets, acked=acked) if offsets else None
