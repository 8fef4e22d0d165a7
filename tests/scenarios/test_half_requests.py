"""Half requests to the control endpoint, on virtual time: aiohttp's own server behind our timers."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiohttp import web

from staticfire.control import half_requests
from staticfire.control.half_requests import HALF_REQUEST_S, HalfRequests
from staticfire.simulation.world import SimulatedWorld
from tests.proxy.raw_client import RawClient

HOST, PORT = "10.0.0.1", 8082
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
SLOW_S = 4 * HALF_REQUEST_S


class HttpClient(RawClient):
    """What the server says, as it is."""

    said = b""

    def data_received(self, data: bytes) -> None:
        self.said += data


class HalfServed:
    """A server that answers after a while."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.world = world
        self._server = web.Server(self._answer)
        self.half_requests = HalfRequests(self._server)

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        assert isinstance(request, web.BaseRequest)
        with self.half_requests.answering(request):
            await asyncio.sleep(SLOW_S)  # house: virtual time, as an answer that takes long
            return web.Response(text="fine")

    async def client(self, said: bytes) -> HttpClient:
        client = HttpClient()
        await self.world.machine("client", "10.0.0.2").network.connect(lambda: client, HOST, PORT, 5_000)
        client.say(said)
        return client

    async def close(self) -> None:
        await self._server.shutdown(1)


@pytest_asyncio.fixture
async def served(world: SimulatedWorld) -> AsyncIterator[HalfServed]:
    served = HalfServed(world)
    listener = await world.machine("control", HOST).network.listen(served.half_requests, HOST, PORT)
    yield served
    await listener.close()
    await served.close()


@pytest.mark.parametrize("said", [b"", b"GET", b"GET / HTTP/1.1\r\nHost: localhost\r\n"], ids=["none", "line", "head"])
async def test_a_request_that_never_becomes_whole_is_closed(served: HalfServed, said: bytes) -> None:
    client = await served.client(said)
    await served.world.run_for(seconds=HALF_REQUEST_S - 1)
    assert not client.closed.is_set()
    await served.world.run_for(seconds=2)
    assert client.closed.is_set()
    assert client.said.startswith(b"HTTP/1.1 408 ") == bool(said)
    head, _, body = client.said.partition(b"\r\n\r\n")
    assert not said or f"Content-Length: {len(body)}".encode() in head


async def test_the_response_names_the_limit_that_was_used(served: HalfServed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_requests, "HALF_REQUEST_S", 120.0)
    client = await served.client(b"GET")
    await served.world.run_for(seconds=121)
    head, _, body = client.said.partition(b"\r\n\r\n")
    assert b"incomplete after 120 seconds" in body
    assert b"Content-Length: %d" % len(body) in head


async def test_a_byte_now_and_then_makes_no_difference(served: HalfServed) -> None:
    client = await served.client(b"GET / HTTP/1.1\r\n")
    for _ in range(12):
        client.say(b"X")
        await served.world.run_for(seconds=1)
    assert client.closed.is_set()


async def test_an_answer_may_take_long_and_so_may_the_next_request(served: HalfServed) -> None:
    client = await served.client(REQUEST)
    await served.world.run_for(seconds=SLOW_S + 1)
    assert client.said.count(b"fine") == 1
    await served.world.run_for(seconds=2 * HALF_REQUEST_S)
    assert not client.closed.is_set()  # Between two requests aiohttp's own limit holds.
    client.say(REQUEST)
    await served.world.run_for(seconds=SLOW_S + 1)
    assert client.said.count(b"fine") == 2


async def test_a_half_request_behind_a_whole_one_is_closed_too(served: HalfServed) -> None:
    client = await served.client(REQUEST + b"GET /")
    await served.world.run_for(seconds=SLOW_S + 1)
    assert client.said.count(b"fine") == 1
    client.say(b"x")
    await served.world.run_for(seconds=HALF_REQUEST_S + 1)
    assert client.closed.is_set()
