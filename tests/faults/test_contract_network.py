"""What the network seam promises, kept by the real network and by the simulated one."""

import asyncio
import select

import pytest

from tests.faults.conftest import Stand
from tests.faults.recorder import LOOPBACK, Recorder, connect, join, listen, part


async def test_a_connection_carries_bytes_both_ways_in_order(stand: Stand) -> None:
    near, far, doorman = await join(stand.machine, stand.other)
    far.echoes = True
    for number in range(200):
        near.transport.write(b"%05d" % number)
    near.transport.writelines([b"end", b"", b"!"])
    await near.until_received(200 * 5 + 4)
    assert near.received == far.received == b"".join(b"%05d" % number for number in range(200)) + b"end!"
    await part(near, far, doorman)


async def test_connection_made_comes_before_connect_returns(stand: Stand) -> None:
    doorman = await listen(stand.other)
    near = await connect(stand.machine, LOOPBACK, doorman.listener.port)
    assert near.events == ["made"]
    await part(near, await doorman.first_guest(), doorman)


async def test_both_sides_know_both_addresses(stand: Stand) -> None:
    near, far, doorman = await join(stand.machine, stand.other)
    port = doorman.listener.port
    assert near.transport.get_extra_info("peername")[:2] == (LOOPBACK, port)
    assert far.transport.get_extra_info("sockname")[:2] == (LOOPBACK, port)
    assert near.transport.get_extra_info("sockname")[:2] == far.transport.get_extra_info("peername")[:2]
    assert near.transport.get_extra_info("no such thing", "nothing") == "nothing"
    await part(near, far, doorman)


async def test_port_0_gives_each_listener_a_free_port(stand: Stand) -> None:
    doormen = [await listen(stand.machine) for _ in range(3)]
    ports = {doorman.listener.port for doorman in doormen}
    assert len(ports) == 3
    assert 0 not in ports
    assert {doorman.listener.host for doorman in doormen} == {LOOPBACK}
    for doorman in doormen:
        await doorman.listener.close()


async def test_a_port_in_use_is_an_error_that_names_it(stand: Stand) -> None:
    doorman = await listen(stand.machine)
    with pytest.raises(OSError, match=f"{LOOPBACK}:{doorman.listener.port}: "):
        await listen(stand.other, port=doorman.listener.port)
    await doorman.listener.close()


async def test_a_listener_everywhere_takes_the_port_and_is_reached_by_loopback(stand: Stand) -> None:
    doorman = await listen(stand.machine, "0.0.0.0")
    assert doorman.listener.host == "0.0.0.0"
    near = await connect(stand.other, "localhost", doorman.listener.port)
    await part(near, await doorman.first_guest(), doorman)


async def test_an_address_of_another_machine_cannot_be_listened_at(stand: Stand) -> None:
    with pytest.raises(OSError, match=r"192\.0\.2\.77:0: Cannot assign"):
        await listen(stand.machine, "192.0.2.77")


async def test_no_listener_is_a_refused_connection_that_names_the_place(stand: Stand) -> None:
    doorman = await listen(stand.other)
    await doorman.listener.close()
    with pytest.raises(ConnectionRefusedError, match=f"{LOOPBACK}:{doorman.listener.port}: "):
        await connect(stand.machine, LOOPBACK, doorman.listener.port)


async def test_a_closed_listener_frees_its_port_and_keeps_its_connections(stand: Stand) -> None:
    near, far, doorman = await join(stand.machine, stand.other)
    await doorman.listener.close()
    again = await listen(stand.other, port=doorman.listener.port)
    far.transport.write(b"still here")
    await near.until_received(10)
    await part(near, far, again)
    await doorman.listener.close()


async def test_closing_sends_what_was_written_first(stand: Stand) -> None:
    near, far, doorman = await join(stand.machine, stand.other)
    data = bytes(range(256)) * 20_000
    near.transport.write(data)
    near.transport.close()
    assert near.transport.is_closing()
    near.transport.write(b"too late")
    await far.until_event("lost")
    assert far.received.removesuffix(b"too late") == data
    assert far.events == ["made", "eof", "lost"]
    assert far.error is None
    assert near.error is None
    await doorman.listener.close()


