"""What a broker has saved beside its log never says more than the log has left."""

import errno
import re

import msgspec
import pytest

from staticfire.protocol.requests.clock import ClockReading
from staticfire.protocol.requests.offsets import QueryConsumerOffset, UpdateConsumerOffset
from staticfire.protocol.requests.reset import Reset
from staticfire.protocol.requests.topics import DeleteTopic
from staticfire.protocol.requests.upkeep import DeleteExpired
from staticfire.protocol.times import MessageMs
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.broker_stand import NAME, BrokerStand
from tests.scenarios.holes import drop

OFFSETS = "/store/config/consumerOffset.json"


async def commit(stand: BrokerStand, offset: int) -> None:
    assert (await stand.ask(UpdateConsumerOffset("billing", "orders", 0, offset))).code == 0


async def committed(stand: BrokerStand) -> int:
    answer = await stand.ask(QueryConsumerOffset("billing", "orders", 0, False))
    return int(answer.offset) if answer.code == 0 else -1


async def stand_of(world: SimulatedWorld, **settings: int | str) -> BrokerStand:
    stand = BrokerStand(world)
    await stand.start(**settings)
    await stand.put_topic("orders", 1)
    await stand.put_group("billing")
    return stand


async def test_offsets_are_saved_when_their_messages_are_safe(world: SimulatedWorld) -> None:
    """The log is synced once a minute here: a group's offset is older than that, or its messages are there."""
    stand = await stand_of(world, flush_interval_commit_log=60_000, flush_interval_consume_queue=60_000)
    for number in range(20):
        await stand.send("orders", b"%d" % number)
        await commit(stand, number + 1)
        await world.run_for(seconds=1)
    await stand.kill_and_start(power_loss=True)
    messages = await stand.bodies("orders")
    assert await committed(stand) <= len(messages)
    assert await committed(stand) >= 10
    await stand.close()


async def test_offsets_are_not_saved_while_the_log_can_not_be_synced(world: SimulatedWorld) -> None:
    stand = await stand_of(world)
    await stand.send("orders", b"safe")
    await commit(stand, 1)
    await world.run_for(seconds=20)

    def fail(what: str, path: str) -> None:
        if what == "sync" and "commitlog" in path:
            raise OSError(errno.EIO, "Input/output error")

    world.disk(NAME).before = fail
    await stand.send("orders", b"not safe")
    await commit(stand, 2)
    await world.run_for(seconds=60)
    world.disk(NAME).before = None
    await stand.kill_and_start(power_loss=True)
    assert await stand.bodies("orders") == [b"safe"]
    assert await committed(stand) == 1
    await stand.close()


async def damaged(world: SimulatedWorld) -> BrokerStand:
    """A broker that was killed with three messages in its log, all consumed, of which a part was cut off then."""
    stand = await stand_of(world)
    for number in range(3):
        await stand.send("orders", b"%d" % number)
    await commit(stand, 3)
    await world.run_for(seconds=20)
    world.kill(NAME)
    file = world.machine(NAME).files.open("/store/commitlog/00000000000000000000")
    file.truncate(200)
    file.close()
    return stand


async def test_offsets_stay_and_continue_when_the_log_has_lost_its_end(world: SimulatedWorld) -> None:
    stand = await damaged(world)
    await stand.start()
    for number in range(2):
        assert await committed(stand) == 3
        answer = await stand.send("orders", b"new")
        assert answer.queue_offset == 3 + number
        await stand.kill_and_start()


async def test_offsets_behind_the_end_of_a_damaged_log_are_taken_back_for_good(world: SimulatedWorld) -> None:
    """Nobody knows any more where the queue ended."""
    stand = await damaged(world)
    for name in ("queueEnds", "checkpoint"):
        world.machine(NAME).files.remove(f"/store/{name}")
    await stand.start()
    left = len(await stand.bodies("orders"))
    assert left < 3
    assert await committed(stand) == left
    saved = msgspec.json.decode(world.machine(NAME).files.read_bytes(OFFSETS))
    assert saved["offsetTable"] == {"orders@billing": {"0": left}}
    await stand.send("orders", b"new")
    await stand.kill_and_start()
    assert await committed(stand) == left
    await stand.close()


@pytest.mark.parametrize("its_records_are_removed", [False, True])
async def test_a_kill_after_a_topic_was_deleted_leaves_no_offset_of_it(
    world: SimulatedWorld, its_records_are_removed: bool
) -> None:
    stand = await stand_of(world, mapped_file_size_commit_log=16 * 1024, file_reserved_time=0)
    for number in range(3):
        await stand.send("orders", b"%d" % number)
    await commit(stand, 3)
    await world.run_for(seconds=20)

    def fail(what: str, path: str) -> None:
        if path == OFFSETS:
            raise OSError(errno.EIO, "Input/output error")

    world.disk(NAME).before = fail
    await stand.ask(DeleteTopic("orders"))
    if its_records_are_removed:
        await stand.put_topic("bills", 1)
        for _ in range(10):
            await stand.send("bills", bytes(4_000))
        await world.run_for(seconds=2)
        await stand.ask(DeleteExpired())
        assert stand.broker.state.store.min_position > 0
    world.disk(NAME).before = None
    await stand.kill_and_start()
    await stand.put_topic("orders", 1)
    await stand.send("orders", b"first of the new ones")
    assert await committed(stand) == -1
    await stand.close()


