"""Write the events of POP to the log, burst by burst, into queue 0 of the revive topic.

The events of a burst are collected here, and appended after its messages when the burst is written. So a copy and the
end of its check-point are stored together or not at all. Then the callbacks that wait for the write are called.
"""

from collections.abc import Callable
from typing import Any

from staticfire.broker.clock.message_clock import MessageClock
from staticfire.broker.pop.events import Event, encode_event, join_events
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.new_record import NewRecord
from staticfire.broker.store.outcomes import PutOutcome
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.errors import ProtocolError, StorageError

OnWritten = Callable[[bool], None]
"""Called once, with whether the events are in the log."""

# The limit for the events in one record; a segment may be as small as 16 KiB.
RECORD_BYTES_MAX = 8 * 1024
_NOWHERE = bytes(8)


class PopLog:
    """Collects the events that aren't written yet."""

    def __init__(self, store: MessageStore, clock: MessageClock, topic: str) -> None:
        self._store = store
        self._clock = clock
        self.topic = topic
        self.pending: list[bytes] = []
        """The encoded events of the current burst."""
        self._waiting: list[OnWritten] = []
        self.low_water = 0
        self.events = 0
        """How many events were written since the last round (recovery.py)."""

    @property
    def queue(self) -> Queue:
        """The queue of the records."""
        return self._store.queue(self.topic, 0)

    def note(self, event: Event) -> None:
        """Add an event to the current burst."""
        self.pending.append(encode_event(event))

    def when_written(self, on_written: OnWritten) -> None:
        """Call back when everything noted so far is written, or can't be."""
        self._waiting.append(on_written)

    @property
    def has_work(self) -> bool:
        """Whether there is something to flush."""
        return bool(self.pending or self._waiting)

    def flush(self) -> None:
        """Append the noted events to the burst, after its messages."""
        if not self.pending and not self._waiting:
            return
        events, waiting = self.pending, self._waiting
        self.pending, self._waiting = [], []
        self.events += len(events)
        if not events:
            _tell(waiting, True)
        try:
            for first, end in _portions(events):
                is_last = end == len(events)
                self._put(events[first:end], waiting if is_last else None)
        except (StorageError, ProtocolError, OSError):
            # The records that are already in the burst do no harm: they contain only a part of the events, or events
            # that the callbacks undo.
            _tell(waiting, False)

    def _put(self, events: list[bytes], waiting: list[OnWritten] | None) -> None:
        now_ms = self._clock.message_ms()
        body = join_events(self.low_water, events)
        record = NewRecord(self.queue, b"", 0, body, now_ms, _NOWHERE, wait_flush=False)
        self._store.put(record, now_ms, None if waiting is None else _written, waiting)


def _written(waiting: Any, _queue_offset: int, _log_position: int, outcome: PutOutcome) -> None:
    _tell(waiting, outcome is not PutOutcome.FAILED)


def _tell(waiting: list[OnWritten], is_written: bool) -> None:
    for on_written in waiting:
        on_written(is_written)


def _portions(events: list[bytes]) -> list[tuple[int, int]]:
    """Divide the events into records: return the first and the end index of each."""
    portions, first, size = [], 0, 0
    for index, event in enumerate(events):
        if size + len(event) > RECORD_BYTES_MAX and index > first:
            portions.append((first, index))
            first, size = index, 0
        size += len(event)
    return [*portions, (first, len(events))] if events else []
