"""A reset restores the settings of the start, whatever has replaced a broker's core since then."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from staticfire.control.reset import reset
from staticfire.control.whole_cluster import KnownBrokers
from staticfire.protocol.command import Request
from staticfire.protocol.java_properties import read_properties, write_properties
from staticfire.protocol.requests.config import GetBrokerConfig, UpdateBrokerConfig
from staticfire.protocol.requests.reset import Reset
from staticfire.protocol.requests.routes import GetNameserverConfig, UpdateNameserverConfig
from staticfire.protocol.requests.snapshots import RestoreSnapshot, SaveSnapshot
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.replica_set import MASTER, NAMESRV, SLAVE, ReplicaSet

pytestmark = pytest.mark.row("S5")

CHANGED = {"brokerPermission": "4", "autoCreateTopicEnable": "false", "transactionCheckMax": "3"}
AT_START = {"brokerPermission": "6", "autoCreateTopicEnable": "true", "transactionCheckMax": "7"}


@pytest_asyncio.fixture
async def pair(world: SimulatedWorld) -> AsyncIterator[ReplicaSet]:
    """A master and its slave, which started with another setting than the default."""
    pair = await ReplicaSet(world, transaction_check_max=7).open()
    yield pair
    await pair.close()


async def do(pair: ReplicaSet, name: str, request: Request) -> Any:
    answer = await pair.ask(name, request)
    assert answer.code == 0, answer.remark
    return answer


async def change(pair: ReplicaSet, name: str, **more: str) -> None:
    await do(pair, name, UpdateBrokerConfig(body=write_properties(CHANGED | more).encode()))


async def settings_of(pair: ReplicaSet, name: str) -> dict[str, str]:
    return read_properties((await do(pair, name, GetBrokerConfig())).body.decode())


@pytest.mark.parametrize("requests", [[], [SaveSnapshot("one")], [SaveSnapshot("one"), RestoreSnapshot("one")]])
async def test_a_broker_after_snapshots(pair: ReplicaSet, requests: list[Request]) -> None:
    before = await settings_of(pair, MASTER)
    for _ in range(2):
        await change(pair, MASTER, replicationLagMs="500")
        for request in requests:
            await do(pair, MASTER, request)
        assert (await settings_of(pair, MASTER)).items() >= CHANGED.items()
        await do(pair, MASTER, Reset())
        after = await settings_of(pair, MASTER)
        assert {key for key in before if before[key] != after[key]} <= {"staticfireClock"}


async def test_a_slave_at_a_reset_of_the_cluster(pair: ReplicaSet) -> None:
    before = await settings_of(pair, SLAVE)
    await change(pair, SLAVE, slaveReadEnable="false")
    await change(pair, MASTER)
    await pair.control(SLAVE, lag_ms=500)
    await reset(pair.pool, NAMESRV, KnownBrokers())
    after = await settings_of(pair, SLAVE)
    assert {key for key in before if before[key] != after[key]} <= {"staticfireClock"}
    assert after.items() >= AT_START.items()


async def test_a_cluster_is_reset_without_a_slave_that_is_frozen(pair: ReplicaSet) -> None:
    await change(pair, MASTER)
    pair.world.freeze(SLAVE)
    await reset(pair.pool, NAMESRV, KnownBrokers())
    assert (await settings_of(pair, MASTER)).items() >= AT_START.items()


async def test_a_broker_whose_role_has_changed(pair: ReplicaSet) -> None:
    await change(pair, SLAVE)
    await pair.control(SLAVE, lag_ms=100)
    await pair.until_caught_up()
    await pair.failover()
    await do(pair, SLAVE, Reset())
    kept = {"brokerRole": "ASYNC_MASTER", "brokerId": "0", "replicationLagMs": "0", "replicationHold": "false"}
    assert (await settings_of(pair, SLAVE)).items() >= (AT_START | kept).items()


async def test_the_nameserver(pair: ReplicaSet) -> None:
    async def settings() -> dict[str, str]:
        return read_properties((await pair.pool.ask(NAMESRV, GetNameserverConfig())).body.decode())

    before = await settings()
    changed = {"orderMessageEnable": "true", "enableTopicList": "false", "brokerExpiryMs": "1000"}
    await pair.pool.ask(NAMESRV, UpdateNameserverConfig(body=write_properties(changed).encode()))
    assert (await settings()).items() >= changed.items()
    assert (await pair.pool.ask(NAMESRV, Reset())).code == 0
    assert await settings() == before
