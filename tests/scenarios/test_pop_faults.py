"""Popped messages when the disk fails and the broker dies: what isn't acknowledged comes again, what is doesn't."""

import asyncio
import errno
from collections import Counter
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
import pytest_asyncio

from staticfire.broker.pop import recovery
from staticfire.broker.pop.pop_log import RECORD_BYTES_MAX
from staticfire.protocol.errors import NetworkError
from staticfire.protocol.requests.reset import Reset
from staticfire.simulation.world.world import SimulatedWorld
from tests.cases import first_and_slow
from tests.scenarios.broker_stand import NAME, BrokerStand, text
from tests.scenarios.holes import drop
from tests.scenarios.popping import INVISIBLE_MS, Popper, handles, offsets

pytestmark = pytest.mark.row("G1")

UNAVAILABLE = 14
REVIVE_LOG = "rmq_sys_REVIVE_LOG_DefaultCluster"


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[BrokerStand]:
    stand = BrokerStand(world)
    await stand.start()
    await stand.put_topic("orders", 1)
    yield stand
    await stand.close()


@pytest.fixture
def popper(stand: BrokerStand) -> Popper:
    return Popper(stand)


async def send(stand: BrokerStand, count: int) -> None:
    for index in range(count):
        await stand.send("orders", b"%d" % index)


def fail_log(stand: BrokerStand, from_write: int) -> None:
    """Let every write to the commit log fail, from that one on."""
    writes = 0

    def fail(what: str, path: str) -> None:
        nonlocal writes
        if what == "write" and "commitlog" in path:
            writes += 1
            if writes > from_write:
                raise OSError(errno.EIO, "Input/output error")

    stand.world.disk(NAME).before = fail


async def drained(world: SimulatedWorld, popper: Popper, seconds: int = 40, **fields: Any) -> Counter[bytes]:
    """Pop and acknowledge for so long; return how often each message came."""
    came: Counter[bytes] = Counter()
    for _ in range(seconds):
        answer = await popper.pop(**fields)
        if answer.code == 0:
            came.update(record.body for record in answer.body.records)
            await popper.ack_all(answer)
        await world.run_for(1_000)
    return came


async def consume(world: SimulatedWorld, popper: Popper) -> set[bytes]:
    """Take four messages, acknowledge one, hide one for longer, let two come again, of which one is acknowledged.

    Return what is acknowledged for good. Failures are the disk's.
    """
    done: set[bytes] = set()
    answer = await popper.pop(invisible_ms=1_000)
    if answer.code == 0:
        reported = handles(answer)
        if (await popper.ack(0, reported[0])).code == 0:
            done.add(b"0")
        await popper.change(1, reported[1], 20_000)
    await world.run_for(1_500)
    answer = await popper.pop(invisible_ms=5_000)
    if answer.code == 0:
        for record, handle in zip(answer.body.records, handles(answer), strict=True):
            topic = "orders" if text(record, "POP_CK") is None else "%RETRY%billing_orders"
            if record.body == b"2" and (await popper.ack(record.queue_offset, handle, 0, topic)).code == 0:
                done.add(b"2")
    return done


@pytest.mark.parametrize("writes", range(8))
@pytest.mark.parametrize("how", ["kill", "power", "heal"])
async def test_each_step_happens_as_a_whole_or_not_at_all(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper, writes: int, how: str
) -> None:
    await send(stand, 4)
    await world.run_for(2_000)
    fail_log(stand, writes)
    done = await consume(world, popper)
    world.disk(NAME).before = None
    if how == "heal":
        await world.run_for(200)
    else:
        await stand.kill_and_start(power_loss=how == "power")
    came = await drained(world, popper)
    assert set(came) | done == {b"0", b"1", b"2", b"3"}
    if how != "power":  # without power, what was only written may be gone: the message comes again
        assert not done & set(came)
        assert set(came.values()) == {1}


