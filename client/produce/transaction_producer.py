"""A producer of transactional messages: they are delivered only after a transaction of the program has succeeded.

    async def pay(message, argument) -> TransactionState: ...         # the program's own transaction
    async def is_paid(message) -> TransactionState: ...                # called if the broker doesn't know the state

    async with TransactionProducer("orders", namesrv=..., check=is_paid) as producer:
        result = await producer.send_in_transaction(Message("orders", b"..."), pay)

RocketMQ: TransactionMQProducer. First the message is stored as a half message. Then the program's transaction runs, and
its result commits the message or rolls it back. After UNKNOWN, an exception, or a crash of the program, the broker
waits for a while of message time and then sends a check to any producer of the group (`check`). After several checks it
gives up and moves the message aside.
"""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from enum import Enum
from typing import Any

import msgspec

from staticfire.client.cluster.blocking import blocking
from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.program_errors import ends_consumer
from staticfire.client.cluster.settings import ProducerSettings
from staticfire.client.produce.hooks import EndTransactionCall
from staticfire.client.produce.producer import BlockingProducer, Producer
from staticfire.client.produce.send_result import SendResult, SendStatus
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import ClientError, ConnectionLost, StaticfireError
from staticfire.protocol.message_ids import parse_offset_id
from staticfire.protocol.messages import Message, ReceivedMessage
from staticfire.protocol.properties import PGROUP, TRAN_MSG
from staticfire.protocol.requests.transactions import CheckTransaction, EndTransaction
from staticfire.protocol.sys_flag import TransactionKind
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Machine

log = logger("client")


class TransactionState(Enum):
    """The state of a transaction. RocketMQ: LocalTransactionState."""

    COMMIT = int(TransactionKind.COMMIT)
    ROLLBACK = int(TransactionKind.ROLLBACK)
    UNKNOWN = int(TransactionKind.NONE)
    """Not decided: the broker checks again."""


Execute = Callable[[Message, Any], Awaitable[TransactionState] | TransactionState]
Check = Callable[[ReceivedMessage], Awaitable[TransactionState] | TransactionState]


class TransactionResult(msgspec.Struct, frozen=True):
    """Where the half message is stored, and the state that the program returned."""

    sent: SendResult
    state: TransactionState
    error: BaseException | None = None
    """The exception of the program's transaction; the state is UNKNOWN then."""


