"""Groups and users, created, changed or deleted shortly before and during a failover: what was answered stays."""

from typing import Any

import pytest

from staticfire.protocol.command import Request
from staticfire.protocol.requests.access import CreateUser, UserInfo
from staticfire.protocol.requests.groups import (
    DeleteGroup,
    ForbidGroup,
    GroupConfigList,
    SubscriptionGroupConfig,
    UpdateGroup,
    UpdateGroups,
)
from staticfire.protocol.requests.replication import ControlReplication
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.replica_set import MASTER, SLAVE, ReplicaSet

pytestmark = pytest.mark.row("P7")
SYNC: dict[str, Any] = {
    "broker_role": "SYNC_MASTER", "in_sync_replicas": 2, "slave_sync_period": 60_000, "slave_timeout": 3_000,
    "inner_client_authentication_credentials": '{"accessKey":"inner","secretKey":"0123456789"}',
}  # fmt: skip
BILLING = SubscriptionGroupConfig(group_name="billing", retry_max_times=3)


def configs_of(pair: ReplicaSet, name: str) -> Any:
    return pair.brokers[name].tables.groups.configs


async def done(pair: ReplicaSet, request: Request) -> None:
    assert (await pair.ask(MASTER, request)).code == 0


async def test_a_group_that_was_just_created_or_changed_survives_its_master(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world, **SYNC).open()
    await done(pair, UpdateGroup(body=SubscriptionGroupConfig(group_name="billing")))
    await done(pair, UpdateGroups(body=GroupConfigList([BILLING])))
    world.kill(MASTER)
    await pair.failover()
    assert configs_of(pair, SLAVE).get("billing").retry_max_times == 3
    await pair.close()


async def test_a_deletion_and_a_prohibition_survive_too(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world, **SYNC).open()
    await done(pair, UpdateGroup(body=BILLING))
    await done(pair, ForbidGroup("audit", "orders", False))
    await done(pair, DeleteGroup("billing"))
    world.kill(MASTER)
    await pair.failover()
    assert configs_of(pair, SLAVE).get("billing") is None
    assert not configs_of(pair, SLAVE).may_read("audit", "orders")
    await pair.close()


async def test_a_user_that_was_just_created_survives(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world, **SYNC).open()
    await done(pair, CreateUser("root", body=UserInfo("root", "r00t", "Super")))
    world.kill(MASTER)
    assert (await pair.pull(SLAVE, 0)).remark == "username cannot be null."
    await pair.close()


async def test_it_waits_for_a_slave_that_is_silent_but_not_for_ever(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world, **SYNC).open()
    world.freeze(SLAVE)
    began_ms = world.uptime_ms
    await done(pair, UpdateGroup(body=BILLING))
    assert 3_000 <= world.uptime_ms - began_ms < 3_500
    world.thaw(SLAVE)
    await world.run_for(seconds=1)
    assert configs_of(pair, SLAVE).get("billing") is not None
    await pair.close()


CHANGES = [
    UpdateGroup(body=BILLING),
    UpdateGroups(body=GroupConfigList([BILLING])),
    DeleteGroup("audit"),
    ForbidGroup("audit", "orders", False),
    CreateUser("shop", body=UserInfo("shop", "s3cret")),
]


@pytest.mark.parametrize("request_", CHANGES, ids=["new", "list", "deleted", "forbidden", "user"])
async def test_nothing_is_changed_while_a_master_hands_over(world: SimulatedWorld, request_: Request) -> None:
    """The slave has copied everything by then, and wouldn't learn of the change."""
    pair = await ReplicaSet(world).open()
    await done(pair, UpdateGroup(body=SubscriptionGroupConfig(group_name="audit")))
    before = dict(configs_of(pair, MASTER).groups)
    await pair.ask(MASTER, ControlReplication(fence_ms=5_000))
    refused = await pair.ask(MASTER, request_)
    assert (refused.code, "hands over to a slave: try again" in (refused.remark or "")) == (2, True)
    assert configs_of(pair, MASTER).groups == before
    await pair.ask(MASTER, ControlReplication(fence_ms=0))
    await done(pair, request_)
    await pair.close()
