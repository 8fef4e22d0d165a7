"""In the background the store reaches the disk, and with SYNC_FLUSH one fsync answers all who wait."""

import pytest
from msgspec.structs import replace

from staticfire.broker.store.flusher import StoreFlusher
from staticfire.broker.store.log_sync import UnsyncedLost
from staticfire.broker.store.outcomes import PutOutcome
from staticfire.broker.store.settings import FlushDiskType, StoreSettings
from staticfire.protocol.errors import StorageError
from staticfire.runtime.machine import Machine
from staticfire.runtime.service import Service
from staticfire.simulation.world import SimulatedWorld
from staticfire.simulation.world.workers import RUN_MS
from tests.broker.store.stand import Sent, StoreStand, note

ASYNC = StoreSettings(segment_bytes_max=4096, queues_per_flush_max=2)
SYNC = replace(ASYNC, flush_disk_type=FlushDiskType.SYNC_FLUSH)


class Keeper(Service, StoreStand):
    """A process that has a store and nothing else."""

    def __init__(self, machine: Machine, settings: StoreSettings) -> None:
        Service.__init__(self)
        StoreStand.__init__(self, settings)
        self.machine = machine
        self.troubles: list[StorageError] = []

    async def _start(self) -> None:
        self.report = self.open_on(self.machine.files)
        self.flusher = StoreFlusher(self.store, self.machine.clock, self.machine.workers, self.troubles.append)
        self.flusher.start(self.spawn)

    async def _stop(self) -> None:
        await self.flusher.stop()
        self.store.close()


async def start(world: SimulatedWorld, settings: StoreSettings = ASYNC) -> Keeper:
    return await world.start("broker", Keeper(world.machine("broker"), settings))


async def test_what_was_written_is_safe_half_a_second_later(world: SimulatedWorld) -> None:
    keeper = await start(world)
    keeper.send(b"safe")
    await world.run_for(ms=ASYNC.flush_ms + 10)
    keeper.send(b"too late")
    world.kill("broker", power_loss=True)
    keeper = await start(world)
    assert keeper.bodies() == [b"safe"]


async def test_queues_and_checkpoint_follow_after_a_second(world: SimulatedWorld) -> None:
    keeper = await start(world)
    for queue_id in range(5):
        keeper.send(b"x", queue_id=queue_id)
    await world.run_for(ms=ASYNC.queue_flush_ms * 3 + 100)
    world.kill("broker")
    keeper = await start(world)
    assert keeper.report.checked_records == 0
    assert [keeper.bodies(queue_id=queue_id) for queue_id in range(5)] == [[b"x"]] * 5


async def test_a_store_at_rest_does_nothing(world: SimulatedWorld) -> None:
    keeper = await start(world)
    keeper.send(b"x")
    await world.run_for(seconds=10)
    events = world.history.count
    await world.run_for(hours=5)
    assert world.history.count == events


async def test_what_recovery_found_is_written_without_a_new_message(world: SimulatedWorld) -> None:
    keeper = await start(world)
    keeper.send(b"x")
    world.kill("broker")
    keeper = await start(world)
    assert keeper.report.checked_records == 1
    await world.run_for(seconds=5)
    world.kill("broker")
    assert (await start(world)).report.checked_records == 0


async def test_sync_flush_answers_after_the_fsync_and_one_fsync_answers_all_who_wait(world: SimulatedWorld) -> None:
    keeper = await start(world, SYNC)
    await world.run_for(seconds=5)
    disk = world.disk("broker")
    disk.sync_ms = 100
    synced_before = world.history.count
    first = keeper.send(b"first")
    hasty = keeper.send(b"hasty", wait_flush=False)
    await world.run_for(ms=50)
    second, third = keeper.send(b"second"), keeper.send(b"third")
    assert hasty[0].outcome is PutOutcome.STORED
    assert first[0].settled == second[0].settled == []
    await world.run_for(ms=60)
    assert first[0].outcome is PutOutcome.STORED
    assert second[0].settled == []
    await world.run_for(ms=100)
    assert second[0].outcome is third[0].outcome is PutOutcome.STORED
    syncs = [event for event in world.history.events if event.what == "syncs" and "commitlog" in str(event)]
    assert len(syncs) == 2
    assert synced_before < world.history.count


async def test_state_that_follows_an_append_changes_when_it_gets_visible_and_not_after_the_fsync(
    world: SimulatedWorld,
) -> None:
    keeper = await start(world, SYNC)
    world.disk("broker").sync_ms = 100
    sent, state = keeper.append(b"x"), Sent(b"x")
    keeper.store.when_written(note, state)
    assert state.settled == []
    keeper.store.commit()
    assert (sent.settled, state.settled) == ([], [(0, sent.log_position, PutOutcome.STORED)])
    await world.run_for(ms=150)
    assert sent.settled == state.settled


