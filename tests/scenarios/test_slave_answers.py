"""What a slave answers, code by code: spec/replication.md, sections 2 and 9."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.requests.config import UpdateBrokerConfig
from staticfire.protocol.requests.groups import SubscriptionGroupConfig, UpdateGroup
from staticfire.protocol.requests.locks import LockQueues, MessageQueue, QueuesOfClient
from staticfire.protocol.requests.offsets import GetMaxOffset
from staticfire.protocol.requests.pop import PopMessage
from staticfire.protocol.requests.pull import PullMessage
from staticfire.protocol.requests.reset_offset import ResetOffset
from staticfire.protocol.requests.send_back import SendBack
from staticfire.protocol.requests.transactions import EndTransaction
from staticfire.protocol.requests.upkeep import GetHighAvailability
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.replica_set import MASTER, SLAVE, ReplicaSet

pytestmark = pytest.mark.row("P7")
REJECTED = "[REJECTREQUEST]system busy, start flow control for a while"


@pytest_asyncio.fixture
async def pair(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[ReplicaSet]:
    """A master and a slave with three messages."""
    pair = ReplicaSet(world, **getattr(request, "param", {}))
    await pair.open()
    for number in range(3):
        await pair.send(b"%d" % number)
    await pair.until_caught_up()
    yield pair
    await pair.close()


async def test_what_would_store_something_is_rejected(pair: ReplicaSet) -> None:
    sent = await pair.send(b"no", SLAVE)
    assert (sent.code, sent.remark) == (ResponseCode.SYSTEM_BUSY, REJECTED)
    returned = await pair.ask(SLAVE, SendBack(0, "billing", 0))
    assert (returned.code, returned.remark) == (ResponseCode.SYSTEM_BUSY, REJECTED)
    ended = await pair.ask(SLAVE, EndTransaction("producers", 0, 0, 8))
    assert ended.code == ResponseCode.SLAVE_NOT_AVAILABLE
    reset = await pair.ask(SLAVE, ResetOffset("billing", "orders", 0, True))
    assert (reset.code, reset.remark) == (ResponseCode.SYSTEM_ERROR, "Can not reset offset in slave broker")
    popped = await pair.ask(SLAVE, PopMessage("billing", "orders", 0, 1, 60_000, 0, 0, 0))
    assert (popped.code, popped.remark) == (ResponseCode.SYSTEM_BUSY, REJECTED)
    assert pair.end(SLAVE) == pair.end(MASTER)


@pytest.mark.parametrize(
    ("pair", "locks"),
    [({}, False), ({"enable_slave_acting_master": True}, True)],
    indirect=["pair"],
    ids=["a slave", "one that acts for its master"],
)
async def test_only_a_slave_that_acts_for_its_master_locks_queues(pair: ReplicaSet, locks: bool) -> None:
    queue = MessageQueue("orders", "broker-a", 0)
    locked = await pair.ask(SLAVE, LockQueues(body=QueuesOfClient("billing", "client", [queue])))
    assert locked.code == 0
    assert locked.body.lock_ok_mq_set == ([queue] if locks else [])


async def test_what_a_slave_refuses_changes_while_it_runs(pair: ReplicaSet) -> None:
    queue = MessageQueue("orders", "broker-a", 0)
    lock = LockQueues(body=QueuesOfClient("billing", "client", [queue]))
    for is_acting in (True, False, True):
        change = UpdateBrokerConfig(body=f"enableSlaveActingMaster={str(is_acting).lower()}".encode())
        assert (await pair.ask(SLAVE, change)).code == 0
        codes = (await pair.send(b"no", SLAVE)).code, (await pair.ask(SLAVE, SendBack(0, "billing", 0))).code
        acting = ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SYSTEM_ERROR
        assert codes == (acting if is_acting else (ResponseCode.SYSTEM_BUSY, ResponseCode.SYSTEM_BUSY))
        assert (await pair.ask(SLAVE, lock)).body.lock_ok_mq_set == ([queue] if is_acting else [])


async def test_after_a_failover_the_old_master_renews_no_lock(pair: ReplicaSet) -> None:
    queue = MessageQueue("orders", "broker-a", 0)
    owner, other = (LockQueues(body=QueuesOfClient("billing", client, [queue])) for client in ("owner", "other"))
    assert (await pair.ask(MASTER, owner)).body.lock_ok_mq_set == [queue]
    await pair.failover(to=1)
    assert (await pair.ask(SLAVE, other)).body.lock_ok_mq_set == [queue]
    assert (await pair.ask(MASTER, owner)).body.lock_ok_mq_set == []


@pytest.mark.parametrize("pair", [{"slave_read_enable": False}], indirect=True)
async def test_pulls_are_rejected_unless_reading_is_enabled(pair: ReplicaSet) -> None:
    answer = await pair.pull(SLAVE, 0)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_BUSY, REJECTED)
    assert (await pair.ask(SLAVE, GetMaxOffset("orders", 0))).offset == 3


@pytest.mark.parametrize(
    ("offset", "code", "next_offset", "remark"),
    [
        (0, ResponseCode.SUCCESS, 3, "FOUND"),
        (3, ResponseCode.PULL_NOT_FOUND, 3, "OFFSET_OVERFLOW_ONE"),
        (9, ResponseCode.PULL_RETRY_IMMEDIATELY, 9, "OFFSET_OVERFLOW_BADLY"),
        (-1, ResponseCode.PULL_RETRY_IMMEDIATELY, -1, "OFFSET_TOO_SMALL"),
    ],
)
async def test_an_offset_outside_of_the_queue_is_not_corrected(
    pair: ReplicaSet, offset: int, code: int, next_offset: int, remark: str
) -> None:
    answer = await pair.pull(SLAVE, offset)
    assert (answer.code, answer.next_begin_offset, answer.remark) == (code, next_offset, remark)


@pytest.mark.parametrize("pair", [{"offset_check_in_slave": True}], indirect=True)
async def test_it_is_corrected_with_the_setting(pair: ReplicaSet) -> None:
    answer = await pair.pull(SLAVE, 9)
    assert (answer.code, answer.next_begin_offset) == (ResponseCode.PULL_OFFSET_MOVED, 3)


async def test_an_empty_queue(pair: ReplicaSet, world: SimulatedWorld) -> None:
    await pair.put_topic("empty")
    await world.run_for(seconds=2)
    assert (await pair.pull(SLAVE, 0, topic="empty")).code == ResponseCode.PULL_NOT_FOUND
    behind = await pair.pull(SLAVE, 5, topic="empty")
    assert (behind.code, behind.next_begin_offset) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 5)


async def test_a_pull_without_a_subscription_needs_a_heartbeat(pair: ReplicaSet) -> None:
    answer = await pair.ask(SLAVE, PullMessage("billing", "orders", 0, 0, 32, 0, 0, 0))
    assert answer.code == ResponseCode.SUBSCRIPTION_NOT_EXIST


@pytest.mark.parametrize("pair", [{"access_message_in_memory_max_ratio": 0}], indirect=True)
async def test_the_broker_suggests_which_replica_to_read(pair: ReplicaSet, world: SimulatedWorld) -> None:
    assert (await pair.pull(MASTER, 0)).suggest_which_broker_id == 1
    assert (await pair.pull(SLAVE, 0)).suggest_which_broker_id == 1
    assert (await pair.pull(MASTER, 3)).suggest_which_broker_id == 0
    group = SubscriptionGroupConfig("billing", which_broker_when_consume_slowly=2, broker_id=5)
    assert (await pair.ask(MASTER, UpdateGroup(body=group))).code == 0
    assert (await pair.pull(MASTER, 0)).suggest_which_broker_id == 2
    assert (await pair.pull(MASTER, 3)).suggest_which_broker_id == 5
    await pair.restart(MASTER, slave_read_enable=False)
    assert (await pair.pull(MASTER, 0)).suggest_which_broker_id == 0


@pytest.mark.parametrize("pair", [{"access_message_in_memory_max_ratio": 10}], indirect=True)
async def test_a_slave_keeps_a_tenth_of_its_memory_less_for_messages(pair: ReplicaSet) -> None:
    assert (await pair.pull(MASTER, 0)).suggest_which_broker_id == 0
    assert (await pair.pull(SLAVE, 0)).suggest_which_broker_id == 1


async def test_a_consumer_that_is_near_the_end_stays_at_the_master(pair: ReplicaSet) -> None:
    assert (await pair.pull(MASTER, 0)).suggest_which_broker_id == 0


async def test_ha_status_names_the_slaves_and_the_master(pair: ReplicaSet) -> None:
    there = (await pair.ask(MASTER, GetHighAvailability())).body
    assert there.master
    assert there.in_sync_slave_nums == 1
    [slave] = there.ha_connection_info
    assert (slave.slave_ack_offset, slave.diff, slave.in_sync) == (pair.end(MASTER), 0, True)
    own = (await pair.ask(SLAVE, GetHighAvailability())).body
    assert not own.master
    assert own.ha_client_runtime_info.max_offset == pair.end(SLAVE)
    assert own.ha_client_runtime_info.master_addr == "10.0.1.1:10911"