@pytest.mark.parametrize("step", ["sync", "sync names"])
async def test_a_deletion_that_fails_halfway_can_be_tried_again(world: SimulatedWorld, step: str) -> None:
    """Either nothing has happened, or all of it has and only its safety is in doubt."""
    stand = await stand_of(world)
    for number in range(3):
        await stand.send("orders", b"%d" % number)
    await commit(stand, 3)
    await world.run_for(seconds=20)
    fail_once(world, step, "/store/deletedTopics" if step == "sync" else "/store")
    assert (await stand.ask(DeleteTopic("orders"))).code != 0
    is_there = step == "sync"
    for _ in range(2):
        await stand.put_topic("orders", 1)
        assert await stand.bodies("orders") == ([b"0", b"1", b"2"] if is_there else [])
        assert await committed(stand) == (3 if is_there else -1)
        await stand.kill_and_start()
    assert (await stand.ask(DeleteTopic("orders"))).code == 0
    await stand.put_topic("orders", 1)
    assert await stand.bodies("orders") == []
    await stand.close()


@pytest.mark.parametrize("step", ["sync", "sync names"])
async def test_delays_continue_after_a_reset_that_fails(world: SimulatedWorld, step: str) -> None:
    """All is as it was, or gone, and the delay service knows which: it doesn't wait for messages that never come."""
    stand = await stand_of(world)
    for number in range(3):
        await stand.send("orders", b"old %d" % number, DELAY="1")
    await world.run_for(seconds=2)
    await stand.send("orders", b"waits", DELAY="2")
    delivered = await stand.bodies("orders")
    assert delivered == [b"old 0", b"old 1", b"old 2"]
    fail_once(world, step, "/store/deletedTopics" if step == "sync" else "/store")
    assert (await stand.ask(Reset())).code != 0
    await stand.put_topic("orders", 1)
    await stand.send("orders", b"new", DELAY="2")
    await world.run_for(seconds=6)
    assert await stand.bodies("orders") == [*([*delivered, b"waits"] if step == "sync" else []), b"new"]
    await stand.close()


def fail_once(world: SimulatedWorld, step: str, at: str) -> None:
    """Let one step of the disk fail."""

    def before(what: str, path: str) -> None:
        if (what, path) == (step, at):
            world.disk(NAME).before = None
            _fail(errno.EIO)

    world.disk(NAME).before = before


async def test_delays_after_a_reset_and_a_loss_of_power_are_counted_once(world: SimulatedWorld) -> None:
    """The reset says: all deliveries up to here are counted. Then the log loses its end, and grows beyond it again."""
    stand = await stand_of(world, flush_interval_commit_log=600_000, flush_interval_consume_queue=600_000)
    for number in range(20):
        await stand.send("orders", b"%d" % number * 100)
    world.disk(NAME).before = lambda what, path: _fail(errno.EIO) if what == "sync" and "commitlog" in path else None
    await stand.ask(Reset())
    await world.run_for(seconds=3)
    world.disk(NAME).before = None
    await stand.kill_and_start(power_loss=True)
    await stand.put_topic("orders", 1)
    await stand.send("orders", b"later", DELAY="1")
    await world.run_for(seconds=2)
    await stand.send("orders", b"later still", DELAY="9")
    for _ in range(3):
        await stand.kill_and_start()
        await world.run_for(seconds=1)
    assert await stand.bodies("orders") == [b"later"]
    await stand.close()


async def test_a_clock_that_was_just_set_does_not_keep_a_broker_from_starting(world: SimulatedWorld) -> None:
    stand = await stand_of(world)
    clock = stand.broker.state.clock
    clock.set(ClockReading(1, "frozen", 1.0, MessageMs(clock.message_ms() + 5_000)))
    await stand.put_topic("bills", 1)  # its file makes the names beside it safe, and not what is in them
    await stand.kill_and_start(power_loss=True)
    assert stand.broker.state.clock.stands
    await stand.close()


def _fail(number: int) -> None:
    raise OSError(number, "Input/output error")


async def test_a_delivery_that_a_hole_has_taken_is_made_again(world: SimulatedWorld) -> None:
    """The log lost what no fsync had covered, but not the delivery behind it, whose mark speaks for itself only."""
    stand = await stand_of(world)
    await stand.send("orders", b"first", DELAY="1")
    await stand.send("orders", b"second", DELAY="1")
    await world.run_for(seconds=0.9)
    world.disk(NAME).before = lambda what, path: _fail(errno.EIO) if what == "sync" and "commitlog" in path else None
    await world.run_for(seconds=0.6)
    log = "/store/commitlog/00000000000000000000"
    content = world.machine(NAME).files.read_bytes(log)
    deliveries = [found.start() for found in re.finditer(b"\xdc\x00\x11\xce", content)][2:]
    assert len(deliveries) == 2
    world.kill(NAME)
    world.disk(NAME).before = None
    file = world.machine(NAME).files.open(log)
    file.write(deliveries[0], bytes(deliveries[1] - deliveries[0]))
    file.close()
    await stand.start()
    await world.run_for(seconds=2)
    found = await stand.stored("orders", offset=1)
    assert [record.body for record in found] == [b"second", b"first"]
    await stand.close()


async def test_after_a_loss_of_power_the_log_ends_at_its_first_hole(world: SimulatedWorld) -> None:
    """A reader that got what is whole after it would pass over what is lost."""
    stand = await stand_of(world, flush_interval_commit_log=600_000, flush_interval_consume_queue=600_000)
    for number in range(8):
        await stand.send("orders", b"message %d " % number + b"." * 600)
    world.kill(NAME)
    drop(world, b"message 3 ", b"message 5 ")
    world.disk(NAME).power_losses += 1
    await stand.start()
    assert [body[:9] for body in await stand.bodies("orders")] == [b"message %d" % number for number in range(3)]
    for number in range(2):
        assert (await stand.send("orders", b"later")).queue_offset == 3 + number
    await stand.kill_and_start()
    assert len(await stand.bodies("orders")) == 5
    await stand.close()
