"""Sends to a synchronous master are refused while too few replicas are in sync (minInSyncReplicas).

RocketMQ: CommitLog.asyncPutMessage, IN_SYNC_REPLICAS_NOT_ENOUGH; there only with a controller or an acting master.
"""

from collections.abc import Callable

from staticfire.broker.replication.lineage import SYNC_MASTER
from staticfire.broker.settings import BrokerSettings
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.runtime.dispatcher import Call, Dispatcher, Handler

NOT_ENOUGH = "in-sync replicas not enough"
SENDS = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_MANY,
    RequestCode.CONSUMER_SEND_MSG_BACK,
)
_NO_WAIT = "WAIT\x01false"


class EnoughReplicas:
    """Refuses sends in front of their handlers."""

    def __init__(self, dispatcher: Dispatcher, settings: BrokerSettings, in_sync_count: Callable[[], int]) -> None:
        """`in_sync_count`: returns the number of replicas in sync, the master included."""
        self._dispatcher = dispatcher
        self._is_sync = settings.broker_role == SYNC_MASTER
        self._least = settings.min_in_sync_replicas
        self._in_sync_count = in_sync_count

    def intercept(self) -> None:
        """Intercept sends. Their handlers must be registered already."""
        if self._is_sync:
            for code in SENDS:
                self._dispatcher.precede(code, self._before)
            # Runs of sends have no handler, so they would not be checked.
            self._dispatcher.routes.offer_sends(None)

    def _before(self, handler: Handler) -> Handler:
        def handle(call: Call) -> Answer | None:
            if self._in_sync_count() >= self._least or _NO_WAIT in (getattr(call.request, "properties", "") or ""):
                return handler(call)
            return refusal(ResponseCode.SYSTEM_ERROR, NOT_ENOUGH)

        return handle
