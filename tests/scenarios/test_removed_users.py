"""Users that the settings name, and that were removed while the broker ran: they don't come back."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from staticfire.failover.replicas import ReplicaAdmin
from staticfire.protocol.requests.access import CreateUser, DeleteUser, ListUsers, UserInfo
from staticfire.protocol.requests.snapshots import RestoreSnapshot, SaveSnapshot
from staticfire.runtime.credentials import Credentials
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.logged import LogLine, logged
from tests.scenarios.replica_set import MASTER, NAMESRV, SLAVE, ReplicaSet, address_of
from tests.scenarios.test_replica_disks import lose_disk

__all__ = ["logged"]

pytestmark = pytest.mark.row("G7")

INNER = Credentials("inner", "0123456789")


def named(*names: str) -> str:
    return json.dumps([{"username": name, "password": f"{name}-secret"} for name in names])


@pytest_asyncio.fixture
async def pair(world: SimulatedWorld) -> AsyncIterator[ReplicaSet]:
    """A master and a slave with the users admin and shop, and clients that sign as the cluster's own user."""
    inner = json.dumps({"accessKey": INNER.access_key, "secretKey": INNER.secret_key})
    pair = ReplicaSet(
        world, inner_client_authentication_credentials=inner, init_authentication_user=named("admin", "shop")
    )
    await pair.pool.close()
    pair.pool = ConnectionPool(world.machine("client"), credentials=INNER)
    pair.admin = ReplicaAdmin.at_nameservers(pair.pool, NAMESRV)
    yield await pair.open()
    await pair.close()


async def changed(pair: ReplicaSet, request: Any, name: str = MASTER) -> None:
    answer = await pair.ask(name, request)
    assert answer.code == 0, answer.remark
    await pair.world.run_for(seconds=2)  # The slave copies users each second.


async def users(pair: ReplicaSet, name: str = MASTER) -> list[str]:
    answer = await pair.ask(name, ListUsers())
    assert answer.code == 0, answer.remark
    return sorted(one.username for one in answer.body)


async def test_a_removed_user_stays_removed_after_failovers(pair: ReplicaSet) -> None:
    await changed(pair, DeleteUser("shop"))
    await pair.failover()
    assert await users(pair, SLAVE) == ["admin"]
    await pair.failover()
    assert await users(pair) == ["admin"]


async def test_an_old_super_user_stays_removed_after_a_failover(pair: ReplicaSet) -> None:
    await changed(pair, CreateUser("boss", body=UserInfo("boss", "b0ss", "Super")))
    await changed(pair, DeleteUser("admin"))
    await pair.failover()
    assert await users(pair, SLAVE) == ["boss", "shop"]


async def test_a_removed_user_stays_removed_after_a_restart_and_a_restore(pair: ReplicaSet) -> None:
    await changed(pair, DeleteUser("shop"))
    await pair.restart(MASTER)
    assert await users(pair) == ["admin"]
    await changed(pair, SaveSnapshot("without"))
    await changed(pair, RestoreSnapshot("without"))
    assert await users(pair) == ["admin"]


async def test_a_slave_on_a_new_disk_has_the_users_of_its_master(pair: ReplicaSet) -> None:
    await changed(pair, DeleteUser("shop"))
    lose_disk(pair, SLAVE)
    await pair.start(SLAVE)
    await pair.until_caught_up()
    await pair.world.run_for(seconds=2)
    assert await users(pair, SLAVE) == ["admin"]
    await pair.failover()
    assert await users(pair, SLAVE) == ["admin"]


async def test_a_start_with_other_settings_creates_the_users_that_were_never_named_before(pair: ReplicaSet) -> None:
    await changed(pair, DeleteUser("shop"))
    await pair.restart(MASTER, init_authentication_user=named("admin", "shop", "audit"))
    assert await users(pair) == ["admin", "audit"]
    await pair.world.run_for(seconds=2)
    assert await users(pair, SLAVE) == ["admin", "audit"]


def as_of_an_earlier_version(pair: ReplicaSet, name: str) -> None:
    """Change the file of a stopped broker: earlier versions didn't note the users that settings named."""
    files, path = pair.world.machine(name).files, "/store/config/access.json"
    saved = json.loads(files.read_bytes(path))
    del saved["named"], saved["staticfire"]
    files.replace(path, json.dumps(saved).encode(), True)


async def test_a_removed_user_stays_removed_after_an_upgrade(pair: ReplicaSet, logged: list[LogLine]) -> None:
    await changed(pair, DeleteUser("shop"))
    await pair.world.stop(MASTER)
    as_of_an_earlier_version(pair, MASTER)
    logged.clear()
    await pair.start(MASTER)
    assert await users(pair) == ["admin"]
    [line] = [line for line in logged if line.event == "user_not_created"]
    assert (line.level, line.fields["user"]) == ("warning", "shop")
    assert "doesn't say whether this user was removed" in str(line.fields["reason"])
    await pair.restart(MASTER, init_authentication_user=named("admin", "shop", "audit"))
    assert await users(pair) == ["admin", "audit"]


async def test_an_earlier_version_without_users_gets_those_of_the_settings(pair: ReplicaSet) -> None:
    await pair.world.stop(MASTER)
    path = "/store/config/access.json"
    pair.world.machine(MASTER).files.replace(path, b'{"users":[],"acls":{}}', True)
    await pair.start(MASTER)
    assert await users(pair) == ["admin", "shop"]


async def test_a_user_that_was_removed_can_be_added_again(pair: ReplicaSet) -> None:
    await changed(pair, DeleteUser("shop"))
    await changed(pair, CreateUser("shop", body=UserInfo("shop", "another")))
    await pair.restart(MASTER)
    assert await users(pair) == ["admin", "shop"]
    shop = ConnectionPool(pair.world.machine("shop", "10.0.0.8"), credentials=Credentials("shop", "another"))
    assert (await shop.ask(address_of(MASTER), ListUsers())).remark != "check signature failed."
    await shop.close()
