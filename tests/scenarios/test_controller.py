"""A nameserver answers as RocketMQ's controller: who is the master, who is in sync, elect another."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Request
from staticfire.protocol.requests.access import CreateUser, UserInfo
from staticfire.protocol.requests.controller import (
    CleanBrokerData,
    ElectMaster,
    EpochEntry,
    GetControllerConfig,
    GetControllerMetadata,
    GetEpochCache,
    GetReplicaInfo,
    GetSyncState,
    ReplicaIdentity,
    UpdateControllerConfig,
)
from staticfire.protocol.requests.replication import GetReplication
from staticfire.protocol.requests.routes import GetNameserverConfig
from staticfire.runtime.credentials import Credentials
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.replica_set import MASTER, NAMESRV, SECOND, SLAVE, ReplicaSet, address_of

pytestmark = pytest.mark.row("P7")
NO_END = 2**63 - 1


@pytest_asyncio.fixture
async def pair(world: SimulatedWorld) -> AsyncIterator[ReplicaSet]:
    """A master and a slave with ten messages."""
    pair = ReplicaSet(world)
    await pair.open()
    await pair.fill(messages=10)
    yield pair
    await pair.close()


async def ask(pair: ReplicaSet, request: Request) -> Any:
    """Send a request to the controller."""
    return await pair.pool.ask(NAMESRV, request, 30_000)


def elect(broker_id: int, broker: str = MASTER) -> ElectMaster:
    """An election as RocketMQ's `mqadmin electMaster` requests it."""
    return ElectMaster("DefaultCluster", broker, broker_id, True, 0)


def identity(name: str, broker_id: int, alive: bool = True) -> ReplicaIdentity:
    return ReplicaIdentity(MASTER, broker_id, address_of(name), alive)


async def replicas(pair: ReplicaSet) -> Any:
    answer = await ask(pair, GetSyncState(body=[MASTER, "broker-z"]))
    assert list(answer.body.replicas_info_table) == [MASTER]
    return answer.body.replicas_info_table[MASTER]


async def test_it_is_the_leader_of_itself_at_the_nameservers_address(pair: ReplicaSet) -> None:
    answer = await ask(pair, GetControllerMetadata())
    assert (answer.controller_leader_address, answer.is_leader, answer.peers) == (NAMESRV, True, f"n0:{NAMESRV};")


async def test_the_replicas_that_are_in_sync(pair: ReplicaSet, world: SimulatedWorld) -> None:
    found = await replicas(pair)
    assert (found.master_broker_id, found.master_address, found.master_epoch) == (0, address_of(MASTER), 1)
    assert found.in_sync_replicas == [identity(MASTER, 0), identity(SLAVE, 1)]
    assert found.not_in_sync_replicas == []
    answer = await ask(pair, GetReplicaInfo(MASTER))
    assert (answer.master_address, answer.body.sync_state_set) == (address_of(MASTER), [0, 1])


async def test_a_slave_that_is_behind_is_not_in_sync(pair: ReplicaSet, world: SimulatedWorld) -> None:
    await pair.control(SLAVE, hold=True)
    await pair.send(b"not copied")
    await world.run_for(20_000)
    found = await replicas(pair)
    assert found.in_sync_replicas == [identity(MASTER, 0)]
    assert found.not_in_sync_replicas == [identity(SLAVE, 1)]


async def test_a_frozen_slave_is_shown_as_not_alive(pair: ReplicaSet, world: SimulatedWorld) -> None:
    world.freeze(SLAVE)
    await pair.send(b"not copied")
    await world.run_for(30_000)
    found = await replicas(pair)
    assert found.in_sync_replicas == [identity(MASTER, 0)]
    assert found.not_in_sync_replicas == [identity(SLAVE, 1, alive=False)]
    world.thaw(SLAVE)


async def test_without_a_master_no_one_is_in_sync(pair: ReplicaSet, world: SimulatedWorld) -> None:
    world.kill(MASTER)
    await world.run_for(100)
    found = await replicas(pair)
    assert (found.master_broker_id, found.master_address) == (None, None)
    assert found.not_in_sync_replicas == [identity(SLAVE, 1)]


async def test_an_election_lets_a_slave_take_over(pair: ReplicaSet) -> None:
    answer = await ask(pair, elect(1))
    assert (answer.code, answer.master_address, answer.master_epoch) == (0, address_of(SLAVE), 2)
    assert answer.body.broker_member_group.broker_addrs == {0: address_of(SLAVE), 1: address_of(MASTER)}
    assert (await pair.send(b"after", SLAVE)).code == 0
    await pair.until_caught_up(MASTER, SLAVE)
    pair.assert_equal(MASTER, SLAVE)


async def test_a_dead_master_is_replaced_by_whoever_has_everything(pair: ReplicaSet, world: SimulatedWorld) -> None:
    world.kill(MASTER)
    await world.run_for(100)
    answer = await ask(pair, ElectMaster("DefaultCluster", MASTER, -1, False, 0))
    assert (answer.code, answer.master_address) == (0, address_of(SLAVE))


