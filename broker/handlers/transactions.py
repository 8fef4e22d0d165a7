"""Commit transactions or roll them back. RocketMQ: EndTransactionProcessor.

Behaviour
- The checks are those of RocketMQ 5.3, in the same order, with the same codes and remarks. The state "unknown" decides
  nothing and gets no response.
- A commit is answered after the message is stored in its real topic.

Different from RocketMQ
- The end of a transaction that has ended already succeeds, and nothing is stored again (`repeatEndedCommits`). A half
  message that was only moved away is stored when it is committed, as in RocketMQ.
"""

from typing import Any

from staticfire.broker.state import BrokerState
from staticfire.broker.store.outcomes import PutOutcome
from staticfire.broker.transactions import forms
from staticfire.broker.transactions.service import TransactionService
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.record import StoredRecord
from staticfire.protocol.requests.transactions import EndTransaction
from staticfire.protocol.sys_flag import TransactionKind
from staticfire.runtime.dispatcher import Call, Dispatcher

_KINDS = (TransactionKind.NONE, TransactionKind.COMMIT, TransactionKind.ROLLBACK)


class TransactionHandlers:
    """Handles commits and rollbacks."""

    def __init__(self, state: BrokerState, transactions: TransactionService) -> None:
        self._state = state
        self._transactions = transactions

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.END_TRANSACTION, self.end)

    def end(self, call: Call) -> Answer | None:
        """End the transaction of a half message. Raises: BrokerAnswer, StorageError."""
        request: EndTransaction = call.request
        state, kind = self._state, request.commit_or_rollback
        if state.settings.broker_id != 0:
            return refusal(ResponseCode.SLAVE_NOT_AVAILABLE, "not set any response code")
        if kind not in _KINDS:
            return refusal(ResponseCode.SYSTEM_ERROR, f"commitOrRollback field wrong, {kind}: it must be 0, 8 or 12")
        if request.from_transaction_check:
            self._transactions.answered(request.tran_state_table_offset)
        if kind == TransactionKind.NONE:
            return None
        half = self._transactions.half_at(request.commit_log_offset)
        if half is None:
            return refusal(ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed")
        fault = self._fault(request, half)
        if fault is not None:
            return fault
        is_commit = kind == TransactionKind.COMMIT
        if not self._transactions.is_open(half) and not (
            is_commit and (state.settings.repeat_ended_commits or self._transactions.was_set_aside(half))
        ):
            return Answer()
        self._transactions.end(half, is_commit, self._stored, call)
        return None

    def _fault(self, request: EndTransaction, half: StoredRecord) -> Answer | None:
        clock, timeout_ms = self._state.clock, self._state.settings.transaction_time_out
        immunity_ms = forms.immunity_ms(half.properties, timeout_ms)
        is_requested = bool(request.from_transaction_check) or immunity_ms is None
        if not is_requested and forms.age_ms(half, clock.message_ms(), clock.is_wall) > (immunity_ms or 0):
            return refusal(ResponseCode.ILLEGAL_OPERATION, "Message commit fail [checkImmunityTime]: too late")
        if forms.producer_group(half.properties) != request.producer_group:
            return refusal(ResponseCode.SYSTEM_ERROR, "The producer group wrong")
        if half.queue_offset != request.tran_state_table_offset:
            return refusal(ResponseCode.SYSTEM_ERROR, "The transaction state table offset wrong")
        return None

    def _stored(self, call: Any, _queue_offset: int, _log_position: int, outcome: PutOutcome) -> None:
        call.answer(ended(outcome))


def ended(outcome: PutOutcome) -> Answer:
    """Return the response to the end of a transaction."""
    if outcome is PutOutcome.FAILED:
        return refusal(ResponseCode.SYSTEM_ERROR, "the end of the transaction could not be stored")
    return Answer()