@pytest.mark.parametrize("order", [False, True])
async def test_what_takes_the_offset_of_a_lost_message_is_popped_once(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper, order: bool
) -> None:
    """A failed fsync has dropped the queue's last message; what the log says of its pop is whole."""
    await send(stand, 2)
    await world.run_for(2_000)
    world.disk(NAME).before = lambda what, path: _fail() if what == "sync" and "commitlog" in path else None
    await stand.send("orders", b"lost")
    await stand.send("bills", b"kept")
    answer = await popper.pop(order=order)
    assert offsets(answer) == [0, 1, 2]
    if order:
        assert (await popper.ack(2, handles(answer)[2])).code == 0
    world.kill(NAME)
    world.disk(NAME).before = None
    drop(world, b"lost", b"kept")
    await stand.start()
    assert await popper.committed() == (0 if order else 2)
    assert (await stand.send("orders", b"new")).queue_offset == 2
    await stand.kill_and_start()
    for offset in range(2 if order else 0):
        assert (await popper.ack(offset, handles(answer)[offset])).code == 0
    assert await drained(world, popper, order=order) == ({b"new": 1} if order else {b"0": 1, b"1": 1, b"new": 1})


def _fail() -> None:
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("seed", first_and_slow(range(4)))
async def test_a_life_of_kills(world: SimulatedWorld, stand: BrokerStand, popper: Popper, seed: int) -> None:
    """Whatever is acknowledged in time never comes again; all else comes, in the end."""
    chance, number = Random(seed), 0
    done: set[bytes] = set()
    await stand.restart(mapped_file_size_commit_log=64 * 1024)
    for _ in range(60):
        for _ in range(chance.randrange(4)):
            await stand.send("orders", b"%d" % number)
            number += 1
        answer = await popper.pop(-1, chance.randrange(1, 8), chance.choice([500, 2_000, 5_000]))
        records = [] if answer.code else answer.body.records
        assert not done & {record.body for record in records}
        for record, handle in zip(records, handles(answer) if records else [], strict=True):
            topic = "orders" if text(record, "POP_CK") is None else "%RETRY%billing_orders"
            what = chance.random()
            if what < 0.5 and (await popper.ack(record.queue_offset, handle, 0, topic)).code == 0:
                done.add(record.body)
            elif what < 0.7:
                await popper.change(record.queue_offset, handle, chance.choice([300, 3_000]), 0, topic)
        await world.run_for(chance.randrange(1_000))
        if chance.random() < 0.2:
            await stand.kill_and_start(torn=True)
    came = await drained(world, popper, 20)
    assert not done & set(came)
    assert len(done | set(came)) == number


@pytest.mark.parametrize("killed", [False, True])
async def test_what_can_not_be_noted_is_not_handed_out(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper, killed: bool
) -> None:
    await send(stand, 3)
    reported = handles(await popper.pop(count=1))
    fail_log(stand, 0)
    answer = await popper.pop()
    assert (answer.code, "no message is delivered, because it can't be recorded" in answer.remark) == (
        UNAVAILABLE,
        True,
    )
    assert (await popper.committed(), (await popper.ack(0, reported[0])).code) == (1, UNAVAILABLE)
    assert (await popper.change(0, reported[0], 60_000)).code == UNAVAILABLE
    world.disk(NAME).before = None
    if killed:
        await stand.kill_and_start()
    assert await popper.bodies() == [b"1", b"2"]
    await world.run_for(INVISIBLE_MS + 200)
    assert await popper.bodies() == [b"0", b"1", b"2"]


async def test_a_full_disk_refuses_in_words(world: SimulatedWorld, stand: BrokerStand, popper: Popper) -> None:
    await send(stand, 2)
    reported = handles(await popper.pop(count=1))
    disk = world.disk(NAME)
    disk.others_bytes = disk.total_bytes * 95 // 100
    await world.run_for(11_000)
    for answer in (await popper.pop(), await popper.ack(0, reported[0]), await popper.change(0, reported[0], 1_000)):
        assert (answer.code, "disk" in (answer.remark or "")) == (UNAVAILABLE, True)
    disk.others_bytes = 0
    await world.run_for(11_000)
    assert sorted(await popper.bodies()) == [b"0", b"1"]


