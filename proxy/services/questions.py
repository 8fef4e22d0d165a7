"""Requests of administrators to single clients: return thread stacks, or consume one message.

RocketMQ: ProxyRelayService.

Behaviour
- A broker forwards a request for a consumer that isn't connected to it to the endpoints that have announced themselves.
- The client gets the request over its telemetry stream and responds there; a nonce connects both. A request for the
  consumer's state without stacks is answered from its settings.
- A client that doesn't respond within CLIENT_ANSWERS_MS is reported as busy.

Different from RocketMQ
- Its brokers have the consumers of a proxy only when both are one process (local mode).
"""

import asyncio

from staticfire.client.consume.membership.admin_requests import AdminRequests
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.names import GRPC_ENDPOINTS_GROUP
from staticfire.protocol.requests.clients import SubscriptionData
from staticfire.protocol.requests.connections import (
    ConsumedDirectly,
    ConsumeDirectly,
    ConsumerRunningInfo,
    GetConsumerRunningInfo,
)
from staticfire.proxy.proto.rocketmq_v2_pb2 import (
    Code,
    FilterType,
    PrintThreadStackTraceCommand,
    TelemetryCommand,
    VerifyMessageCommand,
)
from staticfire.proxy.services.client_table import ClientTable, KnownClient
from staticfire.proxy.services.known_cluster import KnownCluster
from staticfire.proxy.services.received_messages import received_message
from staticfire.proxy.transport.calls import GrpcError

CLIENT_ANSWERS_MS = 5_000
NONCE_BITS = 64
_RESULTS = {Code.OK: "CR_SUCCESS", Code.MESSAGE_CORRUPTED: "CR_RETURN_NULL"}
_FAILED = "CR_LATER"


class ClientQuestions:
    """The requests that wait for a client's response."""

    def __init__(self, cluster: KnownCluster, clients: ClientTable) -> None:
        self._client = cluster.client
        self._clients = clients
        self._waiting: dict[str, asyncio.Future[TelemetryCommand]] = {}
        self._is_announced = False
        AdminRequests.of(self._client).endpoints.append(self)

    async def announce(self) -> None:
        """Announce this endpoint to the brokers: consumers that aren't connected to them may be here."""
        if not self._is_announced:
            self._is_announced = True
            self._client.join_producers(GRPC_ENDPOINTS_GROUP)
        await self._client.announce()

    # -- requests ------------------------------------------------------------------------------------------------

    async def running_info(self, request: GetConsumerRunningInfo) -> ConsumerRunningInfo:
        """Return a client's state. Raises: BrokerAnswer."""
        client = self._find(request.consumer_group, request.client_id)
        settings = client.settings
        wanted = [
            SubscriptionData(
                entry.topic.name, entry.expression.expression or "*",
                expression_type="SQL92" if entry.expression.type == FilterType.SQL else "TAG",
            )
            for entry in settings.subscription.subscriptions
        ]  # fmt: skip
        properties = {
            "PROP_CLIENT_VERSION": settings.user_agent.version,
            "PROP_CONSUME_TYPE": "CONSUME_POP",
            "PROP_CONSUMEORDERLY": str(settings.subscription.fifo).lower(),
        }
        info = ConsumerRunningInfo(properties, wanted)
        if request.jstack_enable:
            nonce = self._nonce()
            command = TelemetryCommand(print_thread_stack_trace_command=PrintThreadStackTraceCommand(nonce=nonce))
            answer = await self._ask(client, nonce, command)
            info.jstack = answer.thread_stack_trace.thread_stack_trace
        return info

    async def consume_directly(self, request: ConsumeDirectly, message: ReceivedMessage) -> ConsumedDirectly:
        """Let a client consume a message. Raises: BrokerAnswer."""
        client = self._find(request.consumer_group, request.client_id or "")
        nonce = self._nonce()
        pb = received_message(message.record, request.topic or message.topic, message.store_host_packed, 1, "")
        command = TelemetryCommand(verify_message_command=VerifyMessageCommand(nonce=nonce, message=pb))
        began_ms = self._client.machine.clock.uptime_ms()
        answer = await self._ask(client, nonce, command)
        took_ms = self._client.machine.clock.uptime_ms() - began_ms
        result = _RESULTS.get(answer.status.code, _FAILED)
        return ConsumedDirectly(consume_result=result, remark=answer.status.message or None, spent_time_mills=took_ms)

    def answered(self, command: TelemetryCommand) -> None:
        """Deliver a client's response to the waiting request. Unrequested responses are ignored."""
        kind = command.WhichOneof("command")
        response = command.thread_stack_trace if kind == "thread_stack_trace" else command.verify_message_result
        waiting = self._waiting.pop(response.nonce, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(command)

    # -- helpers -------------------------------------------------------------------------------------------------

    def _find(self, group: str, client_id: str) -> KnownClient:
        client = self._clients.get(client_id)
        if client is None or client.group != group:
            words = f"The Consumer <{group}> <{client_id}> not online"
            raise BrokerAnswer(ResponseCode.CONSUMER_NOT_ONLINE, words)
        return client

    def _nonce(self) -> str:
        return f"{self._client.machine.identity.random.getrandbits(NONCE_BITS):016x}"

    async def _ask(self, client: KnownClient, nonce: str, command: TelemetryCommand) -> TelemetryCommand:
        """Send a command to a client and return its response. Raises: BrokerAnswer."""
        answer: asyncio.Future[TelemetryCommand] = asyncio.get_running_loop().create_future()
        self._waiting[nonce] = answer
        try:
            async with asyncio.timeout(CLIENT_ANSWERS_MS / 1000):
                if client.stream is None:
                    raise BrokerAnswer(
                        ResponseCode.SYSTEM_BUSY, f"client {client.client_id} has no Telemetry stream now"
                    )
                await client.stream.send(command)
                return await answer
        except TimeoutError:
            words = f"call remote timeout: client {client.client_id} has not answered in {CLIENT_ANSWERS_MS} ms"
            raise BrokerAnswer(ResponseCode.SYSTEM_BUSY, words) from None
        except GrpcError as error:
            words = f"client {client.client_id} can't be reached: {error.message}"
            raise BrokerAnswer(ResponseCode.SYSTEM_BUSY, words) from None
        finally:
            self._waiting.pop(nonce, None)
