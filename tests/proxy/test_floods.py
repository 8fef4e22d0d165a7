"""An endpoint under attack: each attack ends at a limit that has a name, and another client is served all the while."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from staticfire.protocol.times import UptimeMs
from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from staticfire.proxy.transport import frames
from staticfire.proxy.transport.call_events import CallOpened
from staticfire.proxy.transport.calls import GrpcStatus
from staticfire.proxy.transport.endpoint import LOOK_MS, GrpcEndpoint
from staticfire.proxy.transport.floods import FrameAllowance
from staticfire.proxy.transport.frames import H2Code, Http2Fault
from staticfire.proxy.transport.grpc_words import RequestReader
from staticfire.proxy.transport.http2 import Http2
from staticfire.proxy.transport.limits import Rate, TransportLimits
from staticfire.simulation.world import SimulatedWorld
from tests.proxy.attacks import ATTACKS, BEGIN, CALL, CHUNK_BYTES, Attack, block_of, headers, opened
from tests.proxy.h2_client import EchoService, H2Client, a_send, command, framed
from tests.proxy.raw_client import RawClient
from tests.work import calls_in

pytestmark = pytest.mark.row("G3")

HOST, PORT = "10.0.0.1", 8081
RECEIVE = block_of("ReceiveMessage")
LIMITS = TransportLimits(
    queued_bytes_max=3_000_000,
    greetings_max=20,
    metadata_bytes_max=100_000,
    calls_max=600,
    connections_max=40,
    unfinished_bytes_max=20_000_000,
    unsent_bytes_max=1_500_000,
)


class Besieged:
    """An endpoint with the echo service, an honest client, and attackers."""

    def __init__(self, world: SimulatedWorld, limits: TransportLimits) -> None:
        self.world = world
        self.service = EchoService()
        self.endpoint = GrpcEndpoint(world.machine("endpoint", HOST), self.service.methods, limits)
        self._machine = world.machine("client", "10.0.0.2")

    async def attacker(self, said: bytes = BEGIN) -> RawClient:
        raw = await RawClient.connect(self._machine, HOST, PORT)
        raw.say(said)
        return raw

    async def client(self, **more: int) -> H2Client:
        return await H2Client.connect(self._machine, PORT, HOST, **more)

    async def look_for(self, ms: int) -> None:
        """Let time pass, in which the endpoint looks at its connections."""
        for _ in range(0, ms, LOOK_MS):
            await self.world.run_for(LOOK_MS)
            self.endpoint.look()


@asynccontextmanager
async def listening(world: SimulatedWorld, limits: TransportLimits) -> AsyncIterator[Besieged]:
    """An endpoint that holds nothing at its end."""
    besieged = Besieged(world, limits)
    await besieged.endpoint.listen(HOST, PORT)
    yield besieged
    await besieged.endpoint.close()
    assert (besieged.endpoint.held_bytes, besieged.endpoint.queued_bytes, besieged.endpoint.connections) == (0, 0, 0)


@pytest_asyncio.fixture
async def besieged(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Besieged]:
    """With the limits that a test is parametrized with."""
    async with listening(world, getattr(request, "param", LIMITS)) as besieged:
        yield besieged


def chunks(said: bytes) -> list[bytes]:
    return [said[at : at + CHUNK_BYTES] for at in range(0, len(said), CHUNK_BYTES)]


def a_receive(count: int, size: int) -> bytes:
    return framed(pb.ReceiveMessageRequest(batch_size=count, attempt_id="y" * size).SerializeToString())


@pytest.mark.parametrize("besieged", [TransportLimits()], indirect=True, ids=["usual"])
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name.replace(" ", "_"))
async def test_a_flood_is_closed_at_its_limit_and_another_client_is_served(besieged: Besieged, attack: Attack) -> None:
    honest = await besieged.client()
    attacker = await besieged.attacker()
    attacking = asyncio.create_task(attacker.say_all(chunks(attack.said())))
    assert (await honest.call("SendMessage", a_send())).status == 0
    await attacking
    await besieged.world.run_for(100)
    assert attacker.goodbye is not None
    assert attacker.goodbye[0] == attack.code
    assert attack.limit in attacker.goodbye[1] or f"{getattr(TransportLimits(), attack.limit)}" in attacker.goodbye[1]
    assert attacker.closed.is_set()
    assert (await honest.call("SendMessage", a_send())).status == 0


def test_an_allowance_is_refilled_by_time_and_by_what_was_sent() -> None:
    said: list[str] = []

    def taken(uptime_ms: int, earned: int) -> int:
        """Return how many frames pass when three passed at once at the beginning."""
        allowance = FrameAllowance("pings", Rate(3, 10), UptimeMs(0))
        for _ in range(3):
            allowance.take(UptimeMs(0))
        for count in range(10):
            try:
                allowance.take(UptimeMs(uptime_ms), earned)
            except Http2Fault as fault:
                said.append(str(fault))
                return count
        return 10

    assert [taken(99, 0), taken(100, 0), taken(200, 0), taken(0, 1), taken(100, 1)] == [0, 1, 2, 1, 2]
    assert taken(100_000, 100) == 3  # Never more than a burst.
    assert set(said) == {"too many frames of a kind (pings): 3 at once, then 10 a second"}


def test_a_piece_of_two_bytes_takes_no_more_memory_than_it_counts() -> None:
    reader = RequestReader(10_000_000)
    reader.feed(b"\x00\x00\x90\x00\x00")
    tracemalloc.start()
    try:
        for _ in range(100_000):
            reader.feed(bytes((1, 2)))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reader.held_bytes == 200_005
    assert taken < 2 * reader.held_bytes


def test_short_answers_that_wait_take_no_more_memory_than_they_count() -> None:
    http2 = Http2(TransportLimits())
    (opened_call,) = http2.receive(frames.PREFACE + frames.settings_frame({frames.INITIAL_WINDOW_SIZE: 0}) + headers(1))
    assert isinstance(opened_call, CallOpened)
    tracemalloc.start()
    try:
        for _ in range(20_000):
            http2.outflow.answer(opened_call.stream, bytes(10))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert http2.outflow.unsent_bytes == 200_000
    assert taken < 2 * http2.outflow.unsent_bytes


def test_a_frame_that_comes_byte_by_byte_is_whole_at_the_end() -> None:
    http2 = Http2(TransportLimits())
    http2.receive(BEGIN + headers(1))
    data = frames.frame(frames.DATA, 0, 1, bytes(100_000))
    for position in range(len(data) - 1):
        assert http2.receive(data[position : position + 1]) == []
    (came,) = http2.receive(data[-1:])
    assert len(came.data) == 100_000  # type: ignore[union-attr]


def test_streams_without_a_window_cost_nothing_when_others_move() -> None:
    def pings(streams: int) -> int:
        http2 = Http2(TransportLimits())
        events = http2.receive(
            frames.PREFACE + frames.settings_frame({frames.INITIAL_WINDOW_SIZE: 0}) + opened(streams)
        )
        for event in events:
            assert isinstance(event, CallOpened)
            http2.outflow.answer(event.stream, b"x" * 100)
        http2.outflow.flush()

        def act() -> None:
            for _ in range(100):
                http2.receive(frames.frame(frames.PING, 0, 0, bytes(8)))
                http2.outflow.flush()

        return calls_in(act)

    assert pings(1_000) <= pings(1) + 10


def zero_window_calls(window: int, calls: int = 10) -> bytes:
    """Return calls with long answers, from a client that gives each stream that window."""
    request = a_receive(100, 1_000)
    said = [frames.PREFACE, frames.settings_frame({frames.INITIAL_WINDOW_SIZE: window})]
    for number in range(1, 2 * calls, 2):
        said += headers(number, RECEIVE), frames.frame(frames.DATA, frames.END_STREAM, number, request)
    return b"".join(said)


async def test_a_client_whose_windows_stay_zero_is_closed_and_what_waited_is_freed(besieged: Besieged) -> None:
    attacker = await besieged.attacker(zero_window_calls(0))
    await besieged.look_for(60_000)
    assert not attacker.closed.is_set()
    assert besieged.endpoint.queued_bytes > 1_000_000
    await besieged.look_for(10_000)
    assert attacker.goodbye is not None
    assert attacker.goodbye[0] == H2Code.ENHANCE_YOUR_CALM
    assert besieged.endpoint.queued_bytes == 0


async def test_a_window_that_grows_by_a_byte_now_and_then_is_as_good_as_none(besieged: Besieged) -> None:
    attacker = await besieged.attacker(zero_window_calls(0))
    for _ in range(14):
        attacker.say(b"".join(frames.window_update(number, 1) for number in range(1, 20, 2)))
        await besieged.look_for(LOOK_MS)
    assert attacker.goodbye is not None
    assert attacker.goodbye[0] == H2Code.ENHANCE_YOUR_CALM


async def test_a_stream_that_isnt_read_for_long_is_reset_and_the_others_continue(besieged: Besieged) -> None:
    client = await besieged.client(window=2_000)
    client.takes = False
    stalled = client.open("ReceiveMessage")
    await client.send(stalled, a_receive(100, 1_000), end=True)
    for _ in range(14):
        assert (await client.call("SendMessage", a_send())).status == 0
        await besieged.look_for(LOOK_MS)
    assert client.answers[stalled].reset == H2Code.ENHANCE_YOUR_CALM
    assert besieged.endpoint.queued_bytes == 0
    assert (await client.call("SendMessage", a_send())).status == 0


async def test_a_client_that_takes_little_but_steadily_gets_all(besieged: Besieged) -> None:
    client = await besieged.client(window=2_000)
    client.takes = False
    stream = client.open("ReceiveMessage")
    await client.send(stream, a_receive(20, 1_000), end=True)
    while not client.answers[stream].over.is_set():
        await besieged.look_for(50_000)
        client.h2.increment_flow_control_window(2_000, stream)
        client.flush()
        await besieged.world.run_for(100)
    assert (len(client.answers[stream].messages), client.answers[stream].status) == (20, 0)


async def test_above_the_limit_of_all_connections_the_one_that_holds_most_is_closed(besieged: Besieged) -> None:
    modest = await besieged.attacker(zero_window_calls(0, calls=2))
    greedy = [await besieged.attacker(zero_window_calls(0, calls=10)) for _ in range(3)]
    honest = await besieged.client()
    await besieged.world.run_for(100)
    assert any(each.closed.is_set() for each in greedy)
    assert not modest.closed.is_set()
    assert besieged.endpoint.queued_bytes <= LIMITS.queued_bytes_max * 3 // 4
    assert (await honest.call("SendMessage", a_send())).status == 0
    await besieged.look_for(70_000)
    assert all(each.closed.is_set() for each in (modest, *greedy))


async def test_short_answers_to_a_client_that_reads_nothing_are_bounded(besieged: Besieged) -> None:
    attacker = await besieged.attacker()
    attacker.transport.pause_reading()
    unknown = block_of("NoSuchMethod", *(("x", "y"),))
    for first in range(1, 200_000, 2_000):
        calls = (headers(number, unknown, frames.END_HEADERS | 1) for number in range(first, first + 2_000, 2))
        attacker.say(b"".join(calls))
        await besieged.world.run_for(10)
        assert besieged.endpoint.queued_bytes <= LIMITS.unsent_bytes_max + 500_000
    assert besieged.endpoint.connections == 0
    attacker.transport.abort()


async def test_empty_requests_of_a_stream_count_so_that_their_client_has_to_wait(besieged: Besieged) -> None:
    client = await besieged.client()
    stream = client.open("Telemetry")
    await client.send(stream, framed(command("slow")))
    sending = asyncio.create_task(client.send(stream, framed(b"") * 1_000_000, end=True))
    await besieged.world.run_for(seconds=2)
    assert not sending.done()  # A window, and no more.
    assert besieged.endpoint.held_bytes > 10 * LIMITS.unread_requests_bytes_max
    client.transport.abort()
    await sending


async def test_a_call_with_a_second_request_ends_at_once(besieged: Besieged) -> None:
    client = await besieged.client()
    stream = client.open("SendMessage")
    await client.send(stream, framed(b"") * 10)
    answer = await client.result(stream)
    assert (answer.status, "needs exactly one" in answer.words) == (GrpcStatus.INTERNAL, True)


@pytest.mark.parametrize("bytes_said", [1, 0])
async def test_a_request_that_comes_too_slowly_is_given_up(besieged: Besieged, bytes_said: int) -> None:
    client = await besieged.client()
    stream = client.open("SendMessage")
    for position in range(140_000 // LOOK_MS):
        if not client.answers[stream].over.is_set():
            await client.send(stream, framed(bytes(100))[position : position + bytes_said])
        await besieged.look_for(LOOK_MS)
    assert client.answers[stream].status == GrpcStatus.DEADLINE_EXCEEDED
    assert besieged.endpoint.held_bytes == 0


async def test_the_metadata_of_all_calls_of_a_connection_has_a_limit(besieged: Besieged) -> None:
    client = await besieged.client()
    await besieged.world.run_for(10)
    calls = [client.open("Telemetry", ("x", "y" * 15_000)) for _ in range(10)]
    await besieged.world.run_for(100)
    assert [client.answers[each].reset for each in calls].count(H2Code.REFUSED_STREAM) == 4
    for each in calls[:6]:
        client.h2.end_stream(each)
    client.flush()
    for each in calls[:6]:
        await client.result(each)
    again = client.open("Telemetry", ("x", "y" * 15_000))
    await client.send(again, b"", end=True)
    assert (await client.result(again)).status == 0


@pytest.mark.parametrize("said", [b"", b"P", b"\x16\x03\x01"], ids=["nothing", "a_byte", "half_a_handshake"])
async def test_connections_that_dont_say_what_they_speak_are_few_and_short(besieged: Besieged, said: bytes) -> None:
    honest = await besieged.client()
    silent = [await besieged.attacker(said) for _ in range(LIMITS.greetings_max + 5)]
    await besieged.world.run_for(100)
    assert [each.closed.is_set() for each in silent] == [True] * 5 + [False] * LIMITS.greetings_max
    assert (await honest.call("SendMessage", a_send())).status == 0
    await besieged.look_for(25_000)
    assert all(each.closed.is_set() for each in silent)
    assert besieged.endpoint.connections == 1


async def test_a_header_block_that_never_ends_is_given_up(besieged: Besieged) -> None:
    attacker = await besieged.attacker(BEGIN + headers(1) + headers(3, CALL[:2], 0))
    for _ in range(14):
        attacker.say(frames.frame(frames.CONTINUATION, 0, 3, b"x"))
        await besieged.look_for(LOOK_MS)
    assert attacker.closed.is_set()


@pytest.mark.parametrize("waiting_bytes", [1, 100_000])
async def test_a_closed_connection_that_isnt_read_is_cut_off(besieged: Besieged, waiting_bytes: int) -> None:
    attacker = await besieged.attacker(BEGIN + frames.window_update(0, 2**30))
    attacker.transport.pause_reading()
    request, number = a_receive(1, 10_000), 1
    while besieged.endpoint.queued_bytes < waiting_bytes:
        attacker.say(headers(number, RECEIVE) + frames.frame(frames.DATA, frames.END_STREAM, number, request))
        await besieged.world.run_for(10)
        number += 2
    attacker.say(frames.frame(frames.PING, 0, 0))  # A fault: it has 8 bytes.
    await besieged.world.run_for(10)
    # What doesn't read much won't read the reason either.
    assert besieged.endpoint.connections == (1 if waiting_bytes == 1 else 0)
    await besieged.look_for(15_000)
    assert besieged.endpoint.connections == 0
    attacker.transport.abort()


async def test_calls_of_all_connections_have_a_limit(besieged: Besieged) -> None:
    clients = [await besieged.client() for _ in range(2)]
    await besieged.world.run_for(10)
    calls = [(client, client.open("Telemetry")) for client in clients for _ in range(LIMITS.calls_max // 2)]
    await besieged.world.run_for(100)
    assert besieged.endpoint.open_calls == LIMITS.calls_max
    assert (await clients[0].call("SendMessage", a_send())).reset == H2Code.REFUSED_STREAM
    client, call = calls[-1]
    await client.send(call, b"", end=True)
    await client.result(call)
    assert (await clients[0].call("SendMessage", a_send())).status == 0


async def test_connections_without_calls_make_room_for_others(besieged: Besieged) -> None:
    talking = await besieged.client()
    talking.open("Telemetry")
    idle = [await besieged.attacker() for _ in range(LIMITS.connections_max - 1)]
    await besieged.world.run_for(10)
    honest = await besieged.client()
    assert (await honest.call("SendMessage", a_send())).status == 0
    assert [each.closed.is_set() for each in idle] == [True] + [False] * (LIMITS.connections_max - 2)
    assert not talking.closed.is_set()


async def test_requests_that_are_never_finished_make_room_for_those_of_others(besieged: Besieged) -> None:
    greedy, honest = await besieged.client(), await besieged.client()
    half = framed(a_send(b"x" * 2_000_000))[:-1]
    for _ in range(-(-LIMITS.unfinished_bytes_max // 2_000_000)):
        await greedy.send(greedy.open("SendMessage"), half)
    assert besieged.endpoint.held_bytes > LIMITS.unfinished_bytes_max - 2_000_000
    assert (await honest.call("SendMessage", a_send(b"x" * 3_000_000))).status == 0
    assert besieged.endpoint.held_bytes == 0
    assert {each.status for each in greedy.answers.values()} == {GrpcStatus.RESOURCE_EXHAUSTED}