async def test_the_end_is_reported_once_and_later_than_close(stand: Stand) -> None:
    near, far, doorman = await join(stand.machine, stand.other)
    near.transport.close()
    near.transport.close()
    assert "lost" not in near.events
    await part(near, far, doorman)
    near.transport.abort()
    near.transport.write(b"nobody hears")
    assert near.events.count("lost") == far.events.count("lost") == 1


async def test_abort_gives_up_what_was_not_sent(stand: Stand) -> None:
    near, far, doorman = await join(stand.machine, stand.other)
    far.transport.pause_reading()
    near.transport.write(bytes(50_000_000))
    near.transport.abort()
    await near.until_event("lost")
    assert near.error is None
    far.transport.resume_reading()
    await far.until_event("lost")
    assert len(far.received) < 50_000_000
    await doorman.listener.close()


def has_unread(side: Recorder) -> bool:
    """Tell whether the system has bytes for a connection; of a simulated one it isn't known."""
    sock = side.transport.get_extra_info("socket")
    return sock is None or bool(select.select([sock], [], [], 0)[0])


async def test_closing_with_unread_bytes_resets_the_connection(stand: Stand) -> None:
    near, far, doorman = await join(stand.machine, stand.other)
    far.transport.pause_reading()
    near.transport.write(b"never read")
    await asyncio.sleep(0.02)  # house: for the bytes to arrive; they cause no event
    while not has_unread(far):  # noqa: ASYNC110 (no event tells it)
        await asyncio.sleep(0)
    far.transport.close()
    await near.until_event("lost")
    assert isinstance(near.error, ConnectionResetError)
    await doorman.listener.close()


async def test_a_reader_that_pauses_stops_the_writer(stand: Stand) -> None:
    near, far, doorman = await join(stand.machine, stand.other)
    far.transport.pause_reading()
    near.transport.set_write_buffer_limits(high=100_000, low=1_000)
    written = 0
    async with asyncio.timeout(60):
        while "paused" not in near.events:
            near.transport.write(bytes(64 * 1024))
            written += 64 * 1024
            await asyncio.sleep(0)
    assert near.transport.get_write_buffer_size() > 100_000
    assert far.received == b""
    far.transport.resume_reading()
    await near.until_event("resumed")
    assert near.transport.get_write_buffer_size() <= 1_000
    await far.until_received(written)
    assert near.events == ["made", "paused", "resumed"]
    await part(near, far, doorman)


async def test_nothing_is_received_while_reading_is_paused(stand: Stand) -> None:
    near, far, doorman = await join(stand.machine, stand.other)
    assert far.transport.is_reading()
    far.transport.pause_reading()
    assert not far.transport.is_reading()
    near.transport.write(b"later")
    await asyncio.sleep(0.02)  # house: nothing is to happen meanwhile
    assert far.received == b""
    far.transport.resume_reading()
    await far.until_received(5)
    await part(near, far, doorman)


async def test_a_buffer_may_be_changed_after_it_was_written(stand: Stand) -> None:
    near, far, doorman = await join(stand.machine, stand.other)
    buffer = bytearray(b"before")
    near.transport.write(buffer)
    near.transport.write(memoryview(b"[view]"))
    buffer[:] = b"after!"
    await far.until_received(12)
    assert far.received == b"before[view]"
    with pytest.raises(TypeError):
        near.transport.write("text")  # type: ignore[arg-type]
    await part(near, far, doorman)


async def test_a_protocol_that_fails_loses_its_connection_with_its_error(stand: Stand) -> None:
    failures: list[object] = []
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
    near, far, doorman = await join(stand.machine, stand.other)

    def fail(data: bytes) -> None:
        raise ValueError("bad bytes")

    far.data_received = fail  # type: ignore[method-assign]
    near.transport.write(b"?")
    await far.until_event("lost")
    assert isinstance(far.error, ValueError)
    await near.until_event("lost")
    assert list(map(str, failures)) == ["bad bytes"]
    loop.set_exception_handler(before)
    await doorman.listener.close()
