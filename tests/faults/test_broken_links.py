"""Links that are slow, cut, or carry bytes in pieces."""

import asyncio

import pytest

from staticfire.simulation.world import LinkQuality, SimulatedWorld
from tests.faults.recorder import Recorder, connect, join, listen, part

A, B = "10.0.0.1", "10.0.0.2"


async def join_hosts(world: SimulatedWorld) -> tuple[Recorder, Recorder]:
    near, far, doorman = await join(world.machine("a", host=A), world.machine("b", host=B), B)
    await doorman.listener.close()
    return near, far


async def close(near: Recorder, far: Recorder) -> None:
    near.transport.close()
    await near.until_event("lost")
    await far.until_event("lost")


async def test_bytes_take_a_tenth_of_a_millisecond(world: SimulatedWorld) -> None:
    near, far = await join_hosts(world)
    sent_ns = world.loop.uptime_ns
    near.transport.write(b"x")
    await far.until_received(1)
    assert world.loop.uptime_ns - sent_ns == 100_000
    await close(near, far)


async def test_a_link_can_be_slow(world: SimulatedWorld) -> None:
    near, far = await join_hosts(world)
    world.set_link("a", "b", LinkQuality(delay_ms=250))
    sent_ms = world.uptime_ms
    far.echoes = True
    near.transport.write(b"x")
    await near.until_received(1)
    assert world.uptime_ms - sent_ms == 500
    await close(near, far)


@pytest.mark.parametrize(
    "world",
    [{"seed": seed, "quality": LinkQuality(jitter_ms=50, fragments=True, window_bytes=10_000)} for seed in range(3)],
    indirect=True,
    ids=str,
)
async def test_order_is_kept_through_jitter_pieces_and_small_windows(world: SimulatedWorld) -> None:
    near, far = await join_hosts(world)
    sent = b""
    for _ in range(50):
        data = world.random.randbytes(world.random.randint(1, 5_000))
        near.transport.write(data)
        sent += data
        await world.run_for(ms=world.random.random() * 20)
    await far.until_received(len(sent))
    assert far.received == sent
    assert len(far.pieces) > 100
    await close(near, far)


async def test_a_partition_is_silence_until_it_is_healed(world: SimulatedWorld) -> None:
    near, far = await join_hosts(world)
    near.transport.write(b"under way ")
    world.partition("a", "b")
    near.transport.write(b"meanwhile ")
    far.transport.write(b"answer")
    await world.run_for(hours=1)
    assert (near.received, far.received) == (b"", b"")
    assert near.events == far.events == ["made"]
    world.heal("a", "b")
    near.transport.write(b"afterwards")
    await far.until_received(30)
    await near.until_received(6)
    assert far.received == b"under way meanwhile afterwards"
    await close(near, far)


async def test_a_partition_can_have_one_direction(world: SimulatedWorld) -> None:
    near, far = await join_hosts(world)
    world.partition("a", "b", one_way=True)
    near.transport.write(b"unheard")
    far.transport.write(b"heard")
    await near.until_received(5)
    await world.run_for(minutes=1)
    assert far.received == b""
    world.heal("a")
    await far.until_received(7)
    await close(near, far)


async def test_connecting_through_a_partition_gets_no_answer(world: SimulatedWorld) -> None:
    a, b = world.machine("a", host=A), world.machine("b", host=B)
    doorman = await listen(b, B, 9876)
    world.partition("a", "b")
    with pytest.raises(TimeoutError, match=r"10\.0\.0\.2:9876: no response within 3000 ms"):
        await connect(a, B, 9876, timeout_ms=3_000)
    await doorman.listener.close()
    with pytest.raises(TimeoutError):  # it can't be told that nobody listens there
        await connect(a, B, 9876, timeout_ms=3_000)
    world.heal("a", "b")
    await world.run_for(seconds=1)
    assert doorman.guests == []


async def test_connecting_continues_when_the_partition_is_healed_in_time(world: SimulatedWorld) -> None:
    a, b = world.machine("a", host=A), world.machine("b", host=B)
    doorman = await listen(b, B, 9876)
    world.partition("a", "b")
    connecting = asyncio.create_task(connect(a, B, 9876, timeout_ms=3_000))
    await world.run_for(seconds=2)
    world.heal("a", "b")
    near = await connecting
    await part(near, await doorman.first_guest(), doorman)


async def test_an_isolated_machine_reaches_no_other(world: SimulatedWorld) -> None:
    near, far = await join_hosts(world)
    third, fourth, doorman = await join(world.machine("c", host="10.0.0.3"), world.machine("a"), A)
    world.isolate("a")
    for end in (near, far, third, fourth):
        end.transport.write(b"?")
    await world.run_for(minutes=1)
    assert [end.received for end in (near, far, third, fourth)] == [b""] * 4
    world.heal("a")
    await world.run_for(minutes=1)
    assert [end.received for end in (near, far, third, fourth)] == [b"?"] * 4
    await close(near, far)
    await part(third, fourth, doorman)


async def test_a_kill_behind_a_partition_is_learnt_when_it_is_healed(world: SimulatedWorld) -> None:
    near, _ = await join_hosts(world)
    world.partition("a", "b")
    world.kill("b")
    await world.run_for(minutes=10)
    assert near.events == ["made"]
    world.heal("a", "b")
    await near.until_event("lost")
    assert isinstance(near.error, ConnectionResetError)


async def test_a_partition_fills_the_writers_buffer(world: SimulatedWorld) -> None:
    near, far = await join_hosts(world)
    world.partition("a", "b")
    for _ in range(100):
        near.transport.write(bytes(10_000))
    assert near.events == ["made", "paused"]
    world.heal("a", "b")
    await near.until_event("resumed")
    await far.until_received(1_000_000)
    await close(near, far)


async def test_a_write_to_a_lost_connection_fails_at_once_a_wait_does_not(world: SimulatedWorld) -> None:
    near, _ = await join_hosts(world)
    near.transport.pause_reading()
    world.kill("b")
    await world.run_for(minutes=1)
    assert near.events == ["made"]
    near.transport.write(b"anybody?")
    await near.until_event("lost")
    assert isinstance(near.error, ConnectionResetError)


async def test_connections_that_waited_for_descriptors_are_accepted_in_their_order(world: SimulatedWorld) -> None:
    """What a client sent before it gave up is read before what it sends later: an old request never comes last."""
    near, far = world.machine("a", host=A), world.machine("b", host=B)
    doorman = await listen(far, B)
    world.network.full.add("b")
    callers: list[Recorder] = []
    for number in range(5):
        callers.append(await connect(near, B, doorman.listener.port))
        callers[-1].transport.write(b"%d" % number)
        callers[-1].transport.close()
        await world.run_for(ms=300)
    assert doorman.guests == []
    world.network.full.discard("b")
    callers.append(await connect(near, B, doorman.listener.port))
    callers[-1].transport.write(b"5")
    await world.run_for(seconds=2)
    assert [guest.received for guest in doorman.guests] == [b"%d" % number for number in range(6)]
    await close(callers[-1], doorman.guests[-1])
    await doorman.listener.close()