class TransactionProducer(Producer):
    """Sends messages, with or without a transaction."""

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] | None = None,
        settings: ProducerSettings | None = None,
        machine: Machine | None = None,
        client: ClusterClient | None = None,
        check: Check | None = None,
    ) -> None:
        """`check`: returns the state of a transaction when a broker checks it. Raises: UsageError, ClientError."""
        super().__init__(group, namesrv, settings, machine, client)
        if check is None:
            raise ClientError(
                f"transaction producer {group} needs check=...: a function that returns the state of a message's "
                "transaction when the broker sends a check"
            )
        self._check_state = check

    def __enter__(self) -> "BlockingTransactionProducer":
        return BlockingTransactionProducer.enter(self)

    async def _join(self) -> None:
        await super()._join()
        self.client.transaction_checks.checkers[self.group] = self._check
        self.spawn(self._meet_brokers(), "introduction")

    async def _part(self) -> None:
        # Without a sender it hasn't joined: the checker belongs to another producer of a shared client.
        if self._sender is not None:
            self.client.transaction_checks.checkers.pop(self.group, None)
        await super()._part()

    async def _meet_brokers(self) -> None:
        """Register with all brokers, even before a message is sent: one may have to ask for the state of a transaction
        from an earlier run of this program.

        These are the brokers that create topics, as with RocketMQ.
        """
        routes, default_topic = self.client.routes, self.settings.create_topic_key
        while True:
            try:
                await routes.fetch(default_topic)
            except StaticfireError as error:
                log.debug("brokers_not_met", group=self.group, reason=str(error))
                await self.pause_for(self.settings.client.poll_name_server_interval_ms)
            else:
                return await self.client.announce()

    async def send_in_transaction(self, message: Message, execute: Execute, argument: Any = None) -> TransactionResult:
        """Store a half message, run the program's transaction, and commit or roll back as it returns.

        `execute(message, argument)`: a coroutine function or a plain one, called after the half message is stored. If
        it raises, the exception is in the result, and the broker checks later. A delay of the message is ignored, as in
        RocketMQ.

        Raises: as `send`; then nothing has been executed.
        """
        half = copy(message)
        half.delay_level, half.delay_ms, half.deliver_ms = 0, None, None
        half.system_properties = {**message.system_properties, TRAN_MSG: "true", PGROUP: self.group}
        await self._introduce(message.topic)
        sent = await self.send(half)
        state, error = TransactionState.ROLLBACK, None
        if sent.status is SendStatus.SEND_OK:
            try:
                state = _state_of(await _result(execute(message, argument)), execute)
            except Exception as raised:  # noqa: BLE001 (the program's own: the broker checks the transaction later)
                state, error = TransactionState.UNKNOWN, raised
                log.warning("transaction_raised", group=self.group, topic=message.topic, error=repr(raised))
        self._note_end(message.topic, sent.message_id, state, from_check=False)
        await self._tell_end(sent, state, error)
        if self._tracing is not None:
            self._tracing.ended(message, sent.message_id, state.name, from_check=False)
        return TransactionResult(sent, state, error)

    def _note_end(self, topic: str, message_id: str, state: TransactionState, from_check: bool) -> None:
        if self._hooks is not None:
            self._hooks.end_transaction(EndTransactionCall(self.group, topic, message_id, state.name, from_check))

    async def _tell_end(self, sent: SendResult, state: TransactionState, error: BaseException | None) -> None:
        """Report the end to the broker. If that fails, the broker checks the transaction later.

        The response is awaited: if the program moves the clock next, that must not overtake the request. RocketMQ's
        producers send it one-way. An undecided state gets no response.
        """
        queue = self.client.namespace.wrapped(sent.queue)
        log_position = sent.log_position
        if log_position < 0:
            log_position = parse_offset_id(sent.offset_message_id)[1]
        remark = None if error is None else f"executeLocalTransactionBranch exception: {error!r}"
        ended = EndTransaction(
            self.group, sent.queue_offset, log_position, state.value, False, sent.message_id,
            sent.transaction_id, queue.topic, remark=remark,
        )  # fmt: skip
        try:
            connection = await self.client.pool.connection(await self.client.address_to_write(queue))
            if state is TransactionState.UNKNOWN:
                connection.tell(ended)
                return
            answer = await connection.ask(ended, self.settings.send_msg_timeout_ms)
        except StaticfireError as lost:
            self._not_ended(sent.queue.topic, str(lost))
        else:
            if answer.code != SUCCESS:
                self._not_ended(sent.queue.topic, f"the broker rejects it: {answer.remark}")

    def _not_ended(self, topic: str, reason: str) -> None:
        log.warning("transaction_not_ended", group=self.group, topic=topic, reason=reason)

    async def _check(self, message: ReceivedMessage, request: CheckTransaction, connection: Connection) -> None:
        remark = None
        message.topic = self.client.namespace.unwrap(message.topic)
        try:
            state = _state_of(await _result(self._check_state(message)), self._check_state)
        except BaseException as raised:
            if ends_consumer(raised):
                # The client is being closed, or the program was interrupted. The broker checks again.
                raise
            state, remark = TransactionState.UNKNOWN, f"checkLocalTransactionState Exception: {raised!r}"
            log.warning("transaction_check_raised", group=self.group, topic=message.topic, error=repr(raised))
        ended = EndTransaction(
            self.group, request.tran_state_table_offset, request.commit_log_offset, state.value, True,
            request.msg_id or message.message_id, request.transaction_id, request.topic, remark=remark,
        )  # fmt: skip
        self._note_end(message.topic, message.message_id, state, from_check=True)
        if self._tracing is not None:
            self._tracing.ended(message, message.message_id, state.name, from_check=True)
        try:
            connection.tell(ended)
        except ConnectionLost as lost:
            self._not_ended(message.topic, str(lost))


async def _result(returned: Any) -> Any:
    return await returned if inspect.isawaitable(returned) else returned


def _state_of(state: Any, who: Any) -> TransactionState:
    """Return the state that a function returned; None, as from Java's, is UNKNOWN. Raises: ClientError."""
    if state is None:
        return TransactionState.UNKNOWN
    if not isinstance(state, TransactionState):
        raise ClientError(f"{getattr(who, '__name__', who)!s} returned {state!r}, not a TransactionState")
    return state


class BlockingTransactionProducer(BlockingProducer):
    """Sends messages, with or without a transaction. Any number of threads may use it.

        with TransactionProducer("orders", namesrv="127.0.0.1:9876", check=is_paid) as producer:
            producer.send_in_transaction(Message("orders", b"..."), pay)

    The program's functions are called in the client's thread: if one takes long, make it a coroutine function, or let
    it use a thread of its own.
    """

    send_in_transaction = blocking(TransactionProducer.send_in_transaction)
