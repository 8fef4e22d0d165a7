"""Calls over HTTP/2, with a client that is not ours, on virtual time."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from staticfire.proxy.transport.calls import GrpcStatus
from staticfire.proxy.transport.endpoint import LOOK_MS, GrpcEndpoint
from staticfire.proxy.transport.frames import H2Code
from staticfire.proxy.transport.limits import TransportLimits
from staticfire.runtime.machine import Machine
from staticfire.simulation.world import SimulatedWorld
from tests.proxy.h2_client import EchoService, H2Client, a_send, command, framed, nonces

pytestmark = pytest.mark.row("G3")

HOST, PORT = "10.0.0.1", 8081
LIMITS = TransportLimits(
    request_bytes_max=9_000_000,
    unfinished_bytes_max=12_000_000,
    streams_max=8,
    connections_max=3,
    unsent_bytes_max=2_000_000,
)


class Served:
    """An endpoint with the echo service, and clients of it."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.world = world
        self.service = EchoService()
        self.machine = world.machine("endpoint", HOST)
        self.endpoint = GrpcEndpoint(self.machine, self.service.methods, LIMITS)
        self.clients: list[H2Client] = []

    async def client(self, **more: int) -> H2Client:
        self.clients.append(await H2Client.connect(self.client_machine, PORT, HOST, **more))
        return self.clients[-1]

    @property
    def client_machine(self) -> Machine:
        return self.world.machine("client", "10.0.0.2")

    async def look_for(self, ms: int) -> None:
        """Let time pass, in which the endpoint looks at its connections."""
        for _ in range(0, ms, LOOK_MS):
            await self.world.run_for(LOOK_MS)
            self.endpoint.look()


@pytest_asyncio.fixture
async def served(world: SimulatedWorld) -> AsyncIterator[Served]:
    served = Served(world)
    await served.endpoint.listen(HOST, PORT)
    yield served
    await served.endpoint.close()
    assert served.endpoint.held_bytes == 0
    assert served.endpoint.connections == 0


async def test_calls_of_all_kinds_share_a_connection(served: Served) -> None:
    client = await served.client()
    talk = client.open("Telemetry")
    await client.send(talk, framed(command("a")) + framed(command("b")))
    sent = await client.call("SendMessage", a_send(b"12345"), ("x-mq-client-id", "c1"), ("grpc-timeout", "3S"))
    assert pb.SendMessageResponse.FromString(sent.messages[0]).entries[0].offset == 5
    assert (sent.status, sent.fields[":status"], sent.fields["content-type"]) == (0, "200", "application/grpc")
    (call,) = served.service.calls
    assert (call.metadata["x-mq-client-id"], call.peer[0], call.remaining_ms()) == ("c1", "10.0.0.2", 3_000)
    received = await client.call("ReceiveMessage", pb.ReceiveMessageRequest(batch_size=40).SerializeToString())
    assert (len(received.messages), received.status) == (40, 0)
    await client.send(talk, framed(command("c")), end=True)
    talked = await client.result(talk)
    assert nonces(talked.messages) == ["a", "a", "b", "b", "c", "c"]
    assert (talked.status, served.service.ended) == (0, ["receive", "telemetry"])


@pytest.mark.parametrize(
    ("name", "message", "metadata", "status", "words"),
    [
        ("/x.Y/Z", b"", (), GrpcStatus.UNIMPLEMENTED, "Method not found: x.Y/Z"),
        ("SendMessage", a_send(message_id="refuse"), (), GrpcStatus.FAILED_PRECONDITION, "100 % of it – no"),
        ("SendMessage", a_send(message_id="fail"), (), GrpcStatus.INTERNAL, "nobody thought of it"),
        ("SendMessage", b"\xff\xff", (), GrpcStatus.INTERNAL, "not a SendMessageRequest"),
        ("SendMessage", a_send(), (("grpc-timeout", "5 S"),), GrpcStatus.INTERNAL, "grpc-timeout '5 S' is invalid"),
        ("SendMessage", a_send(), (("x", "y" * 17_000),), GrpcStatus.RESOURCE_EXHAUSTED, "16384 bytes"),
        (
            "SendMessage",
            a_send(message_id="wait"),
            (("grpc-timeout", "2S"),),
            GrpcStatus.DEADLINE_EXCEEDED,
            "deadline has passed",
        ),
    ],
)
async def test_what_goes_wrong_is_reported_with_the_call(
    served: Served, name: str, message: bytes, metadata: tuple[tuple[str, str], ...], status: GrpcStatus, words: str
) -> None:
    client = await served.client()
    answer = await client.call(name, message, *metadata)
    assert answer.status == status
    assert words in answer.words
    assert (await client.call("SendMessage", a_send())).status == 0


