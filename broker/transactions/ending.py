"""Writes which half messages have ended: one record for all that a burst ends, behind what it commits.

A record of its own for each would be a third of what a transaction writes. RocketMQ gathers the offsets in one record,
too, for up to three seconds; here they are in the burst that ends them, so none is acknowledged without it.
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

OFFSETS_MAX = 512
# In one record. RocketMQ: transactionOpMsgMaxSize, 4 KiB.
_Waiting = tuple[OnStored, Any]


class Ending:
    """Half messages whose ends are on the burst at hand, or wait to be put there."""

    def __init__(
        self,
        store: MessageStore,
        clock: MessageClock,
        ended: Callable[[list[int]], None],
        not_ended: Callable[[list[int]], None],
    ) -> None:
        """`ended`: called with the offsets of those whose ends are stored; `not_ended`: of those that stay open."""
        self._store = store
        self._clock = clock
        self._ended = ended
        self._not_ended = not_ended
        self.offsets: set[int] = set()
        """Being ended: no longer open for who asks, and not closed yet. Never iterated."""
        self._noted: list[int] = []
        self._waiting: list[_Waiting] = []

    def note(self, offset: int, on_stored: OnStored | None = None, context: Any = None) -> None:
        """Have the burst say that a half message has ended; call back when that is stored."""
        self.offsets.add(offset)
        self._noted.append(offset)
        if on_stored is not None:
            self._waiting.append((on_stored, context))

    def note_all(self, offsets: list[int], on_stored: OnStored | None = None, context: Any = None) -> None:
        """`note` of several."""
        self.offsets.update(offsets)
        self._noted += offsets
        if on_stored is not None:
            self._waiting.append((on_stored, context))

    @property
    def has_work(self) -> bool:
        """Whether there is something to flush."""
        return bool(self._noted)

    def flush(self) -> None:
        """Put what was noted on the burst, behind all that is there."""
        noted, waiting = self._noted, self._waiting
        self._noted, self._waiting = [], []
        now_ms, queue = self._clock.message_ms(), self._store.queue(OP_HALF_TOPIC, 0)
        for at in range(0, len(noted), OFFSETS_MAX):
            offsets = noted[at : at + OFFSETS_MAX]
            told = waiting if at + OFFSETS_MAX >= len(noted) else []
            try:
                self._store.put(forms.end_of(offsets, queue, now_ms), now_ms, self._stored, (offsets, told))
            except (StorageError, ProtocolError, OSError) as error:
                # They stay open: whoever began them is asked again, and what was committed comes once more.
                log.error("ends_not_stored", ends=len(offsets), error=str(error))
                self._stored((offsets, told), -1, -1, PutOutcome.FAILED)

    def _stored(self, context: Any, queue_offset: int, log_position: int, outcome: PutOutcome) -> None:
        offsets, told = context
        self.offsets.difference_update(offsets)
        (self._not_ended if outcome is PutOutcome.FAILED else self._ended)(offsets)
        for on_stored, call in told:
            on_stored(call, queue_offset, log_position, outcome)

    def forget(self) -> None:
        """Start anew: the queues were deleted."""
        self._noted.clear()
