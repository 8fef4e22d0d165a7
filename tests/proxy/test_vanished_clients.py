"""Clients that vanish, or open a stream and say nothing: none keeps its connection for ever."""

from collections.abc import AsyncIterator
from functools import partial

import pytest
import pytest_asyncio

from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from staticfire.proxy.services.client_table import CLIENT_EXPIRED_MS
from staticfire.proxy.transport import frames
from staticfire.proxy.transport.calls import GrpcStatus
from staticfire.proxy.transport.endpoint import LOOK_MS
from staticfire.proxy.transport.entrance import Entrance
from staticfire.proxy.transport.limits import TransportLimits
from staticfire.simulation.world import SimulatedWorld
from staticfire.simulation.world.link import LinkQuality
from tests.proxy.attacks import BEGIN, block_of, headers
from tests.proxy.grpc_stand import GrpcStand, Stream, producer_settings
from tests.proxy.h2_client import H2Client, a_send, command, framed
from tests.proxy.raw_client import RawClient
from tests.proxy.test_floods import HOST, PORT, Besieged, listening
from tests.scenarios.logged import LogLine
from tests.work import calls_in

pytestmark = pytest.mark.row("G3")

LIMITS = TransportLimits(connections_max=3)
TELEMETRY = headers(1, block_of("Telemetry"))
GONE_MS = 120_000
SILENT_MS = 60_000
FIRST = frames.frame(frames.DATA, 0, 1, framed(command("first")))

FIRSTS = {
    "mute": b"",
    "vanished": FIRST,
    "unknown": frames.frame(frames.DATA, 0, 1, framed(command("unknown"))),
}


@pytest_asyncio.fixture
async def besieged(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Besieged]:
    async with listening(world, getattr(request, "param", LIMITS)) as besieged:
        yield besieged


async def talking(besieged: Besieged) -> tuple[H2Client, int]:
    """Return a client with a stream that has begun. It answers each PING."""
    client = await besieged.client()
    stream = client.open("Telemetry")
    await client.send(stream, framed(command("first")))
    await besieged.world.run_for(10)
    return client, stream


async def test_a_client_that_vanishes_with_an_open_stream_is_noticed(besieged: Besieged, logged: list[LogLine]) -> None:
    world = besieged.world
    vanished = await RawClient.connect(world.machine("laptop", "10.0.0.9"), HOST, PORT)
    vanished.say(BEGIN + TELEMETRY + FIRST)
    silent, stream = await talking(besieged)
    world.isolate("laptop")
    await besieged.look_for(SILENT_MS + LIMITS.unanswered_ms_max - LOOK_MS)
    assert besieged.endpoint.connections == 2
    await besieged.look_for(3 * LOOK_MS)
    assert (besieged.endpoint.connections, besieged.endpoint.open_calls) == (1, 1)
    assert besieged.service.ended == ["telemetry"]
    await silent.send(stream, framed(command("an hour later")), end=True)
    assert (await silent.result(stream)).status == 0
    world.heal("laptop")
    vanished.transport.abort()
    (line,) = [line for line in logged if line.event == "grpc_connection_rejected"]
    assert "nothing was received for 3600000 ms" in str(line.fields["reason"])


async def test_a_client_that_was_only_frozen_keeps_its_stream(besieged: Besieged) -> None:
    frozen = await besieged.attacker(BEGIN + TELEMETRY + FIRST)
    await besieged.look_for(30 * 60_000)
    frozen.say(frames.frame(frames.PING, frames.ACK, 0, bytes(8)))
    await besieged.look_for(LOOK_MS)
    assert (frozen.seen[frames.PING], besieged.endpoint.open_calls, besieged.service.ended) == (1, 1, [])


@pytest.mark.parametrize("answer", ["ping", "data"])
async def test_whatever_a_client_sends_after_a_ping_keeps_it(besieged: Besieged, answer: str) -> None:
    client = await besieged.attacker(BEGIN + TELEMETRY + FIRST)
    for _ in range(5):
        await besieged.look_for(SILENT_MS + 2 * LOOK_MS)
        acknowledged = frames.frame(frames.PING, frames.ACK, 0, bytes(8))
        client.say(acknowledged if answer == "ping" else frames.window_update(0, 1))
    assert client.seen[frames.PING] == 5
    assert not client.closed.is_set()


