"""Passes brokers' checks of a transaction to the producer of its group.

RocketMQ: ClientRemotingProcessor.checkTransactionState.
"""

from collections.abc import Awaitable, Callable

from staticfire.client.cluster.pull_answers import packed_address, received
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.properties import PGROUP
from staticfire.protocol.requests.transactions import CheckTransaction
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Call, Dispatcher
from staticfire.runtime.log import logger

log = logger("client")

Checker = Callable[[ReceivedMessage, CheckTransaction, Connection], Awaitable[None]]
"""Finds out the state, and reports it over the connection of the check request."""


class TransactionChecks:
    """Passes brokers' questions to the producers of one client."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.checkers: dict[str, Checker] = {}
        """The function for each producer group."""
        dispatcher.handle(RequestCode.CHECK_TRANSACTION_STATE, self._check)

    async def _check(self, call: Call) -> None:
        request: CheckTransaction = call.request
        if request.body is None or not request.body.records:
            log.warning("transaction_check_empty", broker=call.peer.address, offset=request.tran_state_table_offset)
            return
        message = received(request.body, request.bname or "", None, packed_address(call.peer.address))[0]
        group = message.get(PGROUP) or ""
        checker = self.checkers.get(group)
        if checker is None:
            log.warning(
                "transaction_check_refused", broker=call.peer.address, group=group, reason="no such producer here"
            )
            return
        await checker(message, request, call.connection)
