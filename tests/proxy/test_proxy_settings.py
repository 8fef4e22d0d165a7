"""Settings of a gRPC endpoint that clients notice: a whole proxy in front of a simulated cluster."""

from dataclasses import replace

import pytest

from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from staticfire.proxy.server import Proxy
from staticfire.proxy.settings import ProxySettings
from staticfire.simulation.world import SimulatedWorld
from tests.proxy.grpc_stand import GROUP, TOPIC, consumer_settings, resource, seconds
from tests.proxy.h2_client import H2Client, framed
from tests.scenarios.stand import NAMESERVER, Stand

pytestmark = pytest.mark.row("G3")

HOST, PORT = "10.0.0.30", 8081
CALLER = (("x-mq-client-id", "c1"), ("x-mq-language", "JAVA"), ("x-mq-client-version", "5.2.0"), ("grpc-timeout", "9S"))


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


@pytest.mark.parametrize(("setting", "shortest_ms"), [(None, 10_000), (1_000, 1_000)], ids=["RocketMQ's", "shorter"])
async def test_the_shortest_invisible_time_is_a_setting(
    world: SimulatedWorld, setting: int | None, shortest_ms: int
) -> None:
    cluster = Stand(world, 1)
    await cluster.start()
    settings = ProxySettings(namesrv_addr=NAMESERVER, listen_host=HOST, grpc_server_port=PORT)
    if setting is not None:
        settings = replace(settings, min_invisible_time_mills_for_recv=setting)
    async with Proxy(world.machine("proxy", HOST), settings):
        client = await H2Client.connect(world.machine("client", "10.0.0.40"), PORT, HOST)
        talk = client.open("Telemetry", *CALLER[:3])
        command = pb.TelemetryCommand(settings=consumer_settings(GROUP, kind=pb.ClientType.SIMPLE_CONSUMER))
        await client.send(talk, framed(command.SerializeToString()))
        short = await received(client, (shortest_ms - 1) / 1000)
        assert short.code == pb.Code.ILLEGAL_INVISIBLE_TIME
        assert short.message == f"the invisibleTime is too small. min is {shortest_ms}"
        assert (await received(client, shortest_ms / 1000)).code != pb.Code.ILLEGAL_INVISIBLE_TIME
        client.transport.abort()
    await cluster.close()