async def test_a_client_in_the_middle_of_a_long_response_isnt_silent(besieged: Besieged) -> None:
    """The PING waits behind the response, which a slow client reads steadily."""
    besieged.world.set_link("client", "endpoint", LinkQuality(window_bytes=4_096))
    client = await besieged.attacker(BEGIN + frames.window_update(0, 2**30))
    client.say(frames.settings_frame({frames.INITIAL_WINDOW_SIZE: 2**30}))
    request = pb.ReceiveMessageRequest(batch_size=500, attempt_id="x" * 30_000)
    client.say(headers(1, block_of("ReceiveMessage")))
    client.say(frames.frame(frames.DATA, frames.END_STREAM, 1, framed(request.SerializeToString())))
    for _ in range(GONE_MS * 2 // LOOK_MS):
        client.transport.pause_reading()
        await besieged.look_for(LOOK_MS)
        client.transport.resume_reading()
        await besieged.world.run_for(1)
    assert besieged.endpoint.queued_bytes > 0
    assert (besieged.endpoint.connections, client.closed.is_set()) == (1, False)
    client.transport.abort()
    await client.closed.wait()


async def test_a_stream_without_a_first_request_is_given_up(besieged: Besieged) -> None:
    client, stream = await talking(besieged)
    mute = client.open("Telemetry")
    await besieged.look_for(LIMITS.unfinished_ms_max - 2 * LOOK_MS)
    assert not client.answers[mute].over.is_set()
    await besieged.look_for(4 * LOOK_MS)
    assert client.answers[mute].status == GrpcStatus.DEADLINE_EXCEEDED
    assert not client.answers[stream].over.is_set()


@pytest.mark.parametrize("how", ["mute", "vanished", "unknown"])
async def test_such_a_connection_makes_room_for_another_client(besieged: Besieged, how: str) -> None:
    first, _ = await talking(besieged)
    useless = await besieged.attacker(BEGIN + TELEMETRY + FIRSTS[how])
    last, _ = await talking(besieged)
    if how == "vanished":
        await besieged.look_for(SILENT_MS + LIMITS.ping_ms_max + LOOK_MS)
    new = await besieged.client()
    assert (await new.call("SendMessage", a_send())).status == 0
    assert [each.closed.is_set() for each in (first, useless, last)] == [False, True, False]


async def test_a_client_that_has_just_got_a_ping_keeps_its_place(besieged: Besieged) -> None:
    """A PING takes a round trip, so that its acknowledgement is missing for a moment at each healthy client."""
    clients = [await besieged.attacker(BEGIN + TELEMETRY + FIRST) for _ in range(3)]
    await besieged.look_for(SILENT_MS - LOOK_MS)
    await besieged.world.run_for(LOOK_MS + 10)
    besieged.endpoint.look()
    refused = await besieged.attacker()
    await besieged.world.run_for(LIMITS.ping_ms_max - LOOK_MS)
    assert [client.seen[frames.PING] for client in clients] == [1, 1, 1]
    assert [each.closed.is_set() for each in (*clients, refused)] == [False, False, False, True]


@pytest.mark.parametrize("besieged", [TransportLimits(connections_max=50)], indirect=True)
async def test_a_full_endpoint_looks_for_room_once_per_look(besieged: Besieged) -> None:
    """It takes milliseconds if there are thousands of connections."""
    clients = [await talking(besieged) for _ in range(50)]
    besieged.endpoint.look()
    refused = [Entrance(besieged.endpoint) for _ in range(2)]
    works = [calls_in(partial(besieged.endpoint.came, each)) for each in refused]
    assert works[0] > 50
    assert works[1] < 10
    for each in refused:
        besieged.endpoint.gone(each)
    client, stream = clients[7]
    await client.send(stream, b"", end=True)
    await client.result(stream)
    besieged.endpoint.look()
    new = await besieged.client()
    assert (await new.call("SendMessage", a_send())).status == 0
    assert [number for number, (each, _) in enumerate(clients) if each.closed.is_set()] == [7]


async def test_a_frozen_client_comes_back_on_its_only_stream(stand: GrpcStand) -> None:
    """RocketMQ's C# client opens one Telemetry stream in its life, and sends its settings on it every five minutes."""
    stream = await stand.producer("orders")
    await stand.world.run_for(CLIENT_EXPIRED_MS + 10_000)
    assert stand.service.clients.get("p1") is None
    await stand.world.run_for(5 * 60_000)
    await stream.settings(producer_settings("orders"))
    client = stand.service.clients.get("p1")
    assert client is not None
    assert client.stream is stream.call


def keeps_place(stream: Stream) -> bool:
    return not stream.call.is_spare


@pytest.mark.parametrize("how", ["silence", "goodbye", "a newer stream", "no settings"])
async def test_a_stream_of_no_known_client_keeps_no_place(stand: GrpcStand, how: str) -> None:
    stream = stand.stream("p1")
    if how == "no settings":
        stream.say(thread_stack_trace=pb.ThreadStackTrace(nonce="1"))
        await stand.world.run_for(10)
        assert not keeps_place(stream)
        return
    await stream.settings(producer_settings("orders"))
    assert keeps_place(stream)
    if how == "silence":
        await stand.world.run_for(CLIENT_EXPIRED_MS + 10_000)
    elif how == "goodbye":
        await stand.call("NotifyClientTermination", client_id="p1")
    else:
        newer = await stand.producer("orders")
        assert keeps_place(newer)
    assert not keeps_place(stream)
    await stream.settings(producer_settings("orders"))
    assert keeps_place(stream)