async def test_what_sync_flush_has_answered_survives_a_loss_of_power(world: SimulatedWorld) -> None:
    keeper = await start(world, SYNC)
    world.disk("broker").sync_ms = 5
    acknowledged = []
    for number in range(20):
        (sent,) = keeper.send(b"%d" % number)
        await world.run_for(ms=3)
        acknowledged.append(sent)
    stored = [sent.body for sent in acknowledged if sent.settled]
    world.kill("broker", power_loss=True)
    keeper = await start(world, SYNC)
    assert 0 < len(stored) < 20
    assert keeper.bodies()[: len(stored)] == stored


async def test_a_stuck_fsync_is_answered_with_a_timeout_after_five_seconds(world: SimulatedWorld) -> None:
    keeper = await start(world, SYNC)
    world.disk("broker").sync_ms = 60_000
    (early,) = keeper.send(b"early")
    await world.run_for(seconds=3)
    (late,) = keeper.send(b"late")
    await world.run_for(ms=1900)
    assert early.settled == []
    await world.run_for(ms=200)
    assert early.outcome is PutOutcome.FLUSH_TIMEOUT
    assert late.settled == []
    await world.run_for(seconds=3)
    assert late.outcome is PutOutcome.FLUSH_TIMEOUT
    assert keeper.bodies() == [b"early", b"late"]


async def test_a_failed_fsync_is_reported_and_tried_again(world: SimulatedWorld) -> None:
    keeper = await start(world, SYNC)
    await world.run_for(seconds=5)
    world.disk("broker").fail_sync(1)
    (sent,) = keeper.send(b"x")
    await world.run_for(ms=10)
    assert sent.outcome is PutOutcome.FLUSH_TIMEOUT
    assert "can't be synced" in str(keeper.troubles[0])
    await world.run_for(ms=SYNC.flush_ms + 10)
    world.kill("broker", power_loss=True)
    assert (await start(world, SYNC)).bodies() == [b"x"]


async def test_of_two_who_want_an_fsync_none_believes_a_success_while_the_other_hears_of_a_failure(
    world: SimulatedWorld,
) -> None:
    settings = replace(SYNC, queue_flush_ms=10)
    keeper = await start(world, settings)
    await world.run_for(seconds=5)
    disk = world.disk("broker")
    disk.sync_ms = 100
    disk.fail_sync(2)
    (sent,) = keeper.send(b"x")
    await world.run_for(ms=400)
    world.kill("broker", power_loss=True)
    keeper = await start(world, settings)
    assert sent.outcome is PutOutcome.STORED
    assert keeper.bodies() == [b"x"]


async def test_what_a_failed_fsync_lost_from_memory_as_well_ends_the_store(world: SimulatedWorld) -> None:
    keeper = await start(world, SYNC)
    (safe,) = keeper.send(b"safe")
    await world.run_for(seconds=5)
    disk = world.disk("broker")
    disk.evicts = True
    disk.fail_sync()
    (lost,) = keeper.send(b"lost")
    with pytest.raises(UnsyncedLost, match="lost from memory as well"):
        await keeper.wait()
    assert (safe.outcome, lost.outcome) == (PutOutcome.STORED, PutOutcome.FLUSH_TIMEOUT)
    with pytest.raises(UnsyncedLost):
        await world.stop("broker")
    world.kill("broker")
    keeper = await start(world, SYNC)
    assert keeper.bodies() == [b"safe"]
    keeper.send(b"goes on")


@pytest.mark.parametrize("first", [0, 1])
async def test_what_a_failed_fsync_lost_is_skipped_by_no_reader(world: SimulatedWorld, first: int) -> None:
    """It has an offset that another message gets after the next start: who has been told to go on would miss that."""
    keeper = await start(world)
    keeper.send(b"safe")
    await world.run_for(seconds=5)
    disk = world.disk("broker")
    disk.evicts = True
    disk.fail_sync()
    keeper.send(b"lost")
    await world.run_for(ms=ASYNC.flush_ms + 10)
    with pytest.raises(StorageError, match="the disk hasn't accepted it yet; try again"):
        keeper.store.read(keeper.store.queue("orders", 0), first)
    assert keeper.store.findings.damaged_records == 0
    world.kill("broker", power_loss=True)
    keeper = await start(world)
    keeper.send(b"next")
    assert keeper.bodies() == [b"safe", b"next"]


