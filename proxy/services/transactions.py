"""End transactions, and recall delayed messages.

RocketMQ: EndTransactionActivity, RecallMessageActivity, ProxyClientRemotingProcessor.

Behaviour
- When a broker checks a half message, one connected client that publishes its topic gets the check; clients take turns.
- The producer group of all clients is their topic. It is registered at brokers while a client publishes a topic that
  takes transactions. RocketMQ's proxy does so only for the type TRANSACTION, and up to 20 s late.
- OK means that the request was sent to the present master of the broker, not that the broker has applied it.
"""

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.recall_handle import decode_handle
from staticfire.protocol.requests.recall import RecallAnswer, RecallMessage
from staticfire.protocol.requests.transactions import CheckTransaction, EndTransaction
from staticfire.protocol.sys_flag import TransactionKind
from staticfire.protocol.times import UptimeMs
from staticfire.proxy.proto.rocketmq_v2_pb2 import (
    Code,
    EndTransactionRequest,
    EndTransactionResponse,
    RecallMessageRequest,
    RecallMessageResponse,
    RecoverOrphanedTransactionCommand,
    TelemetryCommand,
    TransactionResolution,
    TransactionSource,
)
from staticfire.proxy.services.callers import Caller
from staticfire.proxy.services.client_table import ClientTable
from staticfire.proxy.services.known_cluster import KnownCluster
from staticfire.proxy.services.message_types import DELAYED, MIXED, TRANSACTION
from staticfire.proxy.services.names import topic_of
from staticfire.proxy.services.open_transactions import TRANSACTION_KEPT_MS, OpenTransaction, OpenTransactions
from staticfire.proxy.services.received_messages import received_message
from staticfire.proxy.services.statuses import StatusError, ok, refused
from staticfire.proxy.transport.calls import GrpcError
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger

log = logger("proxy")

_ENDS = {
    TransactionResolution.COMMIT: TransactionKind.COMMIT,
    TransactionResolution.ROLLBACK: TransactionKind.ROLLBACK,
}


class TransactionCalls:
    """EndTransaction, RecallMessage, and the checks of brokers."""

    def __init__(self, cluster: KnownCluster, clients: ClientTable) -> None:
        self._cluster = cluster
        self._clients = clients
        self.open = OpenTransactions()
        # Topics whose producer group is registered at the brokers. Never iterated.
        self._introduced: set[str] = set()

    @property
    def _client(self) -> ClusterClient:
        return self._cluster.client

    # -- the producer group --------------------------------------------------------------------------------------

    async def introduce(self, topic: str) -> None:
        """Register a topic's producer group at the brokers, if the topic takes transactions."""
        if topic in self._introduced or await self._cluster.topic_type(topic) not in (TRANSACTION, MIXED):
            return
        if topic not in self._introduced:  # Another call may have done it during the await.
            self._introduced.add(topic)
            self._client.transaction_checks.checkers[topic] = self._check
            self._client.join_producers(topic)
        await self._client.announce()

    async def part(self, topic: str) -> None:
        """Unregister a topic's producer group if no client publishes the topic any more."""
        if topic in self._introduced and not self._clients.is_published(topic):
            self._introduced.discard(topic)
            del self._client.transaction_checks.checkers[topic]
            await self._client.leave_producers(topic)

    async def _check(self, message: ReceivedMessage, request: CheckTransaction, connection: Connection) -> None:
        """Forward a broker's check to a client."""
        topic, transaction_id = message.get("REAL_TOPIC") or message.topic, message.message_id
        client = self._clients.publisher(topic)
        if client is None or client.stream is None:
            log.info(
                "transaction_check_unanswered", topic=topic, transaction_id=transaction_id, reason="no client here"
            )
            return
        kept_until_ms = UptimeMs(self._client.machine.clock.uptime_ms() + TRANSACTION_KEPT_MS)
        broker_name = request.bname or self._broker_at(connection.peer.address)
        place = OpenTransaction(
            broker_name, request.tran_state_table_offset, request.commit_log_offset,
            transaction_id, kept_until_ms,
        )  # fmt: skip
        self.open.add(topic, transaction_id, place)
        pb = received_message(message.record, topic, message.store_host_packed, 1, "")
        command = RecoverOrphanedTransactionCommand(message=pb, transaction_id=transaction_id)
        try:
            await client.stream.send(TelemetryCommand(recover_orphaned_transaction_command=command))
        except GrpcError as error:
            log.info("transaction_check_unanswered", topic=topic, client_id=client.client_id, reason=str(error))

    def _broker_at(self, address: str) -> str:
        """Return the name of a broker that doesn't send it with its checks, as RocketMQ before 5.0; empty: unknown."""
        replica = self._client.routes.replica_at(address)
        return "" if replica is None else replica[0]

    # -- calls ---------------------------------------------------------------------------------------------------

    async def end(self, request: EndTransactionRequest, _: Caller) -> EndTransactionResponse:
        """Commit a half message, or roll it back. Raises: StaticfireError."""
        topic = topic_of(request.topic)
        if not request.transaction_id.strip():
            raise StatusError(Code.INVALID_TRANSACTION_ID, "transaction id cannot be empty")
        uptime_ms = self._client.machine.clock.uptime_ms()
        place = self.open.take(topic, request.transaction_id, uptime_ms)
        if place is None:
            words = f"cannot found transaction data of {request.transaction_id} (ended already, or open for too long)"
            raise StatusError(Code.INTERNAL_SERVER_ERROR, words)
        ended = EndTransaction(
            producer_group=topic,
            tran_state_table_offset=place.state_offset,
            commit_log_offset=place.log_position,
            commit_or_rollback=_ENDS.get(request.resolution, TransactionKind.NONE),
            from_transaction_check=request.source == TransactionSource.SOURCE_SERVER_CHECK,
            msg_id=request.message_id or place.message_id,
            transaction_id=request.transaction_id,
            topic=topic,
        )
        try:
            await self._cluster.tell(place.broker_name, topic, ended)
        except BaseException:  # Also if the client's deadline passes meanwhile.
            self.open.put_back(topic, request.transaction_id, place)  # The client will retry.
            raise
        return EndTransactionResponse(status=ok())

    async def recall(self, request: RecallMessageRequest, _: Caller) -> RecallMessageResponse:
        """Recall a delayed message. Raises: StaticfireError."""
        topic = topic_of(request.topic)
        await self._cluster.check_types(topic, DELAYED)
        try:
            handle = decode_handle(request.recall_handle)
        except ProtocolError as error:
            raise StatusError(Code.INTERNAL_SERVER_ERROR, str(error)) from None
        if await self._cluster.find(handle.broker_name, topic) is None:
            raise StatusError(Code.BAD_REQUEST, f"broker {handle.broker_name} of the recall handle is unknown")
        recall = RecallMessage(
            topic=topic, recall_handle=request.recall_handle, producer_group=topic, bname=handle.broker_name
        )
        answer = await self._cluster.ask(handle.broker_name, recall)
        if answer.code != SUCCESS or not isinstance(answer, RecallAnswer):
            status = refused(answer.code, answer.remark)
            raise StatusError(status.code, status.message)
        return RecallMessageResponse(status=ok(), message_id=answer.msg_id or handle.unique_id)
