"""What a slave refuses, with RocketMQ's codes and words. RocketMQ: the `rejectRequest` of each processor.

Behaviour
- Sends and returned messages: SYSTEM_BUSY, before any other check. Nothing is created.
- Pulls, unless slaveReadEnable: the same.
- With enableSlaveActingMaster: sends get SERVICE_NOT_AVAILABLE instead, as from a master that can store nothing, and
  returned messages SYSTEM_ERROR. Nothing that is due is sent to another broker (RocketMQ's escape).
- Resets of the broker, except for those of its settings, and snapshots: SYSTEM_BUSY, and what to do.
- Locks of queues: none, unless enableSlaveActingMaster.
- A change of slaveReadEnable or enableSlaveActingMaster has an effect at once.
- Recalls: SLAVE_NOT_AVAILABLE. The end of a transaction, a reset of offsets: see their handlers.

Different from RocketMQ
- Pops, acknowledgements and imports are refused as sends are: they store records, which a slave's log can't have.
  RocketMQ pops there and can't keep what was popped. Its clients never ask.
- RocketMQ's slaves lock queues. After a failover a member that still has the old route then locks queues at the old
  master, while another one has locked them at the new master, and both consume them.
"""

from staticfire.broker.replication.lineage import is_slave
from staticfire.broker.retention import disk_words
from staticfire.broker.state import BrokerState
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.errors import StorageError
from staticfire.protocol.requests.locks import LockAnswer, LockBatchResponseBody
from staticfire.protocol.requests.send import SendAnswer
from staticfire.runtime.dispatcher import Call, Dispatcher, Handler

NOT_AVAILABLE = "service not available now. It may be caused by one of the following reasons: the broker's disk is full"
NOT_AVAILABLE_MORE = "messages are put to the slave, message store has been shut down, etc."
REJECTED = "[REJECTREQUEST]system busy, start flow control for a while"
SENDS = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_MANY,
    RequestCode.CONSUMER_SEND_MSG_BACK,
    RequestCode.SEND_REPLY_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
    RequestCode.IMPORT_MESSAGES,
    RequestCode.POP_MESSAGE,
    RequestCode.ACK_MESSAGE,
    RequestCode.BATCH_ACK_MESSAGE,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
)
OF_MASTER = (RequestCode.SAVE_SNAPSHOT, RequestCode.RESTORE_SNAPSHOT)
"""staticfire's own requests, which RocketMQ doesn't have."""
ACTING_REFUSES = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_MANY,
)
PULLS = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
NO_APPENDS = "slave"
ONLY_MASTER = "this broker is a slave: only a master is reset, saved or restored; during a failover, try again after it"


class SlaveFront:
    """Refuses requests in front of the handlers of a slave."""

    def __init__(self, dispatcher: Dispatcher, state: BrokerState) -> None:
        self._dispatcher = dispatcher
        self._state = state

    def intercept(self) -> None:
        """Intercept these requests. Their handlers must be registered already."""
        assert is_slave(self._state.settings)
        for code in SENDS:
            self._dispatcher.precede(code, lambda _: _reject)
        for code in OF_MASTER:
            self._dispatcher.precede(code, lambda _: _only_master)
        self._dispatcher.precede(RequestCode.RESET, _before_reset)
        for code in ACTING_REFUSES:
            self._dispatcher.precede(code, lambda reject: self._either(self._not_available, reject))
        self._dispatcher.precede(
            RequestCode.CONSUMER_SEND_MSG_BACK, lambda reject: self._either(self._no_master, reject)
        )
        self._dispatcher.precede(RequestCode.LOCK_BATCH_MQ, lambda lock: self._either(lock, _no_locks))
        for code in PULLS:
            self._dispatcher.precede(code, self._before_pull)
        # Runs of sends have no handler, so they would not be refused.
        self._dispatcher.routes.offer_sends(None)
        words = "this broker is a slave: send to its master"
        self._state.store.refuse(StorageError(words), NO_APPENDS)

    def _not_available(self, _: Call) -> Answer:
        state = self._state
        remark = f"{NOT_AVAILABLE} [{disk_words(state.disk_use)}], {NOT_AVAILABLE_MORE}"
        trace_on = "true" if state.settings.trace_on else "false"
        return SendAnswer(
            code=ResponseCode.SERVICE_NOT_AVAILABLE, remark=remark, region=state.settings.region_id, trace_on=trace_on
        )

    def _no_master(self, _: Call) -> Answer:
        ip = self._state.settings.broker_ip1 or self._state.machine.identity.host_ip
        return refusal(ResponseCode.SYSTEM_ERROR, f"no master available along with {ip}")

    def _either(self, acting: Handler, other: Handler) -> Handler:
        """Return a handler that uses the first one with enableSlaveActingMaster, otherwise the second one."""
        state = self._state
        return lambda call: (acting if state.settings.enable_slave_acting_master else other)(call)

    def _before_pull(self, handler: Handler) -> Handler:
        state = self._state

        def handle(call: Call) -> Answer | None:
            return handler(call) if state.settings.slave_read_enable else _reject(call)

        return handle


def _only_master(_: Call) -> Answer:
    return refusal(ResponseCode.SYSTEM_BUSY, ONLY_MASTER)


def _before_reset(handler: Handler) -> Handler:
    def handle(call: Call) -> Answer | None:
        return handler(call) if call.request.only_settings else _only_master(call)

    return handle


def _no_locks(_: Call) -> Answer:
    return LockAnswer(body=LockBatchResponseBody())


def _reject(_: Call) -> Answer:
    return refusal(ResponseCode.SYSTEM_BUSY, REJECTED)
