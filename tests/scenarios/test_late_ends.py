"""Commits of transactions that were moved away already: each is stored once, whatever happens to the broker."""

import errno
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from staticfire.client import ClientSettings, TransactionProducer
from staticfire.protocol.names import CHECK_MAX_TIME_TOPIC, OP_HALF_TOPIC
from staticfire.protocol.requests.transactions import EndTransaction
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.test_transactions import HOUR_MS, Stand, end, half_of

pytestmark = pytest.mark.row("F5")

FILE = "/store/config/transactions.json"


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[Stand]:
    stand = await Stand(world, ClientSettings(), {"flush_disk_type": "SYNC_FLUSH"}).open()
    yield stand
    await stand.pool.close()


async def moved_halves(stand: Stand, producer: TransactionProducer, count: int) -> list[EndTransaction]:
    """Let that many transactions be moved away; return the requests that commit them."""
    requests = [await half_of(stand, producer, b"%d" % number) for number in range(count)]
    await stand.advance(HOUR_MS)
    assert len(await stand.stored(CHECK_MAX_TIME_TOPIC)) == count
    return requests


async def end_process(stand: Stand, how: str) -> None:
    if how == "stop":
        await stand.world.stop("broker-a")
    else:
        stand.world.kill("broker-a", power_loss=how == "power loss")
    await stand.world.run_for(10)


def fails_after(log_position: int) -> Callable[[str, int, int, bool], int]:
    """Return a fault: the log can't be read after the record at this position."""

    def fail(path: str, position: int, _size: int, _is_map: bool) -> int:
        if "/commitlog/" in path and position > log_position:
            raise OSError(errno.EMFILE, "Too many open files", path)
        return position

    return fail


@pytest.mark.parametrize("how", ["stop", "kill", "power loss"])
@pytest.mark.parametrize("wait_s", [0, 25], ids=["soon", "after a save"])
async def test_a_late_commit_is_stored_once_across_restarts(stand: Stand, how: str, wait_s: int) -> None:
    async with stand.producer() as producer:
        late, other = await moved_halves(stand, producer, 2)
        assert await end(stand, late) == (0, None)
        for _ in range(2):
            await stand.world.run_for(seconds=wait_s)
            await end_process(stand, how)
            await stand.start_broker()
            assert await end(stand, late) == (0, None)
        assert await stand.stored() == [b"0"]
        assert await end(stand, other) == (0, None)
        await stand.world.run_for(seconds=1)
    assert await stand.stored() == [b"0", b"1"]


async def test_a_late_commit_fails_while_the_disk_does_and_is_stored_later(stand: Stand) -> None:
    """It must not be answered with success as if it was a repeated one."""
    async with stand.producer() as producer:
        [late] = await moved_halves(stand, producer, 1)
        await end_process(stand, "stop")
        await stand.start_broker()
        disk = stand.world.disk("broker-a")
        disk.on_read = fails_after(late.commit_log_offset)
        code, remark = await end(stand, late)
        assert (code, "Too many open files" in (remark or "")) == (14, True)
        disk.on_read = None
        assert await end(stand, late) == (0, None)
        await stand.world.run_for(seconds=1)
    assert await stand.stored() == [b"0"]


async def test_a_late_commit_is_stored_once_if_the_file_is_lost(stand: Stand) -> None:
    """Also among many other ends: the log has a second end only for what was committed late."""
    async with stand.producer() as producer:
        late, other = await moved_halves(stand, producer, 2)
        assert await end(stand, late) == (0, None)
        assert await end(stand, await half_of(stand, producer, b"usual")) == (0, None)
        await end_process(stand, "stop")
        stand.world.machine("broker-a").files.remove(FILE)
        await stand.start_broker()
        for _ in range(2):
            assert await end(stand, late) == (0, None)
            assert await end(stand, other) == (0, None)
    assert await stand.stored() == [b"0", b"1", b"usual"]
    assert await stand.stored(OP_HALF_TOPIC) == [b"0,", b"0,1,", b"1,", b"2,"]
