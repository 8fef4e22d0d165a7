"""Receives whose client doesn't read the whole response: their messages go to other members."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from staticfire.proxy.transport.endpoint import LOOK_MS, GrpcEndpoint
from staticfire.proxy.transport.frames import H2Code
from tests.proxy.grpc_stand import GROUP, TOPIC, GrpcStand, keep_alive, ready, resource, seconds
from tests.proxy.h2_client import H2Client, framed

pytestmark = pytest.mark.row("G3", "G5")

HOST, PORT = "10.0.0.30", 8081
BODIES = [b"%04d" % number + b"x" * 8_000 for number in range(30)]


class SlowClient:
    """Push consumers c1 and c2. c1 uses a connection, and doesn't return the window (64 KiB) of its receive."""

    def __init__(self, stand: GrpcStand, client: H2Client, endpoint: GrpcEndpoint) -> None:
        self.stand = stand
        self.client = client
        self.endpoint = endpoint
        self.stream = 0

    async def receive(self) -> None:
        """Send a receive, and let the response fill the window."""
        request = pb.ReceiveMessageRequest(
            group=resource(GROUP), message_queue=pb.MessageQueue(topic=resource(TOPIC)), batch_size=32,
            auto_renew=True, long_polling_timeout=seconds(5),
        )  # fmt: skip
        metadata = ("x-mq-client-id", "c1"), ("x-mq-language", "JAVA"), ("grpc-timeout", "300S")
        self.stream = self.client.open("ReceiveMessage", *metadata)
        await self.client.send(self.stream, framed(request.SerializeToString()), end=True)
        await self.stand.world.run_for(seconds=2)

    @property
    def received(self) -> list[bytes]:
        responses = map(pb.ReceiveMessageResponse.FromString, self.client.answers[self.stream].messages)
        return [one.message.body for one in responses if one.HasField("message")]

    async def others(self) -> list[bytes]:
        """Return what the other member gets within some minutes."""
        bodies = []
        for _ in range(3):
            await keep_alive(self.stand, 1, "c1", "c2")
            bodies += await self.stand.bodies(client_id="c2", auto_renew=True)
        return sorted(bodies)


@pytest_asyncio.fixture
async def slow(stand: GrpcStand) -> AsyncIterator[SlowClient]:
    await ready(stand, queues=1)
    for client_id in ("c1", "c2"):
        await stand.consumer(client_id, kind=pb.ClientType.PUSH_CONSUMER)
    for body in BODIES:
        await stand.send(body=body, message_id=body[:4].decode())
    endpoint = GrpcEndpoint(stand.machine, stand.methods)
    await endpoint.listen(HOST, PORT)
    client = await H2Client.connect(stand.world.machine("user", "10.0.0.41"), PORT, HOST)
    client.takes = False
    yield SlowClient(stand, client, endpoint)
    client.transport.close()
    await endpoint.close()


@pytest.mark.parametrize("how", ["reset", "close"])
async def test_a_response_that_its_client_gives_up_is_for_another_member(slow: SlowClient, how: str) -> None:
    await slow.receive()
    assert 0 < len(slow.received) < len(BODIES)
    if how == "reset":
        slow.client.h2.reset_stream(slow.stream, H2Code.CANCEL)
        slow.client.flush()
    else:
        slow.client.transport.close()
    assert await slow.others() == BODIES


async def test_a_client_that_reads_nothing_more_is_cut_off_and_another_member_gets_its_messages(
    slow: SlowClient,
) -> None:
    await slow.receive()
    for _ in range(70_000 // LOOK_MS):
        await slow.stand.world.run_for(LOOK_MS)
        slow.endpoint.look()
    assert slow.client.goodbye is not None
    assert slow.client.closed.is_set()
    assert await slow.others() == BODIES


async def test_a_client_that_reads_late_keeps_its_messages(slow: SlowClient) -> None:
    await slow.receive()
    await keep_alive(slow.stand, 3, "c1", "c2")  # The messages are renewed meanwhile.
    slow.client.takes = True
    slow.client.h2.increment_flow_control_window(2**20)
    slow.client.h2.increment_flow_control_window(2**20, slow.stream)
    slow.client.flush()
    await slow.client.result(slow.stream)
    assert slow.received == BODIES
    assert await slow.others() == []