@pytest.mark.parametrize(
    ("data", "status", "words"),
    [
        (b"", GrpcStatus.INTERNAL, "received 0 requests"),
        (framed(a_send())[:-1], GrpcStatus.INTERNAL, "received 0 requests"),
        (framed(a_send()) * 2, GrpcStatus.INTERNAL, "received 2 requests"),
        (b"\x01" + framed(a_send())[1:], GrpcStatus.UNIMPLEMENTED, "identity"),
        (b"\x00\x00\x89\x54\x41", GrpcStatus.RESOURCE_EXHAUSTED, "9000001 bytes: the limit is 9000000"),
    ],
)
async def test_requests_that_are_none(served: Served, data: bytes, status: GrpcStatus, words: str) -> None:
    client = await served.client()
    stream = client.open("SendMessage")
    await client.send(stream, data, end=True)
    answer = await client.result(stream)
    assert (answer.status, words in answer.words) == (status, True)


async def test_large_bodies_pass_both_ways(served: Served) -> None:
    client = await served.client()
    large = 8 * 1024 * 1024
    sent = await client.call("SendMessage", a_send(b"x" * large))
    assert pb.SendMessageResponse.FromString(sent.messages[0]).entries[0].offset == large
    request = pb.ReceiveMessageRequest(batch_size=3, attempt_id="y" * large)
    received = await client.call("ReceiveMessage", request.SerializeToString())
    assert [len(each) > large for each in received.messages] == [True] * 3


@pytest.mark.parametrize("window", [1_000, 65_535, 1_000_000])
async def test_answers_that_are_yielded_at_once_arrive_one_by_one(served: Served, window: int) -> None:
    client = await served.client(window=window)
    request = pb.ReceiveMessageRequest(batch_size=32, attempt_id="y" * 3_000, auto_renew=True)
    received = await client.call("ReceiveMessage", request.SerializeToString())
    bodies = [len(pb.ReceiveMessageResponse.FromString(each).message.body) for each in received.messages]
    assert (bodies, received.status) == ([3_000] * 32, 0)


async def test_a_byte_at_a_time_is_as_good_as_a_burst(served: Served) -> None:
    client = await served.client()
    stream = client.open("SendMessage")
    for byte in framed(a_send(b"abc")):
        await client.send(stream, bytes((byte,)))
    await client.send(stream, b"", end=True)
    assert (await client.result(stream)).status == 0


async def test_a_stream_that_its_client_resets_ends_its_handler(served: Served) -> None:
    client = await served.client()
    waits = client.open("SendMessage")
    await client.send(waits, framed(a_send(message_id="wait")), end=True)
    talks = client.open("Telemetry")
    await served.world.until(lambda: served.service.calls)
    client.h2.reset_stream(waits, H2Code.CANCEL)
    client.h2.reset_stream(talks, H2Code.CANCEL)
    client.flush()
    await served.world.until(lambda: len(served.service.ended) == 2)
    assert sorted(served.service.ended) == ["send", "telemetry"]
    assert (await client.call("SendMessage", a_send())).status == 0


async def test_handlers_end_with_their_connection(served: Served) -> None:
    client = await served.client()
    await client.send(client.open("SendMessage"), framed(a_send(message_id="wait")), end=True)
    await client.send(client.open("Telemetry"), framed(command("slow")))
    client.open("ReceiveMessage")
    await served.world.run_for(100)
    client.transport.abort()
    await served.world.until(lambda: served.endpoint.connections == 0)
    await served.world.run_for(1)
    assert sorted(served.service.ended) == ["send", "telemetry"]


async def test_a_handler_waits_for_a_client_that_takes_nothing(served: Served) -> None:
    client = await served.client()
    client.takes = False
    request = pb.ReceiveMessageRequest(batch_size=1_000, attempt_id="y" * 10_000)
    stream = client.open("ReceiveMessage")
    await client.send(stream, framed(request.SerializeToString()), end=True)
    await served.world.run_for(seconds=5)
    assert 30 < served.service.yielded < 40  # The client's window of 64 KiB, and what may wait here.
    client.takes = True
    client.h2.acknowledge_received_data(len(client.answers[stream].data), stream)
    client.flush()
    answer = await client.result(stream)
    assert (len(answer.messages), answer.status) == (1_000, 0)


async def test_a_stream_that_isnt_taken_holds_up_no_other(served: Served) -> None:
    client = await served.client(window=20_000)
    client.h2.increment_flow_control_window(10_000_000)
    client.takes = False
    request = pb.ReceiveMessageRequest(batch_size=100, attempt_id="y" * 10_000)
    first = client.open("ReceiveMessage")
    await client.send(first, framed(request.SerializeToString()), end=True)
    await served.world.run_for(100)
    assert len(client.answers[first].data) == 20_000
    assert (await client.call("SendMessage", a_send())).status == 0


async def test_a_client_waits_for_a_handler_that_takes_nothing(served: Served) -> None:
    client = await served.client()
    stream = client.open("Telemetry")
    sending = asyncio.create_task(
        client.send(stream, framed(command("slow")) + framed(command("y" * 100_000)) * 100, end=True)
    )
    await served.world.run_for(seconds=1)
    assert served.endpoint.held_bytes < 1_500_000
    assert not sending.done()
    served.service.go.set()
    await sending
    answer = await client.result(stream)
    assert (len(answer.messages), answer.status) == (202, 0)


