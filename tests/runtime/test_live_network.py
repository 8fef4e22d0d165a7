"""What only real sockets can show."""

import asyncio
import platform
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from staticfire.runtime.client_machine import with_client
from staticfire.runtime.dispatcher import Dispatcher
from staticfire.runtime.live import live_machine
from staticfire.runtime.server import Server, ServerTls
from staticfire.runtime.tls.settings import TlsClient, TlsSettings

machine = live_machine()
network = machine.network
LOOPBACK = "127.0.0.1"


class Quiet(asyncio.Protocol):
    """Remembers its transport."""

    def __init__(self, made: "asyncio.Future[asyncio.BaseTransport] | None" = None) -> None:
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._made is not None:
            self._made.set_result(transport)


async def test_small_writes_leave_at_once_on_both_sides() -> None:
    accepted = asyncio.get_running_loop().create_future()
    listener = await network.listen(lambda: Quiet(accepted), LOOPBACK, 0)
    near = await network.connect(Quiet, LOOPBACK, listener.port, 3_000)
    for transport in (near, await accepted):
        assert transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    near.close()
    (await accepted).close()
    await listener.close()


async def test_a_listening_socket_can_be_taken_over() -> None:
    with socket.create_server((LOOPBACK, 0)) as sock:
        port = sock.getsockname()[1]
        accepted = asyncio.get_running_loop().create_future()
        listener = await network.listen(lambda: Quiet(accepted), "ignored", 1, sock)
        assert (listener.host, listener.port) == (LOOPBACK, port)
        near = await network.connect(Quiet, LOOPBACK, port, 3_000)
        (await accepted).close()
        near.close()
        await listener.close()
        assert sock.fileno() == -1
    with pytest.raises(ConnectionRefusedError):
        await network.connect(Quiet, LOOPBACK, port, 3_000)


async def test_a_port_can_be_had_again_while_its_connections_still_linger() -> None:
    accepted = asyncio.get_running_loop().create_future()
    listener = await network.listen(lambda: Quiet(accepted), LOOPBACK, 0)
    near = await network.connect(Quiet, LOOPBACK, listener.port, 3_000)
    (await accepted).close()  # the side that closes first keeps the address for a minute
    await listener.close()
    again = await network.listen(Quiet, LOOPBACK, listener.port)
    assert again.port == listener.port
    near.close()
    await again.close()


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that drops each attempt to connect, since its queue of connections to accept is full."""
    with socket.create_server((LOOPBACK, 0), backlog=0) as full:
        port: int = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(8)]
        for sock in waiting:
            sock.setblocking(False)
            sock.connect_ex((LOOPBACK, port))
        yield port
        for sock in waiting:
            sock.close()


async def test_no_answer_is_a_timeout_that_names_the_place(silent_port: int) -> None:
    with pytest.raises(TimeoutError, match=f"{LOOPBACK}:{silent_port}: no response within 50 ms"):
        await network.connect(Quiet, LOOPBACK, silent_port, 50)


@pytest.mark.parametrize("tls", [None, TlsClient()], ids=["plain", "TLS"])
async def test_a_host_is_connected_at_its_second_address_if_the_first_is_silent(
    silent_port: int, monkeypatch: pytest.MonkeyPatch, tls: TlsClient | None
) -> None:
    server = Server(machine, Dispatcher(), tls=ServerTls(TlsSettings()))
    port = await server.listen(LOOPBACK, 0)

    async def look_up(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (LOOPBACK, each)) for each in (silent_port, port)]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
    made: list[Quiet] = []

    def make() -> Quiet:
        made.append(Quiet())
        return made[-1]

    transport = await with_client(machine, tls).network.connect(make, "mq.example.org", 1, 3_000)
    assert transport.get_extra_info("peername") == (LOOPBACK, port)
    assert len(made) == 1
    transport.close()
    await server.close()


async def test_a_loop_that_can_not_try_several_addresses_at_once_connects_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """uvloop's function for connections has no happy_eyeballs_delay; eager tasks break asyncio's."""
    server = Server(machine, Dispatcher())
    port = await server.listen(LOOPBACK, 0)
    loop = asyncio.get_running_loop()
    usual = loop.create_connection

    async def create_connection(factory: Any, host: str, port: int) -> Any:
        return await usual(factory, host, port)

    monkeypatch.setattr(loop, "create_connection", create_connection)
    (await network.connect(Quiet, LOOPBACK, port, 3_000)).close()
    loop.set_task_factory(lambda loop, coroutine, **more: asyncio.Task(coroutine, loop=loop, **more))
    try:
        (await network.connect(Quiet, "localhost", port, 3_000)).close()
    finally:
        loop.set_task_factory(None)
    await server.close()


async def test_every_refusal_names_the_place_as_it_was_requested() -> None:
    with socket.socket() as sock:
        sock.bind((LOOPBACK, 0))  # It doesn't listen, and no other program can take its port.
        port = sock.getsockname()[1]
        with pytest.raises(OSError, match=f"localhost:{port}: "):
            await network.connect(Quiet, "localhost", port, 3_000)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="what glibc does with large blocks")
def test_a_read_of_a_few_bytes_needs_no_fresh_pages() -> None:
    program = """
import resource, socket
from staticfire.runtime.live.network import RECEIVED_BYTES_MAX, LiveNetwork
LiveNetwork()
near, far = socket.socketpair()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(1000):
    near.send(b"x")
    far.recv(RECEIVED_BYTES_MAX)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert int(answer.stdout) < 100
