"""What a synchronous master does in front of sends: it refuses them while too few replicas are in sync.

RocketMQ: CommitLog.asyncPutMessage, IN_SYNC_REPLICAS_NOT_ENOUGH; there only with a controller or an acting master.

Behaviour
- A message with WAIT=false is stored in any case, and waits for no slave. So does one with any value that isn't true.
"""

from typing import Protocol

from staticfire.broker.replication.lineage import SYNC_MASTER
from staticfire.broker.sends.new_topics import NewTopics
from staticfire.broker.settings import BrokerSettings
from staticfire.broker.state import BrokerState
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.properties import WAIT, find_property
from staticfire.protocol.requests.send import ManyMessage
from staticfire.runtime.dispatcher import Call, Dispatcher, Handler

NOT_ENOUGH = "in-sync replicas not enough"
SENDS = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_MANY,
    RequestCode.CONSUMER_SEND_MSG_BACK,
)


def least_in_sync(settings: BrokerSettings) -> int:
    """Return how many replicas must be in sync for a send, the master included. RocketMQ: calcNeedAckNums."""
    if settings.enable_slave_acting_master and not settings.enable_auto_in_sync_replicas:
        return max(settings.min_in_sync_replicas, settings.in_sync_replicas)
    return settings.min_in_sync_replicas


class Replicas(Protocol):
    """The replicas of a master."""

    def in_sync_count(self) -> int: ...

    def waive(self, start: int, end: int) -> None: ...


class EnoughReplicas:
    """Handles requests in front of the handlers of sends."""

    def __init__(self, dispatcher: Dispatcher, state: BrokerState, replicas: Replicas, new_topics: NewTopics) -> None:
        self._dispatcher = dispatcher
        self._new_topics = new_topics
        self._store = state.store
        self._least = 1
        self._replicas = replicas
        assert state.settings.broker_role == SYNC_MASTER
        self._state = state

    def intercept(self) -> None:
        """Intercept sends. Their handlers must be registered already."""
        for code in SENDS:
            self._dispatcher.precede(code, self._before)
        self._new_topics.precede(self._before)
        self._use(self._state.settings)
        self._state.on_settings(self._use)

    def _use(self, settings: BrokerSettings) -> None:
        self._least = least_in_sync(settings)
        if self._least > 1:
            # Runs of sends have no handler, so they would not be checked.
            self._dispatcher.routes.offer_sends(None)

    def _before(self, handler: Handler) -> Handler:
        def handle(call: Call) -> Answer | None:
            if waits_for_no_slave(call.request):
                start = self._store.room[0]
                answer = handler(call)
                self._replicas.waive(start, self._store.room[0])
                return answer
            if self._least > 1 and self._replicas.in_sync_count() < self._least:
                return refusal(ResponseCode.SYSTEM_ERROR, NOT_ENOUGH)
            return handler(call)

        return handle


def waits_for_no_slave(request: object) -> bool:
    """Return whether all messages of a request have WAIT=false. RocketMQ: Message.isWaitStoreMsgOK."""
    properties = getattr(request, "properties", None)
    if isinstance(properties, str):
        return _is_hurried(properties.encode())
    messages = getattr(request, "body", None)
    if isinstance(messages, list) and messages and isinstance(messages[0], ManyMessage):
        return all(_is_hurried(message.properties) for message in messages)
    return False


def _is_hurried(properties: bytes) -> bool:
    value = find_property(properties, WAIT)
    return value is not None and value.lower() != b"true"
