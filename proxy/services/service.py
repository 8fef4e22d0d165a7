"""The service apache.rocketmq.v2.MessagingService: builds its parts, maps paths to methods.

Methods that only Apache's own tools use, or that 5.3.3 doesn't have, end with UNIMPLEMENTED, which gRPC clients
understand.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from google.protobuf.message import Message

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from staticfire.proxy.proto.rocketmq_v2_pb2 import Status
from staticfire.proxy.services.access import CallAccess, checked, checked_commands, checked_stream
from staticfire.proxy.services.acknowledging import AckCalls
from staticfire.proxy.services.background import Background
from staticfire.proxy.services.callers import answered
from staticfire.proxy.services.client_table import ClientTable
from staticfire.proxy.services.known_cluster import KnownCluster
from staticfire.proxy.services.message_time import MessageTime
from staticfire.proxy.services.presence import PresenceCalls
from staticfire.proxy.services.questions import ClientQuestions
from staticfire.proxy.services.receipt_work import ReceiptWork
from staticfire.proxy.services.receiving import INVISIBLE_MS_MIN, ReceiveCalls
from staticfire.proxy.services.routing import RouteCalls
from staticfire.proxy.services.sending import SendCalls
from staticfire.proxy.services.telemetry import TelemetryCalls
from staticfire.proxy.services.transactions import TransactionCalls
from staticfire.proxy.transport.calls import (
    SERVICE,
    GrpcCall,
    GrpcError,
    GrpcStatus,
    Method,
    Methods,
    bidi,
    server_stream,
    unary,
)
from staticfire.runtime.service import Service

STOP_MS_MAX = 1_000
"""How long a stop waits for requests to brokers."""


class MessagingService(Service):
    """The service on one cluster client. The caller enters that client before and leaves it after."""

    def __init__(self, client: ClusterClient, invisible_ms_min: int = INVISIBLE_MS_MIN) -> None:
        """`invisible_ms_min`: the shortest invisible time of a receive."""
        super().__init__()
        self._cluster = cluster = KnownCluster(client)
        self._access = CallAccess(client)
        self._background = background = Background()
        self.clients = ClientTable()
        time = MessageTime(client)
        self._work = ReceiptWork(cluster, self.clients, time, background)
        transactions = TransactionCalls(cluster, self.clients)
        self._presence = PresenceCalls(cluster, self.clients, self._work, transactions, background)
        self._routing = RouteCalls(cluster)
        self._sending = SendCalls(cluster, time, transactions)
        self._receiving = ReceiveCalls(cluster, self.clients, self._work, background, invisible_ms_min)
        self._acknowledging = AckCalls(self.clients, self._work, background)
        self._transactions = transactions
        self._telemetry = TelemetryCalls(
            cluster, self.clients, transactions, background, ClientQuestions(cluster, self.clients)
        )

    async def _start(self) -> None:
        self.spawn(self._work.renew_loop(self.pause_for), "renewals")
        self.spawn(self._presence.expire_loop(self.pause_for), "silent clients")

    async def _stop(self) -> None:
        self._work.stopping()
        await self._background.finish(STOP_MS_MAX)  # Also the returns of responses that the endpoint's end cut off.
        await self._background.close()
        await self._cluster.close()

    def _unary(self, request: type[Any], response: type[Any], handle: Callable[..., Awaitable[Any]]) -> Method:
        """Return a method whose failures are responses with a status."""

        def failed(status: Status) -> Any:
            return response(status=status)

        return unary(request, checked(self._access, answered(handle, failed), failed))

    def methods(self) -> Methods:
        """Return the methods by path."""
        methods = {
            "QueryRoute": self._unary(pb.QueryRouteRequest, pb.QueryRouteResponse, self._routing.query_route),
            "QueryAssignment": self._unary(
                pb.QueryAssignmentRequest, pb.QueryAssignmentResponse, self._routing.query_assignment
            ),
            "SendMessage": self._unary(pb.SendMessageRequest, pb.SendMessageResponse, self._sending.send),
            "ReceiveMessage": server_stream(
                pb.ReceiveMessageRequest, checked_stream(self._access, self._receiving.receive, _receive_failed)
            ),
            "AckMessage": self._unary(pb.AckMessageRequest, pb.AckMessageResponse, self._acknowledging.ack),
            "ChangeInvisibleDuration": self._unary(
                pb.ChangeInvisibleDurationRequest, pb.ChangeInvisibleDurationResponse, self._acknowledging.change
            ),
            "ForwardMessageToDeadLetterQueue": self._unary(
                pb.ForwardMessageToDeadLetterQueueRequest,
                pb.ForwardMessageToDeadLetterQueueResponse,
                self._acknowledging.forward,
            ),
            "EndTransaction": self._unary(pb.EndTransactionRequest, pb.EndTransactionResponse, self._transactions.end),
            "RecallMessage": self._unary(pb.RecallMessageRequest, pb.RecallMessageResponse, self._transactions.recall),
            "Heartbeat": self._unary(pb.HeartbeatRequest, pb.HeartbeatResponse, self._presence.heartbeat),
            "NotifyClientTermination": self._unary(
                pb.NotifyClientTerminationRequest, pb.NotifyClientTerminationResponse, self._presence.terminated
            ),
            "Telemetry": bidi(
                pb.TelemetryCommand,
                checked_commands(self._access, self._telemetry.telemetry, lambda one: pb.TelemetryCommand(status=one)),
            ),
            "PullMessage": _not_built(pb.PullMessageRequest),
            "UpdateOffset": _not_built(pb.UpdateOffsetRequest),
            "GetOffset": _not_built(pb.GetOffsetRequest),
            "QueryOffset": _not_built(pb.QueryOffsetRequest),
        }
        return {f"{SERVICE}/{name}": method for name, method in methods.items()}


def _receive_failed(status: Status) -> Message:
    return pb.ReceiveMessageResponse(status=status)


def _not_built(request: type[Message]) -> Method:
    """Return a method that RocketMQ 5.3 doesn't implement either."""

    async def refuse(_: Message, call: GrpcCall) -> Message:
        raise GrpcError(GrpcStatus.UNIMPLEMENTED, f"Method {call.method.removeprefix('/')} is unimplemented")

    return unary(request, refuse)
