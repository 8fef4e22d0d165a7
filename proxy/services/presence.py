"""Heartbeats and terminations of clients. RocketMQ: ClientActivity.

Behaviour
- A heartbeat keeps the client's settings alive; without settings it is refused.
- A client that has been silent for too long is treated as terminated. Its Telemetry stream remains open: a client that
  was only frozen sends its settings on it every five minutes, and the C# client never opens another one. The stream
  keeps no place, so its connection is closed when another client needs it (client_table.py).
- The messages that a terminated push consumer was working on are visible again after a second.
"""

from staticfire.protocol.codes import LANGUAGES_BY_NAME
from staticfire.proxy.proto.rocketmq_v2_pb2 import (
    Code,
    HeartbeatRequest,
    HeartbeatResponse,
    NotifyClientTerminationRequest,
    NotifyClientTerminationResponse,
)
from staticfire.proxy.services.background import Background
from staticfire.proxy.services.callers import Caller
from staticfire.proxy.services.client_table import CONSUMER_TYPES, ClientTable, KnownClient
from staticfire.proxy.services.known_cluster import KnownCluster
from staticfire.proxy.services.names import group_of
from staticfire.proxy.services.receipt_work import ReceiptWork
from staticfire.proxy.services.statuses import StatusError, ok
from staticfire.proxy.services.transactions import TransactionCalls
from staticfire.runtime.log import logger
from staticfire.runtime.service import Pause

log = logger("proxy")

SCAN_EVERY_MS = 5_000


class PresenceCalls:
    """Heartbeat and NotifyClientTermination."""

    def __init__(
        self,
        cluster: KnownCluster,
        clients: ClientTable,
        work: ReceiptWork,
        transactions: TransactionCalls,
        background: Background,
    ) -> None:
        self._cluster = cluster
        self._clients = clients
        self._work = work
        self._transactions = transactions
        self._background = background

    async def heartbeat(self, request: HeartbeatRequest, caller: Caller) -> HeartbeatResponse:
        """Note that a client is alive. Raises: StatusError."""
        client = self._clients.get(caller.client_id)
        if client is None:
            raise _unknown_client()
        if client.is_producer:
            for topic in client.topics:
                self._background.start(self._transactions.introduce(topic), "a producer group")
        elif client.settings.client_type in CONSUMER_TYPES:
            group_of(request.group)
        else:
            raise StatusError(Code.UNRECOGNIZED_CLIENT_TYPE, "clients of this type must not send heartbeats")
        client.heard_ms = self._cluster.client.machine.clock.uptime_ms()
        return HeartbeatResponse(status=ok())

    async def terminated(
        self, request: NotifyClientTerminationRequest, caller: Caller
    ) -> NotifyClientTerminationResponse:
        """Remove a client. Raises: StatusError."""
        if caller.language not in LANGUAGES_BY_NAME:
            words = f"No enum constant org.apache.rocketmq.remoting.protocol.LanguageCode.{caller.language}"
            raise StatusError(Code.INTERNAL_SERVER_ERROR, words)
        client = self._clients.remove(caller.client_id)
        if client is None:
            raise _unknown_client()
        self._return_messages(client)
        await self._part_from(client)
        if not client.is_producer:
            group_of(request.group)
        return NotifyClientTerminationResponse(status=ok())

    def _return_messages(self, client: KnownClient) -> None:
        """Make the messages of a removed client visible again soon. Call it without an await after the removal: a
        client that returns meanwhile keeps what it receives then."""
        if client.group:
            self._work.client_gone(client.client_id, client.group)

    async def _part_from(self, client: KnownClient) -> None:
        """Unregister the groups of a removed producer, as far as no client publishes their topics when it is done."""
        for topic in client.topics:
            await self._transactions.part(topic)

    async def expire(self) -> None:
        """Remove the clients that have been silent for too long, and the transactions that were never ended."""
        uptime_ms = self._cluster.client.machine.clock.uptime_ms()
        self._transactions.open.expire(uptime_ms)
        silent = self._clients.expire(uptime_ms)
        for client in silent:
            log.info("client_silent", client_id=client.client_id, group=client.group)
            self._return_messages(client)
        for client in silent:
            await self._part_from(client)

    async def expire_loop(self, pause_for: Pause) -> None:
        """Call `expire` periodically."""
        while True:
            await pause_for(SCAN_EVERY_MS)
            await self.expire()


def _unknown_client() -> StatusError:
    return StatusError(Code.UNRECOGNIZED_CLIENT_TYPE, "cannot find client settings for this client")
