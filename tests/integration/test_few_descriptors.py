"""A broker process is out of file descriptors, and then it isn't."""

import asyncio
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from staticfire.cluster.cluster import Cluster
from staticfire.protocol.codecs import NATIVE
from staticfire.protocol.codes import ResponseCode
from staticfire.runtime.addresses import parse_address
from tests.integration.fuzzing import places_of
from tests.integration.stand import Sender, connected, read_topic

SEGMENT_BYTES = 256 * 1024
BODY_BYTES = 8 * 1024
FLOOD = 150
LOOKS = 50


@contextmanager
def descriptor_limit(pid: int, limit: int) -> Iterator[None]:
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    yield
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def used_by(pid: int) -> int:
    """Return how many descriptors it keeps: the fewest that several looks find. It opens files for moments, too."""
    return min(len(os.listdir(f"/proc/{pid}/fd")) for _ in range(LOOKS))


def flood(address: str) -> list[socket.socket]:
    return [socket.create_connection(parse_address(address)) for _ in range(FLOOD)]


def was_closed(sock: socket.socket) -> bool:
    """Wait until the other side closes it."""
    sock.settimeout(60)
    with suppress(ConnectionResetError):
        return sock.recv(1) == b""
    return True


async def send_segments(sender: Sender, connection: object, windows: int = 6) -> None:
    """Send more than a segment holds, so that there has to be a new file."""
    for _ in range(windows):
        assert await sender.send_window(connection, 16)  # type: ignore[arg-type]
    assert set(sender.codes) == {ResponseCode.SUCCESS}


async def test_a_flood_of_connections_leaves_descriptors_for_files(capfd: pytest.CaptureFixture[str]) -> None:
    with Cluster(isolation="process", settings={"mappedFileSizeCommitLog": SEGMENT_BYTES}) as cluster:
        broker, pid = cluster.broker("broker-a"), places_of(cluster)["broker-a"]["pid"]
        sender = Sender("few", "orders", BODY_BYTES)
        async with connected(broker.address, NATIVE) as connection:
            with descriptor_limit(pid, 64):
                await sender.send_window(connection, 8)
                socks = flood(broker.address)
                assert was_closed(socks[-1])
                assert used_by(pid) < 64
                await send_segments(sender, connection)
            for sock in socks:
                sock.close()
            async with connected(broker.address, NATIVE) as another:
                await send_segments(sender, another)
        stored = await asyncio.to_thread(read_topic, cluster, "orders")
        assert sorted(stored.bodies) == sorted(sender.acknowledged)
        assert cluster.deaths == []
    reported(capfd)


@pytest.mark.parametrize("program", ["broker-a", "nameserver"])
async def test_a_process_without_any_descriptor_turns_everybody_away_and_lives(
    program: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with Cluster(isolation="process") as cluster:
        broker, place = cluster.broker("broker-a"), places_of(cluster)[program]
        address = broker.address if program == "broker-a" else cluster.namesrv
        sender = Sender("none", "orders", BODY_BYTES)
        async with connected(broker.address, NATIVE) as connection:
            await sender.send_window(connection, 8)
            with descriptor_limit(place["pid"], used_by(place["pid"])):
                socks = flood(address)
                assert all(map(was_closed, socks))
                assert await sender.send_window(connection, 16)
        for sock in socks:
            sock.close()
        async with connected(broker.address, NATIVE) as another:
            assert await sender.send_window(another, 16)
        stored = await asyncio.to_thread(read_topic, cluster, "orders")
        assert sorted(stored.bodies) == sorted(sender.acknowledged)
        assert cluster.deaths == []
    reported(capfd)


def reported(capfd: pytest.CaptureFixture[str]) -> None:
    """One line says it, and which way out there is."""
    lines = capfd.readouterr().err
    assert lines.count("out_of_file_descriptors") == 1, lines
    assert "ulimit -n" in lines
    assert "Traceback" not in lines
