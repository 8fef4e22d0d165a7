"""Write which half messages have ended: one record for all ends of a burst, after the messages that it commits.

A record for each end would be a third of what a transaction writes. RocketMQ also collects the offsets in one record,
for up to three seconds. Here they are in the same burst as the ends, so no end is acknowledged without them.
The half messages are closed when the record is written, even if callers still wait for the disk or for slaves.
"""

from collections.abc import Callable
from typing import Any

from staticfire.broker.clock.message_clock import MessageClock
from staticfire.broker.store.outcomes import OnStored, PutOutcome
from staticfire.broker.store.store import MessageStore
from staticfire.broker.transactions import forms
from staticfire.protocol.errors import ProtocolError, StorageError
from staticfire.protocol.names import OP_HALF_TOPIC
from staticfire.runtime.log import logger

log = logger("broker")

# The number of offsets in one record. RocketMQ: transactionOpMsgMaxSize, 4 KiB.
OFFSETS_MAX = 512
_Waiting = tuple[OnStored, Any]


class Ending:
    """Half messages whose ends are in the current burst, or wait to be added to it."""

    def __init__(
        self,
        store: MessageStore,
        clock: MessageClock,
        ended: Callable[[list[int]], None],
        not_ended: Callable[[list[int]], None],
    ) -> None:
        """`ended` is called with the offsets whose ends are written; `not_ended` with those that are still open."""
        self._store = store
        self._clock = clock
        self._ended = ended
        self._not_ended = not_ended
        self.offsets: set[int] = set()
        """Half messages that are being ended: no longer open for other callers, but not closed yet. Never iterated."""
        self._noted: list[int] = []
        self._waiting: list[_Waiting] = []

    def note(self, offset: int, on_stored: OnStored | None = None, context: Any = None) -> None:
        """Add the end of a half message to the burst, and call `on_stored` when it is stored."""
        self.offsets.add(offset)
        self._noted.append(offset)
        if on_stored is not None:
            self._waiting.append((on_stored, context))

    def note_all(self, offsets: list[int], on_stored: OnStored | None = None, context: Any = None) -> None:
        """Do `note` for several half messages."""
        self.offsets.update(offsets)
        self._noted += offsets
        if on_stored is not None:
            self._waiting.append((on_stored, context))

    @property
    def has_work(self) -> bool:
        """Whether there is something to flush."""
        return bool(self._noted)

    def flush(self) -> None:
        """Add the noted ends to the burst, after everything that is in it."""
        noted, waiting = self._noted, self._waiting
        self._noted, self._waiting = [], []
        now_ms, queue = self._clock.message_ms(), self._store.queue(OP_HALF_TOPIC, 0)
        for at in range(0, len(noted), OFFSETS_MAX):
            offsets = noted[at : at + OFFSETS_MAX]
            callers = waiting if at + OFFSETS_MAX >= len(noted) else []
            try:
                self._store.put(forms.end_of(offsets, queue, now_ms), now_ms, _notify, callers)
            except (StorageError, ProtocolError, OSError) as error:
                # They are still open: their producers are checked again, and what was committed is delivered twice.
                log.error("ends_not_stored", ends=len(offsets), error=str(error))
                self._written(offsets, -1, -1, PutOutcome.FAILED)
                _notify(callers, -1, -1, PutOutcome.FAILED)
            else:
                self._store.when_written(self._written, offsets)

    def _written(self, offsets: Any, _queue_offset: int, _log_position: int, outcome: PutOutcome) -> None:
        self.offsets.difference_update(offsets)
        (self._not_ended if outcome is PutOutcome.FAILED else self._ended)(offsets)

    def forget(self) -> None:
        """Reset everything, because the queues were deleted. Callers that still wait get a failure."""
        waiting, self._waiting = self._waiting, []
        self._noted.clear()
        self.offsets.clear()
        _notify(waiting, -1, -1, PutOutcome.FAILED)


def _notify(callers: list[_Waiting], queue_offset: int, log_position: int, outcome: PutOutcome) -> None:
    for on_stored, context in callers:
        on_stored(context, queue_offset, log_position, outcome)
