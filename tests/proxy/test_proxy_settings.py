"""Settings of a gRPC endpoint that clients notice: a whole proxy in front of a simulated cluster."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from staticfire.proxy.server import Proxy
from staticfire.proxy.settings import ProxySettings
from staticfire.proxy.transport.calls import GrpcStatus
from staticfire.proxy.transport.endpoint import LOOK_MS
from staticfire.proxy.transport.frames import H2Code
from staticfire.simulation.world import SimulatedWorld
from tests.proxy.grpc_stand import GROUP, TOPIC, consumer_settings, resource, seconds
from tests.proxy.h2_client import H2Client, framed
from tests.scenarios.stand import NAMESERVER, Stand

pytestmark = pytest.mark.row("G3")

HOST, PORT = "10.0.0.30", 8081
MIB = 1 << 20
CALLER = (("x-mq-client-id", "c1"), ("x-mq-language", "JAVA"), ("x-mq-client-version", "5.2.0"), ("grpc-timeout", "9S"))


@asynccontextmanager
async def client_of_proxy(world: SimulatedWorld, **settings: int) -> AsyncIterator[H2Client]:
    """Start a cluster and an endpoint with these settings; connect."""
    cluster = Stand(world, 1)
    await cluster.start()
    chosen = ProxySettings(namesrv_addr=NAMESERVER, listen_host=HOST, grpc_server_port=PORT, **settings)  # type: ignore[arg-type]
    async with Proxy(world.machine("proxy", HOST), chosen):
        client = await H2Client.connect(world.machine("client", "10.0.0.40"), PORT, HOST)
        yield client
        client.transport.abort()
    await cluster.close()


async def received(client: H2Client, invisible_s: float) -> pb.Status:
    request = pb.ReceiveMessageRequest(
        group=resource(GROUP),
        message_queue=pb.MessageQueue(topic=resource(TOPIC)),
        batch_size=1,
        invisible_duration=seconds(invisible_s),
        long_polling_timeout=seconds(5),
    )
    answer = await client.call("ReceiveMessage", request.SerializeToString(), *CALLER)
    return pb.ReceiveMessageResponse.FromString(answer.messages[0]).status


@pytest.mark.parametrize(
    ("settings", "shortest_ms"),
    [({}, 10_000), ({"min_invisible_time_mills_for_recv": 1_000}, 1_000)],
    ids=["RocketMQ's", "shorter"],
)
async def test_the_shortest_invisible_time_is_a_setting(
    world: SimulatedWorld, settings: dict[str, int], shortest_ms: int
) -> None:
    async with client_of_proxy(world, **settings) as client:
        talk = client.open("Telemetry", *CALLER[:3])
        command = pb.TelemetryCommand(settings=consumer_settings(GROUP, kind=pb.ClientType.SIMPLE_CONSUMER))
        await client.send(talk, framed(command.SerializeToString()))
        short = await received(client, (shortest_ms - 1) / 1000)
        assert short.code == pb.Code.ILLEGAL_INVISIBLE_TIME
        assert short.message == f"the invisibleTime is too small. min is {shortest_ms}"
        assert (await received(client, shortest_ms / 1000)).code != pb.Code.ILLEGAL_INVISIBLE_TIME


@pytest.mark.parametrize(("settings", "is_refused"), [({}, False), ({"grpc_max_inbound_message_size": 5 * MIB}, True)])
async def test_how_large_a_request_may_be(world: SimulatedWorld, settings: dict[str, int], is_refused: bool) -> None:
    async with client_of_proxy(world, **settings) as client:
        answer = await client.call("SendMessage", bytes(5 * MIB + 1), *CALLER)
        assert (answer.status is GrpcStatus.RESOURCE_EXHAUSTED) is is_refused
        assert (f"the limit is {5 * MIB}" in answer.words) is is_refused


@pytest.mark.parametrize(("settings", "is_refused"), [({}, False), ({"unfinished_request_bytes_max": 5 * MIB}, True)])
async def test_how_many_bytes_of_incomplete_requests_are_kept(
    world: SimulatedWorld, settings: dict[str, int], is_refused: bool
) -> None:
    async with client_of_proxy(world, **settings) as client:
        calls = [client.open("SendMessage", *CALLER) for _ in range(2)]
        for call in calls:
            await client.send(call, framed(bytes(4 * MIB))[: 3 * MIB])
        await world.run_for(ms=100)
        assert [client.answers[call].over.is_set() for call in calls].count(True) == is_refused


@pytest.mark.parametrize("idle_ms", [20_000, 300_000])
async def test_when_an_idle_connection_is_closed(world: SimulatedWorld, idle_ms: int) -> None:
    async with client_of_proxy(world, grpc_client_idle_time_mills=idle_ms) as client:
        await world.run_for(ms=idle_ms - 3_000)
        assert not client.closed.is_set()
        await world.run_for(ms=3_000 + LOOK_MS)
        assert client.goodbye == (H2Code.NO_ERROR, b"idle")


@pytest.mark.parametrize(("settings", "closed"), [({}, False), ({"connections_max": 3}, True)])
async def test_how_many_connections_there_may_be(world: SimulatedWorld, settings: dict[str, int], closed: bool) -> None:
    """The oldest connection without calls makes room for a new one."""
    async with client_of_proxy(world, **settings) as oldest:
        machine = world.machine("client", "10.0.0.40")
        others = [await H2Client.connect(machine, PORT, HOST) for _ in range(3)]
        await world.run_for(ms=100)
        assert [each.closed.is_set() for each in (oldest, *others)] == [closed, False, False, False]
        for each in others:
            each.transport.abort()
