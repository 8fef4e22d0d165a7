"""Peers that read nothing: a connection that is being closed ends in time, whatever its peer does."""

from collections.abc import Callable
from typing import Any

import pytest

from staticfire.protocol.codecs import NATIVE, codec_for
from staticfire.protocol.command import Answer
from staticfire.protocol.requests.offsets import GetMaxOffset
from staticfire.runtime.connection import CLOSING_MS_MAX, Connection
from staticfire.runtime.dispatcher import Dispatcher
from staticfire.runtime.pool import ConnectionPool
from staticfire.runtime.server import Server, ServerLimits
from staticfire.runtime.tls.layer import TlsLayer
from staticfire.simulation.world import SimulatedWorld
from tests.faults.recorder import Recorder, connect
from tests.runtime.test_backpressure import SlowWire
from tests.scenarios.logged import LogLine

HOST = "10.0.0.1"
ASK = codec_for(NATIVE).encode_request(GetMaxOffset("t", 0), 1, False)
UNFINISHED = (1024 * 1024).to_bytes(4, "big") + (64).to_bytes(4, "big")


def talkative() -> Dispatcher:
    dispatcher = Dispatcher()
    dispatcher.handle(30, lambda call: Answer(body=bytes(100_000)))
    return dispatcher


async def serve(world: SimulatedWorld, lost: Callable[[Connection], None]) -> Server:
    server = Server(world.machine("server", HOST), talkative(), limits=ServerLimits(frame_ms_max=60_000), lost=lost)
    await server.listen(HOST, 10_911)
    return server


async def deaf_peer(world: SimulatedWorld, data: bytes) -> Recorder:
    """Connect a program that sends `data`, and never reads the responses."""
    peer = await connect(world.machine("client"), HOST, 10_911)
    peer.transport.pause_reading()
    peer.transport.write(data)
    await world.run_for(seconds=1)
    return peer


def close_idle(server: Server) -> int:
    server.close_idle()
    return server.close_idle()


def close_slow(server: Server) -> int:
    server.close_slow()
    return len(server.connections)


@pytest.mark.parametrize(
    ("look", "data", "wait_s"), [(close_idle, ASK * 400, 0), (close_slow, ASK * 30 + UNFINISHED, 60)]
)
async def test_a_rejected_connection_ends_although_its_peer_reads_nothing(
    world: SimulatedWorld, logged: list[LogLine], look: Callable[[Server], int], data: bytes, wait_s: int
) -> None:
    lost: list[Connection] = []
    server = await serve(world, lost.append)
    peer = await deaf_peer(world, data)
    await world.run_for(seconds=wait_s)
    assert look(server) == 1
    assert lost == []
    for _ in range(3):  # It is neither rejected nor counted again meanwhile.
        await world.run_for(seconds=2)
        server.close_slow()
        assert server.close_idle() == 0
    await world.run_for(seconds=CLOSING_MS_MAX / 1_000 - 5)
    assert (len(lost), len(server.connections)) == (1, 0)
    await server.close()
    peer.transport.abort()
    assert [line.fields["connections"] for line in logged if line.event == "connection_rejected"] == [1]


async def test_a_peer_that_reads_gets_the_rest_of_a_closed_connection(world: SimulatedWorld) -> None:
    lost: list[Connection] = []
    server = await serve(world, lost.append)
    peer = await deaf_peer(world, ASK * 30)
    (connection,) = server.connections
    connection.close()
    await world.run_for(seconds=CLOSING_MS_MAX / 1_000 - 1)
    peer.transport.resume_reading()
    await peer.until_event("lost")
    assert (len(peer.received) > 30 * 100_000, peer.error) == (True, None)
    await world.run_for(seconds=1)
    assert lost == [connection]
    await server.close()


def fails_in_tls(connection: Connection, wire: Any) -> None:
    layer = TlsLayer(connection, lambda layer, failed: None, is_connected=True)
    layer.connection_made(wire)
    layer.fail("TLS: a record that can't be read")


def ends_in_tls(connection: Connection, wire: Any) -> None:
    layer = TlsLayer(connection, lambda layer, failed: None, is_connected=True)
    layer.connection_made(wire)
    layer.eof_received()


class UnreadWire(SlowWire):
    """It never gets rid of what was written, so that `close` alone doesn't end it."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted: list[bool] = []

    def abort(self) -> None:
        self.aborted.append(True)


@pytest.mark.parametrize("end", [lambda connection, wire: connection.eof_received(), fails_in_tls, ends_in_tls])
async def test_a_peer_that_ends_its_side_and_reads_nothing_is_cut_off(
    world: SimulatedWorld, end: Callable[[Connection, Any], None]
) -> None:
    connection, wire = Connection(talkative(), codec_for(NATIVE), accepting=True), UnreadWire()
    connection.connection_made(wire)
    connection.data_received(ASK)
    end(connection, wire)
    await world.run_for(seconds=CLOSING_MS_MAX / 1_000 - 1)
    assert wire.aborted == []
    await world.run_for(seconds=2)
    assert wire.aborted == [True]
    connection.connection_lost(None)


async def test_a_connection_of_a_client_ends_although_its_server_reads_nothing(world: SimulatedWorld) -> None:
    servers: list[Recorder] = []

    def accept() -> Recorder:
        servers.append(Recorder())
        return servers[-1]

    listener = await world.machine("server", HOST).network.listen(accept, HOST, 10_911)
    lost: list[str] = []
    pool = ConnectionPool(world.machine("client"), lost=lambda address, connection: lost.append(address))
    connection = await pool.connection(f"{HOST}:10911")
    await world.run_for(seconds=1)
    servers[0].transport.pause_reading()
    for _ in range(20_000):
        await pool.tell(f"{HOST}:10911", GetMaxOffset("t" * 100, 0))
    connection.close()
    await world.run_for(seconds=CLOSING_MS_MAX / 1_000 - 1)
    assert lost == []
    await world.run_for(seconds=2)
    assert lost == [f"{HOST}:10911"]
    servers[0].transport.abort()
    await pool.close()
    await listener.close()
