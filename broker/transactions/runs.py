"""Half messages and ends that came in a run of sends: the compiled twin has packed them as `forms.py` does.

What it takes is plain: nobody was asked about it and nothing is said of when to ask. So all that is left is to note
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
    """The transactions of one broker, as far as they come in runs; a part of `TransactionService`."""

    def __init__(
        self,
        state: BrokerState,
        open_halves: OpenHalves,
        recent: RecentHalves,
        ending: Ending,
        expect: Callable[[int], None],
    ) -> None:
        """`expect`: told when the next ones are to be asked about."""
        self._state = state
        self._open = open_halves
        self._recent = recent
        self._ending = ending
        self._expect = expect

    @property
    def known(self) -> Halves | None:
        """What the twin has to know; None while it is to leave transactions alone."""
        settings = self._state.settings
        if settings.broker_id != 0 or settings.reject_transaction_message:
            return None
        return self._recent.by_position, self._halves_place, settings.transaction_time_out

    def _halves_place(self) -> tuple[Queue, bytes, int] | None:
        queue = self._state.store.queue(HALF_TOPIC, 0)
        return None if queue.deleted else (queue, queue.packed_topic, queue.next_offset)

    def end(self, taken: TakenTransactions, on_stored: OnStored | None, context: Any) -> None:
        """Have the burst say which half messages it ends; `on_stored`: where nothing else is stored with that."""
        if taken[2]:
            self._ending.note_all(taken[2], on_stored, context)

    def stored(self, taken: TakenTransactions, outcome: PutOutcome) -> None:
        """Take in the half messages of a run, once they are stored, or aren't."""
        begun, kept, _ = taken
        if begun and outcome is not PutOutcome.FAILED:
            due_ms = next(iter(begun.values()))[2]
            self._open.begin_all(begun, due_ms)
            self._recent.add_all(kept)
            self._expect(due_ms)