async def test_a_later_report_replaces_the_former_one(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a round, a start reads no event that was before it."""
    monkeypatch.setattr(recovery, "ROUND_EVENTS_MIN", 20)
    await send(stand, 3)
    reported = handles(await popper.pop(count=2, invisible_ms=60_000))
    await popper.ack(0, reported[0])
    await popper.pop(order=True, count=1, invisible_ms=60_000)
    for number in range(40):
        await stand.send("orders", b"more %d" % number)
    other = Popper(stand, "shipping")
    for _ in range(43):
        await other.ack_all(await other.pop(count=1))
        await world.run_for(100)
    await world.run_for(2_000)
    end = stand.broker.state.store.queue(REVIVE_LOG, 0).max_offset
    await stand.kill_and_start()
    service = stand.broker.pops.service
    assert service is not None
    assert service.log.low_water > end - 60
    assert (await popper.pop(order=True)).code == 210
    await world.run_for(60_000)
    came = [body for _ in range(3) for body in await popper.bodies()]
    assert b"1" in came
    assert b"0" not in came


async def test_a_burst_of_acknowledgements_is_more_than_one_record(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper
) -> None:
    await send(stand, 320)
    answers = [await popper.pop() for _ in range(10)]
    pairs = [pair for answer in answers for pair in zip(offsets(answer), handles(answer), strict=True)]
    done = await asyncio.gather(*(popper.ack(offset, handle) for offset, handle in pairs[:-1]))
    assert {answer.code for answer in done} == {0}
    (record, *_) = await stand.stored(REVIVE_LOG)
    assert len(record.body) < RECORD_BYTES_MAX + 1_000
    await stand.kill_and_start()
    assert await drained(world, popper, 12) == Counter({b"319": 1})


async def test_a_damaged_event_costs_only_itself(world: SimulatedWorld, stand: BrokerStand, popper: Popper) -> None:
    await send(stand, 4)
    for _ in range(4):
        await popper.pop(count=1)
    store = stand.broker.state.store
    entry = store.entries(store.queue(REVIVE_LOG, 0), 1, 1)[0]
    await world.run_for(2_000)
    await world.stop(NAME)
    disk = world.disk(NAME)
    (path,) = [path for path in disk.files if "/commitlog/" in path]
    inode = disk.files[path]
    inode.content[entry.log_position + entry.record_bytes - 1] ^= 0xFF
    await stand.start()
    came = await drained(world, popper, 15)
    assert {b"0", b"2", b"3"} <= set(came)


async def test_a_client_that_goes_in_the_middle_loses_nothing(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper
) -> None:
    await send(stand, 2)
    popping: asyncio.Future[Any] = asyncio.ensure_future(popper.pop())
    await asyncio.sleep(0)
    world.kill(NAME)
    with pytest.raises(NetworkError):
        await popping
    await stand.start()
    assert sum((await drained(world, popper, 15)).values()) == 2


async def test_a_group_that_a_kill_left_without_configuration_keeps_what_it_has(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    await send(stand, 2)
    world.disk(NAME).sync_ms = 1_000  # its file isn't written before the kill
    new = Popper(stand, "new")
    assert await new.bodies(invisible_ms=1_000) == [b"0", b"1"]
    await stand.kill_and_start()
    await world.run_for(1_100)
    assert await new.bodies() == [b"0", b"1"]


async def test_a_reset_broker_knows_nothing_of_pops(world: SimulatedWorld, stand: BrokerStand, popper: Popper) -> None:
    await send(stand, 3)
    await popper.pop(invisible_ms=1_000)
    await popper.pop(order=True)
    assert (await stand.ask(Reset())).code == 0
    await stand.put_topic("orders", 1)
    await stand.send("orders", b"new")
    await world.run_for(2_000)
    assert await popper.bodies() == [b"new"]
    await stand.kill_and_start()
    await world.run_for(INVISIBLE_MS + 200)
    assert await popper.bodies() == [b"new"]
