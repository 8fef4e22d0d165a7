"""A slave that acts for its master while that is gone: its route and its answers; sends to a master of that mode."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.requests.brokers import GetMemberGroup
from staticfire.protocol.requests.routes import GetRoute
from staticfire.protocol.requests.send_back import SendBack
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.replica_set import MASTER, NAMESRV, SLAVE, ReplicaSet, address_of

pytestmark = pytest.mark.row("P7")


class ActingSet(ReplicaSet):
    """A set whose nameserver shows acting masters."""

    async def open(self, slaves: int = 1, topic: str = "orders") -> "ActingSet":
        settings = NameserverSettings(support_acting_master=True)
        await self.world.start("namesrv", Nameserver(self.world.machine("namesrv", "10.0.0.1"), settings))
        await self.start(MASTER)
        await self.put_topic(topic)
        if slaves:
            await self.start(SLAVE)
            await self.until_caught_up(SLAVE)
        return self

    async def route(self, topic: str = "orders") -> tuple[dict[int, str], int]:
        """Return the addresses of the set, and the permission of its queues."""
        answer = await self.pool.ask(NAMESRV, GetRoute(topic))
        assert answer.code == 0, answer.remark
        [broker], [queues] = answer.body.broker_datas, answer.body.queue_datas
        return dict(broker.broker_addrs), queues.perm


@pytest_asyncio.fixture
async def pair(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[ActingSet]:
    pair = await ActingSet(world, enable_slave_acting_master=True, **getattr(request, "param", {})).open()
    yield pair
    await pair.close()


async def test_the_lowest_slave_is_shown_as_a_master_that_can_be_read(pair: ActingSet, world: SimulatedWorld) -> None:
    await pair.send(b"1")
    await pair.until_caught_up()
    assert await pair.route() == ({0: address_of(MASTER), 1: address_of(SLAVE)}, 6)
    world.kill(MASTER)
    await world.run_for(300)
    assert await pair.route() == ({0: address_of(SLAVE)}, 4)
    group = (await pair.pool.ask(NAMESRV, GetMemberGroup("DefaultCluster", MASTER))).body.broker_member_group
    assert dict(group.broker_addrs) == {1: address_of(SLAVE)}
    assert (await pair.pull(SLAVE, 0)).code == 0
    await pair.start(MASTER)
    await world.run_for(300)
    assert await pair.route() == ({0: address_of(MASTER), 1: address_of(SLAVE)}, 6)


@pytest.mark.parametrize("is_master_alive", [True, False])
async def test_what_it_answers(pair: ActingSet, world: SimulatedWorld, is_master_alive: bool) -> None:
    if not is_master_alive:
        world.kill(MASTER)
        await world.run_for(300)
    sent = await pair.send(b"no", SLAVE)
    assert (sent.code, sent.region, sent.trace_on) == (ResponseCode.SERVICE_NOT_AVAILABLE, "DefaultRegion", "true")
    assert sent.remark.startswith("service not available now.")
    returned = await pair.ask(SLAVE, SendBack(0, "billing", 0))
    assert (returned.code, returned.remark) == (1, f"no master available along with {address_of(SLAVE).split(':')[0]}")


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({}, ResponseCode.SYSTEM_ERROR),
        ({"enable_auto_in_sync_replicas": True}, ResponseCode.SUCCESS),
        ({"enable_auto_in_sync_replicas": True, "min_in_sync_replicas": 2}, ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_a_synchronous_master_of_this_mode_without_a_slave(
    world: SimulatedWorld, settings: dict[str, Any], code: ResponseCode
) -> None:
    sync = {"broker_role": "SYNC_MASTER", "in_sync_replicas": 2, "enable_slave_acting_master": True}
    alone = await ActingSet(world, **sync, **settings).open(slaves=0)
    answer = await alone.send(b"1")
    assert answer.code == code
    if code:
        assert answer.remark == "in-sync replicas not enough"
        assert await alone.bodies(MASTER) == []
    await alone.close()