async def test_after_a_second_failed_fsync_nothing_is_taken_until_one_succeeds(world: SimulatedWorld) -> None:
    keeper = await start(world)
    await world.run_for(seconds=5)
    disk = world.disk("broker")
    disk.fail_sync(1)
    disk.fail_sync(2)
    disk.fail_sync(3)
    keeper.send(b"a")
    await world.run_for(ms=ASYNC.flush_ms + 10)
    keeper.send(b"b")
    await world.run_for(ms=ASYNC.flush_ms * 2)
    with pytest.raises(StorageError, match=r"can't be synced.*no message is stored until that succeeds"):
        keeper.append(b"refused")
    keeper.store.refuse(None)  # The disk has room, which is another cause.
    with pytest.raises(StorageError, match="can't be synced"):
        keeper.append(b"refused")
    await world.run_for(seconds=3)
    keeper.send(b"c")
    assert keeper.bodies() == [b"a", b"b", b"c"]
    world.kill("broker", power_loss=True)
    keeper = await start(world)
    assert keeper.bodies() == [b"a", b"b"]


async def test_a_failed_write_while_an_fsync_runs_spoils_it_if_its_own_fsync_fails(world: SimulatedWorld) -> None:
    keeper = await start(world, SYNC)
    await world.run_for(seconds=5)
    disk = world.disk("broker")
    disk.sync_ms = 100
    (sent,) = keeper.send(b"x")
    await world.run_for(ms=10)
    disk.fail_write()
    disk.fail_sync()
    (failed,) = keeper.send(b"failed")
    await world.run_for(ms=100)
    assert (sent.outcome, failed.outcome) == (PutOutcome.FLUSH_TIMEOUT, PutOutcome.FAILED)
    await world.run_for(seconds=3)
    world.kill("broker", power_loss=True)
    keeper = await start(world, SYNC)
    assert keeper.bodies() == [b"x"]


async def test_queues_that_could_not_be_written_are_tried_again(world: SimulatedWorld) -> None:
    keeper = await start(world)
    await world.run_for(seconds=5)
    keeper.send(b"x")
    world.disk("broker").fail_write(1)
    await world.run_for(ms=ASYNC.queue_flush_ms + 10)
    assert "consume queues" in str(keeper.troubles[0])
    await world.run_for(seconds=5)
    assert len(keeper.troubles) == 1
    world.kill("broker")
    assert (await start(world)).report.checked_records == 0


@pytest.mark.parametrize("settings", [ASYNC, SYNC], ids=["async", "sync"])
async def test_a_stop_answers_all_who_wait_and_leaves_nothing_to_recover(
    world: SimulatedWorld, settings: StoreSettings
) -> None:
    keeper = await start(world, settings)
    world.disk("broker").sync_ms = 20
    keeper.send(b"x")
    (last,) = keeper.send(b"last")
    await world.stop("broker")
    assert last.outcome is PutOutcome.STORED
    world.kill("broker", power_loss=True)
    keeper = await start(world, settings)
    assert (keeper.report.was_closed, keeper.report.checked_records) == (True, 0)
    assert keeper.bodies() == [b"x", b"last"]


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("at_ms", range(0, 3000, 130))
async def test_a_loss_of_power_at_any_moment_is_recovered_from(world: SimulatedWorld, at_ms: int, torn: bool) -> None:
    keeper = await start(world)
    world.disk("broker").sync_ms = 7
    sent: list[bytes] = []

    async def send_until_killed() -> None:
        for number in range(100):
            sent.append(b"%d" % number * 20)
            keeper.send(sent[-1], queue_id=number % 3)
            await world.run_for(ms=31)

    keeper.spawn(send_until_killed(), "client")
    await world.run_for(ms=at_ms)
    world.kill("broker", power_loss=True, torn=torn)
    keeper = await start(world)
    assert not keeper.report.rebuilt
    for queue_id in range(3):
        bodies, sent_there = keeper.bodies_with_gaps(queue_id=queue_id), sent[queue_id::3]
        assert [body for body in sent_there if body in bodies] == bodies
        safe = max(0, (at_ms - ASYNC.flush_ms - 200) // 93)
        assert bodies[:safe] == sent_there[:safe]
        assert torn or bodies == sent_there[: len(bodies)]


async def test_an_fsync_that_failed_for_a_caller_that_was_cancelled_twice_is_not_reported(
    world: SimulatedWorld,
) -> None:
    keeper = await start(world)
    world.disk("broker").fail_sync()
    keeper.send(b"x")
    safe = keeper.spawn(keeper.flusher.make_safe(), "an offset that is saved")
    for _ in range(2):
        await world.run_for(ms=RUN_MS / 3)
        safe.cancel()
    await world.run_for(seconds=5)
    assert safe.cancelled()