@pytest.mark.parametrize(
    ("request_", "code", "words"),
    [
        (elect(0), ResponseCode.CONTROLLER_MASTER_STILL_EXIST, "The old master 0 is still alive"),
        (ElectMaster("c", MASTER, 1), ResponseCode.CONTROLLER_MASTER_STILL_EXIST, "The old master 0 is still alive"),
        (elect(7), ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, "no slave with id 7"),
        (elect(1, "broker-z"), ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, "hasn't been registered"),
        (ElectMaster(), ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, "hasn't been registered"),
        (GetReplicaInfo("broker-z"), ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST, "is not existed"),
        (GetSyncState(), ResponseCode.SYSTEM_ERROR, "a list of broker names"),
        (CleanBrokerData("c", "broker-z"), 2009, "Broker broker-z is not existed"),
        (CleanBrokerData("c", MASTER), 2009, "Broker broker-a is still alive"),
        (CleanBrokerData("c", MASTER, "2;1"), 2009, "Broker [broker-a,  1] is still alive"),
        (CleanBrokerData("c", MASTER, "2", True), ResponseCode.ILLEGAL_OPERATION, "living brokers can't be removed"),
        (UpdateControllerConfig(body=b"nonsense=1"), ResponseCode.INVALID_PARAMETER, "there is no such setting"),
    ],
)
async def test_what_is_refused(pair: ReplicaSet, request_: Request, code: int, words: str) -> None:
    answer = await ask(pair, request_)
    assert (answer.code, words in answer.remark) == (code, True), answer
    assert (await pair.send(b"still the master")).code == 0


async def test_an_election_that_would_lose_messages_is_refused(pair: ReplicaSet) -> None:
    await pair.control(SLAVE, hold=True)
    await pair.send(b"not copied")
    answer = await ask(pair, elect(1))
    assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    assert "broker-a-1 is 1 messages behind its master: its copy is held" in answer.remark
    assert (await pair.send(b"still the master")).code == 0


async def test_data_of_a_slave_that_is_gone_is_gone(pair: ReplicaSet, world: SimulatedWorld) -> None:
    world.kill(SLAVE)
    await world.run_for(100)
    assert (await ask(pair, CleanBrokerData("DefaultCluster", MASTER, "1"))).code == 0


async def test_its_settings_are_those_of_the_nameserver(pair: ReplicaSet) -> None:
    assert (await ask(pair, UpdateControllerConfig(body=b"scanNotActiveBrokerInterval=4000"))).code == 0
    texts = [(await ask(pair, one)).body for one in (GetControllerConfig(), GetNameserverConfig())]
    assert texts[0] == texts[1]
    assert b"scanNotActiveBrokerInterval=4000" in texts[0]


async def test_the_epochs_of_a_log(pair: ReplicaSet) -> None:
    end = pair.end(MASTER)
    await ask(pair, elect(1))
    await pair.send(b"after", SLAVE)
    await pair.until_caught_up(MASTER, SLAVE)
    for name, broker_id in ((SLAVE, 0), (MASTER, 1)):
        body = (await pair.ask(name, GetEpochCache())).body
        assert (body.broker_name, body.broker_id, body.max_offset) == (MASTER, broker_id, pair.end(SLAVE))
        assert body.epoch_list == [EpochEntry(1, 0, end), EpochEntry(2, end, NO_END)]


async def test_a_broker_without_slaves_has_no_epochs(world: SimulatedWorld) -> None:
    alone = ReplicaSet(world)
    await alone.open(slaves=0)
    answer = await alone.ask(MASTER, GetEpochCache())
    assert (answer.code, answer.remark.partition(":")[0]) == (1, "this request only for controllerMode")
    found = (await replicas(alone)).in_sync_replicas
    assert found == [identity(MASTER, 0)]
    await alone.close()


async def test_a_cluster_with_users_is_not_controlled_without_a_key(pair: ReplicaSet) -> None:
    assert (await pair.ask(MASTER, CreateUser("root", body=UserInfo("root", "r00t", "Super")))).code == 0
    for request in (elect(1), GetSyncState(body=[MASTER]), GetReplicaInfo(MASTER)):
        answer = await ask(pair, request)
        assert (answer.code, "use `staticfire replication`" in answer.remark) == (ResponseCode.NO_PERMISSION, True)
    root = ConnectionPool(pair.world.machine("root", "10.0.0.8"), credentials=Credentials("root", "r00t"))
    state = (await root.ask(address_of(MASTER), GetReplication())).body
    assert (state.role, len(state.epochs)) == ("ASYNC_MASTER", 1)
    await root.close()


async def test_several_slaves(world: SimulatedWorld) -> None:
    three = ReplicaSet(world)
    await three.open(slaves=2)
    await three.send(b"1")
    await three.until_caught_up(SECOND)
    answer = await ask(three, elect(2))
    assert (answer.code, answer.master_address) == (0, address_of(SECOND))
    await three.close()
