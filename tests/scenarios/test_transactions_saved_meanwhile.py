"""Transactions whose requests wait for a slow disk, or for slaves, while transactions.json is saved. Then a kill."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from staticfire.broker.transactions.recovery import SAVE_MS
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.message_ids import parse_offset_id
from staticfire.protocol.properties import CHECK_IMMUNITY_TIME_IN_SECONDS
from staticfire.protocol.requests.transactions import EndTransaction
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.replica_set import MASTER, ReplicaSet

pytestmark = pytest.mark.row("F5")

COMMIT, ROLLBACK = 8, 12
HALF = {"TRAN_MSG": "true", "PGROUP": "shop", "UNIQ_KEY": "U1"}
PATHS = {
    "run": HALF,
    "single": HALF | {CHECK_IMMUNITY_TIME_IN_SECONDS: "600"},  # The compiled version doesn't handle these.
}
WAITS: dict[str, dict[str, Any]] = {
    "disk": {"flush_disk_type": "SYNC_FLUSH"},
    "slave": {"broker_role": "SYNC_MASTER", "in_sync_replicas": 2},
}
# How long before the save a request arrives, and how long it waits at least.
BEFORE_MS, WAIT_MS = 500, 1_000


@pytest_asyncio.fixture(params=WAITS)
async def master(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[ReplicaSet]:
    """A broker that waits for its disk, or for slaves that it doesn't have, with topic orders."""
    master = await ReplicaSet(world, **WAITS[request.param]).open(slaves=0)
    yield master
    await master.close()


@pytest.fixture(params=PATHS)
def half(request: pytest.FixtureRequest) -> dict[str, str]:
    """The properties of a half message."""
    return PATHS[request.param]


def end_of(sent: Any, kind: int, after_check: bool = False) -> EndTransaction:
    position = parse_offset_id(sent.msg_id)[1]
    return EndTransaction("shop", sent.queue_offset, position, kind, after_check, msg_id="U1")


async def until_just_before_a_save(world: SimulatedWorld) -> None:
    """Let the disk be slow from then on."""
    await world.run_for(2 * SAVE_MS - BEFORE_MS - world.uptime_ms)  # The first save comes after that of other files.
    world.disk(MASTER).sync_ms = WAIT_MS


async def killed_after_the_save(world: SimulatedWorld, master: ReplicaSet, waiting: "asyncio.Future[Any]") -> Any:
    """Return the response to a request that waits during the save; the broker is killed after both, and started."""
    await world.run_for(BEFORE_MS)
    assert not waiting.done()
    await world.run_for(seconds=4)
    assert waiting.done()
    world.disk(MASTER).sync_ms = 0
    await master.kill_and_start(MASTER)
    return await waiting


async def test_a_half_message_that_waits_during_a_save_is_open_after_a_kill(
    world: SimulatedWorld, master: ReplicaSet, half: dict[str, str]
) -> None:
    await until_just_before_a_save(world)
    sent = await killed_after_the_save(world, master, asyncio.ensure_future(master.send(b"paid", **half)))
    assert sent.code in (ResponseCode.SUCCESS, ResponseCode.FLUSH_SLAVE_TIMEOUT)
    assert len(master.brokers[MASTER].transactions) == 1
    assert (await master.ask(MASTER, end_of(sent, COMMIT))).code == 0
    assert await master.bodies(MASTER) == [b"paid"]


@pytest.mark.parametrize(("kind", "stored"), [(COMMIT, [b"paid"]), (ROLLBACK, [])], ids=["commit", "rollback"])
async def test_a_transaction_whose_end_waits_during_a_save_is_ended_after_a_kill(
    world: SimulatedWorld, master: ReplicaSet, half: dict[str, str], kind: int, stored: list[bytes]
) -> None:
    sent = await master.send(b"paid", **half)
    await until_just_before_a_save(world)
    ending = asyncio.ensure_future(master.ask(MASTER, end_of(sent, kind)))
    assert (await killed_after_the_save(world, master, ending)).code == 0
    assert len(master.brokers[MASTER].transactions) == 0
    assert (await master.ask(MASTER, end_of(sent, kind, after_check=True))).code == 0
    assert await master.bodies(MASTER) == stored
