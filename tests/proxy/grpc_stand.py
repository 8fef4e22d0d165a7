"""A simulated cluster with the service of the gRPC endpoint in front of it, called without a wire."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from google.protobuf.message import Message as PbMessage

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.settings import ClientSettings
from staticfire.protocol.requests.groups import SubscriptionGroupConfig, UpdateGroup
from staticfire.protocol.requests.topics import UpdateTopic
from staticfire.protocol.times import UptimeMs
from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from staticfire.proxy.services.service import MessagingService
from staticfire.proxy.transport.calls import (
    SERVICE,
    GrpcAnswer,
    GrpcCall,
    GrpcError,
    GrpcStatus,
    StreamSide,
    as_it_travels,
)
from staticfire.proxy.transport.grpc_words import RequestReader
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.stand import NAMESERVER, Stand

M = TypeVar("M", bound=PbMessage)
R = TypeVar("R")

TOPIC = "orders"
GROUP = "billing"
TIMEOUT_MS = 23_000
BYTES_MAX = 2**28
CALL_TYPES = {name.removesuffix("Request"): getattr(pb, name) for name in dir(pb) if name.endswith("Request")}


class GrpcStand:
    """The cluster, and clients that call by name: `await stand.call("QueryRoute", topic=...)`."""

    def __init__(self, world: SimulatedWorld, brokers: int = 1, **settings: Any) -> None:
        self.world = world
        self.cluster = Stand(world, brokers, **settings)
        self.streams: list[Stream] = []
        self.client_settings = ClientSettings()
        self._beside: list[asyncio.Task[Any]] = []

    async def start(self) -> "GrpcStand":
        await self.cluster.start()
        await self.start_proxy()
        return self

    async def start_proxy(self) -> None:
        self.machine = self.world.machine("proxy", "10.0.0.30")
        self.client = ClusterClient(NAMESERVER, self.client_settings, self.machine)
        await self.client.__aenter__()
        self.service = MessagingService(self.client)
        await self.service.__aenter__()
        self.methods = self.service.methods()

    async def stop_proxy(self) -> None:
        for stream in self.streams:
            await stream.break_off()
        self.streams.clear()
        await self.service.__aexit__()
        await self.client.__aexit__()

    async def close(self) -> None:
        await asyncio.gather(*self._beside, return_exceptions=True)
        await self.stop_proxy()
        await self.cluster.close()

    # -- what administrators do ------------------------------------------------------------------------------------

    async def put_topic(
        self, topic: str = TOPIC, kind: str = "", queues: int = 4, perm: int = 6, broker: str = "broker-a"
    ) -> None:
        attributes = f"+message.type={kind}" if kind else None
        request = UpdateTopic(topic, queues, queues, perm, attributes=attributes)
        answer = await self.cluster.ask(self.cluster.brokers[broker], request)
        assert answer.code == 0, answer.remark

    async def put_group(self, group: str = GROUP, **fields: Any) -> None:
        for address in self.cluster.brokers.values():
            answer = await self.cluster.ask(address, UpdateGroup(body=SubscriptionGroupConfig(group, **fields)))
            assert answer.code == 0, answer.remark

    def later(self, after_s: float, work: Coroutine[Any, Any, R]) -> "asyncio.Task[R]":
        """Do something beside, after a while."""

        async def wait_and_work() -> R:
            await self.world.run_for(seconds=after_s)
            return await work

        task = asyncio.get_running_loop().create_task(wait_and_work())
        self._beside.append(task)
        return task

    # -- calls -----------------------------------------------------------------------------------------------------

    def grpc_call(
        self, name: str, client_id: str | None = "c1", timeout_ms: int | None = TIMEOUT_MS, **metadata: str
    ) -> GrpcCall:
        reported = {"x-mq-language": "JAVA", "x-mq-client-version": "5.2.0"}
        reported |= {f"x-mq-{key.replace('_', '-')}": value for key, value in metadata.items()}
        if client_id is not None:
            reported["x-mq-client-id"] = client_id
        clock = self.machine.clock
        deadline_ms = None if timeout_ms is None else UptimeMs(clock.uptime_ms() + timeout_ms)
        return GrpcCall(f"{SERVICE}/{name}", reported, ("10.0.0.40", 40_000), clock, deadline_ms)

    async def call(
        self, name: str, request: PbMessage | None = None, client_id: str | None = "c1", **fields: Any
    ) -> Any:
        """Call a unary method with a request, or one that is made of its fields."""
        requested = request if request is not None else CALL_TYPES[name](**fields)
        handler = self.methods[f"{SERVICE}/{name}"].handler
        return await handler(over_the_wire(requested), self.grpc_call(name, client_id))

    def receiving(
        self, topic: str = TOPIC, client_id: str = "c1", poll_s: float = 5, invisible_s: float = 30,
        timeout_ms: int | None = TIMEOUT_MS, version: str = "5.2.0", **fields: Any,
    ) -> AsyncIterator[GrpcAnswer]:  # fmt: skip
        """Return the stream of a receive, as its handler yields it."""
        fields.setdefault("batch_size", 32)
        fields.setdefault("group", resource(GROUP))
        request = pb.ReceiveMessageRequest(message_queue=pb.MessageQueue(topic=resource(topic)), **fields)
        if not request.auto_renew and invisible_s:
            request.invisible_duration.CopyFrom(seconds(invisible_s))
        if poll_s:
            request.long_polling_timeout.CopyFrom(seconds(poll_s))
        handler = self.methods[f"{SERVICE}/ReceiveMessage"].handler
        stream: AsyncIterator[GrpcAnswer] = handler(
            over_the_wire(request), self.grpc_call("ReceiveMessage", client_id, timeout_ms, client_version=version)
        )
        return stream

    async def receive(self, topic: str = TOPIC, **fields: Any) -> "Received":
        reader = RequestReader(BYTES_MAX)
        answers = [as_it_travels(answer) async for answer in self.receiving(topic, **fields)]
        return Received([pb.ReceiveMessageResponse.FromString(each) for each in reader.feed(b"".join(answers))])

    async def bodies(self, topic: str = TOPIC, **fields: Any) -> list[bytes]:
        return [message.body for message in (await self.receive(topic, **fields)).messages]

    async def send(self, topic: str = TOPIC, body: bytes = b"x", **system: Any) -> pb.SendMessageResponse:
        system.setdefault("born_timestamp", moment(self.machine.clock.wall_ms()))
        answer: pb.SendMessageResponse = await self.call("SendMessage", messages=[sent(topic, body, **system)])
        return answer

    async def ack(self, message: pb.Message, client_id: str = "c1", group: str = GROUP) -> pb.AckMessageResponse:
        system = message.system_properties
        entry = pb.AckMessageEntry(message_id=system.message_id, receipt_handle=system.receipt_handle)
        answer: pb.AckMessageResponse = await self.call(
            "AckMessage", client_id=client_id, topic=message.topic, group=resource(group), entries=[entry]
        )
        return answer

    async def change(
        self, message: pb.Message, invisible_s: float, **fields: Any
    ) -> pb.ChangeInvisibleDurationResponse:
        system = message.system_properties
        fields.setdefault("receipt_handle", system.receipt_handle)
        answer: pb.ChangeInvisibleDurationResponse = await self.call(
            "ChangeInvisibleDuration", topic=message.topic, group=resource(GROUP), message_id=system.message_id,
            invisible_duration=seconds(invisible_s), **fields,
        )  # fmt: skip
        return answer

    # -- streams of commands ---------------------------------------------------------------------------------------

    def stream(self, client_id: str | None = "c1", **metadata: str) -> "Stream":
        stream = Stream(self, client_id, metadata)
        self.streams.append(stream)
        return stream

    async def consumer(
        self, client_id: str = "c1", group: str = GROUP, kind: int = pb.ClientType.SIMPLE_CONSUMER
    ) -> "Stream":
        """Have a consumer that has sent its settings."""
        stream = self.stream(client_id)
        await stream.settings(consumer_settings(group, kind=kind))
        return stream

    async def producer(self, *topics: str, client_id: str = "p1") -> "Stream":
        stream = self.stream(client_id)
        await stream.settings(producer_settings(*topics))
        return stream


class Received:
    """What a receive has brought."""

    def __init__(self, responses: list[pb.ReceiveMessageResponse]) -> None:
        self.kinds = [response.WhichOneof("content") for response in responses]
        assert self.kinds == ["status", *["message"] * (len(responses) - 2), "delivery_timestamp"]
        self.status = responses[0].status
        self.messages = [response.message for response in responses[1:-1]]

    @property
    def attempts(self) -> list[int]:
        return [message.system_properties.delivery_attempt for message in self.messages]


class Stream:
    """A Telemetry stream of a client."""

    def __init__(self, stand: GrpcStand, client_id: str | None, metadata: dict[str, str]) -> None:
        self.answers: asyncio.Queue[pb.TelemetryCommand] = asyncio.Queue()
        """What the server said, answers and commands."""
        self._commands: asyncio.Queue[pb.TelemetryCommand | None] = asyncio.Queue()
        base = stand.grpc_call("Telemetry", client_id, timeout_ms=None, **metadata)
        side = StreamSide(self._sent, self._drained)
        self.call = call = GrpcCall(base.method, base.metadata, base.peer, stand.machine.clock, None, side)
        handler = stand.methods[f"{SERVICE}/Telemetry"].handler
        self.error: GrpcError | None = None
        self._is_over = False
        self.task = asyncio.get_running_loop().create_task(self._run(handler(self._said(), call)))

    async def _sent(self, command: PbMessage) -> None:
        if self._is_over:
            raise GrpcError(GrpcStatus.CANCELLED, "the call is over")
        assert isinstance(command, pb.TelemetryCommand)
        self.answers.put_nowait(over_the_wire(command))

    async def _drained(self) -> None:
        """Everything that is sent has left at once."""

    async def _said(self) -> AsyncIterator[pb.TelemetryCommand]:
        while (command := await self._commands.get()) is not None:
            yield command

    async def _run(self, answers: AsyncIterator[pb.TelemetryCommand]) -> None:
        try:
            async for answer in answers:
                await self._sent(answer)
        except GrpcError as error:
            self.error = error
        finally:
            self._is_over = True

    def say(self, **command: Any) -> None:
        self._commands.put_nowait(pb.TelemetryCommand(**command))

    async def settings(self, settings: pb.Settings) -> pb.Settings:
        """Send settings and return those that were answered."""
        self.say(settings=settings)
        answer = await self.heard()
        assert answer.status.code == pb.Code.OK
        return answer.settings

    async def heard(self, within_s: float = 60) -> pb.TelemetryCommand:
        """Return what the server says next."""
        async with asyncio.timeout(within_s):
            return await self.answers.get()

    async def refused(self, settings: pb.Settings) -> GrpcError:
        """Send settings that end the stream."""
        self.say(settings=settings)
        await self.task
        assert self.error is not None
        return self.error

    async def close(self) -> None:
        """Half-close; the server ends the call."""
        self._commands.put_nowait(None)
        await self.task

    async def break_off(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def over_the_wire(message: M) -> M:
    """Return the message as the other side reads it."""
    return type(message).FromString(message.SerializeToString())


def resource(name: str) -> pb.Resource:
    return pb.Resource(name=name)


def seconds(value: float) -> pb.Duration:
    whole = int(value)
    return pb.Duration(seconds=whole, nanos=int((value - whole) * 1e9))


def moment(unix_ms: int) -> pb.Timestamp:
    return pb.Timestamp(seconds=unix_ms // 1000, nanos=unix_ms % 1000 * 1_000_000)


def sent(topic: str = TOPIC, body: bytes = b"x", user: dict[str, str] | None = None, **system: Any) -> pb.Message:
    system.setdefault("message_id", f"id-{body[:20].hex()}")
    return pb.Message(
        topic=resource(topic), user_properties=user or {}, system_properties=pb.SystemProperties(**system), body=body
    )


def producer_settings(*topics: str) -> pb.Settings:
    return pb.Settings(
        client_type=pb.ClientType.PRODUCER,
        request_timeout=seconds(3),
        publishing=pb.Publishing(topics=[resource(topic) for topic in topics]),
    )


def consumer_settings(
    group: str = GROUP, topic: str = TOPIC, expression: str = "*", kind: int = pb.ClientType.SIMPLE_CONSUMER
) -> pb.Settings:
    wanted = pb.SubscriptionEntry(
        topic=resource(topic), expression=pb.FilterExpression(type=pb.FilterType.TAG, expression=expression)
    )
    return pb.Settings(
        client_type=kind,  # type: ignore[arg-type]
        request_timeout=seconds(3),
        subscription=pb.Subscription(group=resource(group), subscriptions=[wanted]),
    )


async def ready(stand: GrpcStand, *bodies: bytes, kind: str = "", queues: int = 4, **group: Any) -> None:
    """Have a topic, a group, a consumer that has sent its settings, and messages."""
    await stand.put_topic(TOPIC, kind, queues)
    if group:
        await stand.put_group(**group)
    await stand.consumer()
    for body in bodies:
        assert (await stand.send(body=body, message_id=f"id-{body[:20].decode()}")).status.code == pb.Code.OK


async def working(stand: GrpcStand) -> pb.Message:
    """Have a push consumer that works on a message, and another one beside it."""
    await ready(stand, b"long")
    push = pb.ClientType.PUSH_CONSUMER
    await stand.consumer("c1", kind=push)
    await stand.consumer("c2", kind=push)
    [message] = (await stand.receive(auto_renew=True)).messages
    return message


async def keep_alive(stand: GrpcStand, minutes: float, *client_ids: str, every_s: int = 10) -> None:
    """Let time pass while these clients send heartbeats."""
    for _ in range(int(minutes * 60 / every_s)):
        for client_id in client_ids:
            await stand.call("Heartbeat", client_id=client_id, group=resource(GROUP))
        await stand.world.run_for(seconds=every_s)