async def test_a_stream_too_many_is_refused_and_may_be_tried_again(served: Served) -> None:
    client = await served.client()
    await served.world.run_for(10)
    client.h2.remote_settings[3] = 1_000  # The client knows better.
    client.h2.remote_settings.acknowledge()
    waiting = [client.open("Telemetry") for _ in range(LIMITS.streams_max)]
    more = await client.call("SendMessage", a_send())
    assert more.reset == H2Code.REFUSED_STREAM
    client.h2.end_stream(waiting[0])
    client.flush()
    await client.result(waiting[0])
    assert (await client.call("SendMessage", a_send())).status == 0


async def test_unfinished_requests_of_all_clients_have_one_limit(served: Served) -> None:
    clients = [await served.client() for _ in range(2)]
    streams = [client.open("SendMessage") for client in clients]
    half = framed(a_send(b"x" * 8_000_000))[:7_000_000]
    await clients[0].send(streams[0], half)
    await clients[1].send(streams[1], half)
    answer = await clients[0].result(streams[0])  # It held the most when there was no more room.
    assert (answer.status, "exceed their limit" in answer.words) == (GrpcStatus.RESOURCE_EXHAUSTED, True)
    assert not clients[1].answers[streams[1]].over.is_set()
    more = [clients[1].open("SendMessage") for _ in range(2)]
    for each in more:
        await clients[1].send(each, half)
    refused = await clients[1].result(more[0])  # Now it has the most itself.
    assert (refused.status, "exceed their limit" in refused.words) == (GrpcStatus.RESOURCE_EXHAUSTED, True)
    assert (await clients[0].call("SendMessage", a_send())).status == 0


async def test_pings_are_never_punished(served: Served) -> None:
    client = await served.client()
    for _ in range(200):
        client.h2.ping(b"12345678")
        client.flush()
        await served.world.run_for(10)
    assert client.goodbye is None


async def test_an_idle_connection_is_closed_with_a_goodbye(served: Served) -> None:
    idle, talking = await served.client(), await served.client()
    await idle.call("SendMessage", a_send())
    talking.open("Telemetry")
    await served.look_for(115_000)
    assert not idle.closed.is_set()
    await served.look_for(10_000)
    assert idle.closed.is_set()
    assert idle.goodbye == (H2Code.NO_ERROR, b"idle")
    assert not talking.closed.is_set()


async def test_a_client_that_takes_nothing_for_long_is_cut_off_and_a_slow_one_is_not(served: Served) -> None:
    clients = {"deaf": await served.client(), "slow": await served.client()}
    request = pb.ReceiveMessageRequest(batch_size=100_000, attempt_id="y" * 10_000)
    for client in clients.values():
        client.h2.increment_flow_control_window(2**30)
        stream = client.open("ReceiveMessage")
        client.h2.increment_flow_control_window(2**30, stream)
        await client.send(stream, framed(request.SerializeToString()), end=True)
        client.transport.pause_reading()
    for _ in range(4):
        await served.look_for(20_000)
        assert not clients["slow"].closed.is_set()
        clients["slow"].transport.resume_reading()
        await served.world.run_for(2)
        clients["slow"].transport.pause_reading()
    assert served.endpoint.connections == 1
    for client in clients.values():
        client.transport.abort()


async def test_what_never_becomes_whole_is_given_up(served: Served) -> None:
    clients = [await served.client() for _ in range(3)]
    half = clients[0].open("SendMessage")
    await clients[0].send(half, framed(a_send(b"x" * 900))[:500])
    clients[1].transport.write(b"\x00\x00\x20\x00")
    talks = clients[2].open("Telemetry")
    await served.look_for(55_000)
    assert not clients[1].closed.is_set()
    await served.look_for(10_000)
    assert clients[1].closed.is_set()
    assert (await clients[0].result(half)).status == GrpcStatus.DEADLINE_EXCEEDED
    assert served.endpoint.held_bytes == 0
    await clients[2].send(talks, b"", end=True)
    assert (await clients[2].result(talks)).status == 0


async def test_a_connection_too_many_is_closed(served: Served) -> None:
    clients = [await served.client() for _ in range(3)]
    for client in clients:
        # Without a call that has begun, it would have to make room.
        await client.send(client.open("Telemetry"), framed(command("x")))
    await served.world.run_for(10)
    clients.append(await served.client())
    await asyncio.wait_for(clients[3].closed.wait(), 1)
    assert (await clients[0].call("SendMessage", a_send())).status == 0


async def test_a_stop_lets_requests_end_and_ends_streams(served: Served) -> None:
    client = await served.client()
    waits, talks = client.open("SendMessage"), client.open("Telemetry")
    await client.send(waits, framed(a_send(message_id="wait")), end=True)
    await served.world.until(lambda: served.service.calls)
    served.world.loop.call_later(0.5, served.service.go.set)
    await served.endpoint.close()
    assert ((await client.result(waits)).status, (await client.result(talks)).status) == (0, GrpcStatus.UNAVAILABLE)
    assert client.goodbye == (H2Code.NO_ERROR, b"the endpoint is stopping")
