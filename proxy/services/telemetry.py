"""A client's telemetry stream: its settings, and commands to it. RocketMQ: ClientActivity.

Behaviour
- Settings are answered at once, completed with what the cluster decides. They replace older settings of the same client
  id. The stream that brought the newest settings gets the commands: transaction checks (transactions.py), thread
  stacks, single messages (questions.py).
- Invalid settings end the stream with a gRPC error, and so do those that are too large, or of one client too many.
- The end of a stream ends nothing else: the client is known until it terminates or has been silent for too long. That
  in turn ends no stream, so the client can send its settings again on the same one. A stream that brought no settings,
  older ones, or those of a client that isn't known any more, keeps no place for its connection (client_table.py).

Not done
- `reconnect_endpoints` and `notify_unsubscribe_lite` are never sent, as in RocketMQ 5.3.
"""

import asyncio
from collections.abc import AsyncIterator

from staticfire.protocol.codes import LANGUAGES_BY_NAME
from staticfire.proxy.proto.rocketmq_v2_pb2 import (
    ClientType,
    Code,
    Settings,
    Subscription,
    TelemetryCommand,
)
from staticfire.proxy.services.background import Background
from staticfire.proxy.services.callers import Caller, caller_of
from staticfire.proxy.services.client_settings import consumer_settings, producer_settings
from staticfire.proxy.services.client_table import CONSUMER_TYPES, ClientTable, KnownClient, check_size
from staticfire.proxy.services.known_cluster import KnownCluster
from staticfire.proxy.services.names import group_of, topic_of
from staticfire.proxy.services.questions import ClientQuestions
from staticfire.proxy.services.receiving import tags_of
from staticfire.proxy.services.statuses import StatusError, ok, status_of
from staticfire.proxy.services.transactions import TransactionCalls
from staticfire.proxy.transport.calls import GrpcCall, GrpcError, GrpcStatus

_FAILED = "process client telemetryCommand failed. "
CLIENT_FAULTS = range(40_000, 50_000)


class TelemetryCalls:
    """Telemetry."""

    def __init__(
        self,
        cluster: KnownCluster,
        clients: ClientTable,
        transactions: TransactionCalls,
        background: Background,
        questions: ClientQuestions,
    ) -> None:
        self._questions = questions
        self._cluster = cluster
        self._clients = clients
        self._transactions = transactions
        self._background = background

    async def telemetry(
        self, commands: AsyncIterator[TelemetryCommand], call: GrpcCall
    ) -> AsyncIterator[TelemetryCommand]:
        """Process a client's commands, and respond to its settings. Raises: GrpcError."""
        call.is_spare = True  # Until it has brought a client's settings.
        try:
            caller = caller_of(call)
        except StatusError as error:
            yield TelemetryCommand(status=status_of(error))
            return
        try:
            async for command in commands:
                kind = command.WhichOneof("command")
                if kind == "settings":
                    settings = await self._taken_in(command.settings, caller, call)
                    yield TelemetryCommand(status=ok(), settings=settings)
                elif kind in ("thread_stack_trace", "verify_message_result"):
                    self._questions.answered(command)
        finally:
            self._clients.stream_ended(caller.client_id, call)

    async def _taken_in(self, settings: Settings, caller: Caller, stream: GrpcCall) -> Settings:
        try:
            return await self._take_in(settings, caller, stream)
        except Exception as error:  # noqa: BLE001 (one stream of a client: its failure is its end)
            status = status_of(error)
            kind = GrpcStatus.INVALID_ARGUMENT if status.code in CLIENT_FAULTS else GrpcStatus.INTERNAL
            if status.code == Code.TOO_MANY_REQUESTS:
                kind = GrpcStatus.RESOURCE_EXHAUSTED
            raise GrpcError(kind, _FAILED + status.message) from None

    async def _take_in(self, settings: Settings, caller: Caller, stream: GrpcCall) -> Settings:
        kind = settings.WhichOneof("pub_sub")
        if kind is None:
            raise StatusError(Code.BAD_REQUEST, "there is no publishing or subscription data in settings")
        if caller.language not in LANGUAGES_BY_NAME:
            words = f"No enum constant org.apache.rocketmq.remoting.protocol.LanguageCode.{caller.language}"
            raise StatusError(Code.INTERNAL_SERVER_ERROR, words)
        check_size(caller.client_id, settings)
        kept = Settings()
        kept.CopyFrom(settings)
        uptime_ms = self._cluster.client.machine.clock.uptime_ms()
        client = KnownClient(caller.client_id, kept, uptime_ms, stream, caller.address, caller.language)
        for topic in settings.publishing.topics if kind == "publishing" else ():
            topic_of(topic)
        group = check_subscription(settings) if kind == "subscription" else ""
        replaced = self._clients.get(caller.client_id)
        self._clients.put(client)  # Before the first await: the client's first receive may follow immediately.
        for topic_name in replaced.topics if replaced is not None else ():
            await self._transactions.part(topic_name)
        for topic_name in client.topics:
            self._background.start(self._transactions.introduce(topic_name), "a producer group")
        if not group:
            return producer_settings(settings)
        await asyncio.gather(*(self._locate(entry.topic.name) for entry in settings.subscription.subscriptions))
        self._background.start(self._questions.announce(), "the endpoint's host name")
        return consumer_settings(settings, await self._cluster.group(group, newest=True))

    async def _locate(self, topic: str) -> None:
        """Fetch a topic's route, so that its brokers can be queried for the group's configuration."""
        try:
            await self._cluster.route(topic)
        except Exception as error:  # noqa: BLE001 (settings don't need it: receives say what is wrong)
            status_of(error)


def check_subscription(settings: Settings) -> str:
    """Check a consumer's settings; return its group. Raises: StatusError."""
    subscription: Subscription = settings.subscription
    group = group_of(subscription.group)
    if settings.client_type not in CONSUMER_TYPES:
        words = f"Client type is not consumer, type: {client_type_name(settings.client_type)}"
        raise StatusError(Code.INTERNAL_SERVER_ERROR, words)
    for entry in subscription.subscriptions:
        tags_of(entry.expression)  # Conditions are checked by the brokers.
    return group


def client_type_name(number: int) -> str:
    """Return RocketMQ's name of a client type."""
    return ClientType.Name(number) if number in ClientType.values() else "UNRECOGNIZED"
