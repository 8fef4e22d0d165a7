"""Half messages and ends that came in a run of sends: the compiled extension has packed them like `forms.py` does.

It handles only plain ones: not checked before, and without a check time of their own. So this class only has to note
what has begun and ended, many at once.
"""

from collections.abc import Callable
from typing import Any

from staticfire.broker.state import BrokerState
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.outcomes import OnStored, PutOutcome
from staticfire.broker.transactions.ending import Ending
from staticfire.broker.transactions.open_halves import OpenHalves, RecentHalves
from staticfire.protocol.compiled import Halves, TakenTransactions
from staticfire.protocol.names import HALF_TOPIC


class TransactionRuns:
    """The transactions of one broker that come in runs; a part of `TransactionService`."""

    def __init__(
        self,
        state: BrokerState,
        open_halves: OpenHalves,
        recent: RecentHalves,
        ending: Ending,
        expect: Callable[[int], None],
    ) -> None:
        """`expect` is called with the time when the next ones must be checked."""
        self._state = state
        self._open = open_halves
        self._recent = recent
        self._ending = ending
        self._expect = expect

    @property
    def known(self) -> Halves | None:
        """The data that the extension needs; None if it must not handle transactions."""
        settings = self._state.settings
        if settings.broker_id != 0 or settings.reject_transaction_message:
            return None
        return self._recent.by_position, self._halves_place, settings.transaction_time_out

    def _halves_place(self) -> tuple[Queue, bytes, int] | None:
        queue = self._state.store.queue(HALF_TOPIC, 0)
        return None if queue.deleted else (queue, queue.packed_topic, queue.next_offset)

    def end(self, taken: TakenTransactions, on_stored: OnStored | None, context: Any) -> None:
        """Add the ends of these half messages to the burst.

        `on_stored` is needed if nothing else is stored with them.
        """
        if taken[2]:
            self._ending.note_all(taken[2], on_stored, context)

    def begin(self, taken: TakenTransactions) -> None:
        """Register the half messages of a run, which was put into the burst just now, when it is written."""
        if taken[0]:
            self._state.store.when_written(self._written, taken)

    def _written(self, taken: Any, _queue_offset: int, _log_position: int, outcome: PutOutcome) -> None:
        if outcome is PutOutcome.FAILED:
            return
        begun, kept, _ = taken
        due_ms = next(iter(begun.values()))[2]
        self._open.begin_all(begun, due_ms)
        self._recent.add_all(kept)
        self._expect(due_ms)
