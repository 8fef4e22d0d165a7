"""A cluster that is put away in the middle of its work, broken, and put back has what it had."""

from typing import Any

import pytest

from staticfire.client import Admin
from staticfire.control.snapshots import restore, save
from staticfire.control.whole_cluster import KnownBrokers
from staticfire.protocol.names import RETRY_PREFIX
from staticfire.simulation.runs.cluster import NAMESRV, OBSERVER
from staticfire.simulation.runs.observing import settled
from tests.cases import first_and_slow
from tests.simulation.mixed import Mixed, with_mixed

pytestmark = pytest.mark.row("S3")

SETTLES_MS = 600_000
FAULTS = ("nothing", "kill", "lose power", "bit rot")


def addresses(mixed: Mixed) -> dict[str, str]:
    return {name: f"10.0.1.{number}:10911" for number, name in enumerate(mixed.cluster.brokers, 1)}


def check_put_back(before: dict[str, Any], after: dict[str, Any]) -> None:
    """What was there is there. The clock went on, so retries and delayed messages that became due are delivered."""
    assert set(before["messages"]) <= set(after["messages"])
    more = set(after["messages"]) - set(before["messages"])
    assert all(place[1].startswith(RETRY_PREFIX) or name.startswith(("later", "timed")) for place, _, name in more)
    for broker, waiting in before["delayed"].items():
        assert sum(waiting.values()) >= sum(after["delayed"][broker].values())
    assert after["offsets"] == before["offsets"]
    assert after["transactions"] == before["transactions"]


async def broken(mixed: Mixed, fault: str) -> None:
    """Break one broker in that way, and start it again."""
    cluster = mixed.cluster
    if fault == "bit rot":
        disk = mixed.world.disk("broker-a")
        for path in [path for path, inode in disk.files.items() if "/store/consumequeue/" in path and inode.content]:
            disk.rot(path, 0)
    if fault != "nothing":
        cluster.kill("broker-a", power_loss=fault == "lose power")
        await cluster.start("broker-a")
    await mixed.world.run_for(seconds=1)


@pytest.mark.parametrize("fault", first_and_slow(FAULTS))
def test_what_was_put_away_is_there_when_it_is_put_back(fault: str) -> None:
    async def scenario(mixed: Mixed) -> None:
        await mixed.work(25)
        async with Admin(NAMESRV, machine=mixed.world.machine(OBSERVER)) as admin:
            await save(admin.client.pool, addresses(mixed), "base")
            before = mixed.state()
            assert len(before["messages"]) > 100
            assert all(any(before[what].values()) for what in ("offsets", "delayed", "transactions", "popped"))
            await mixed.work(15)
            await broken(mixed, fault)
            assert len(mixed.state()["messages"]) > len(before["messages"])
            await restore(admin.client.pool, NAMESRV, KnownBrokers(addresses(mixed)), "base")
            check_put_back(before, mixed.state())
        mixed.cluster.listener.fails_by_chance = False
        for name in mixed.clients:
            await mixed.cluster.start(name)
        for program in mixed.cluster.programs.values():
            program.end()
        assert await settled(mixed.observer, mixed.cluster, SETTLES_MS) == []

    with_mixed(FAULTS.index(fault), scenario)
