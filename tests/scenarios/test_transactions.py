"""Messages in two halves: committed, rolled back, asked about, killed at each step. In simulated time."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest
import pytest_asyncio

from staticfire.client import (
    ClientSettings,
    Message,
    ProducerSettings,
    PullConsumer,
    ReceivedMessage,
    TransactionProducer,
    TransactionState,
)
from staticfire.protocol.errors import BrokerAnswer, ClientError
from staticfire.protocol.message_ids import parse_offset_id
from staticfire.protocol.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from staticfire.protocol.properties import CHECK_IMMUNITY_TIME_IN_SECONDS
from staticfire.protocol.requests.clock import Clock, ClockAnswer
from staticfire.protocol.requests.reset import Reset
from staticfire.protocol.requests.send import ManyMessage, SendMany
from staticfire.protocol.requests.transactions import EndTransaction
from staticfire.protocol.sys_flag import TransactionKind, transaction_kind
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import PROTOCOLS
from tests.scenarios.simulated_cluster import NAMESRV, SimulatedCluster
from tests.scenarios.test_client import read_all

pytestmark = pytest.mark.row("F5")

COMMIT, ROLLBACK, UNKNOWN = TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN
TOPIC = "orders"
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
BOTH_PROTOCOLS = pytest.mark.parametrize("stand", PROTOCOLS, indirect=True)


@dataclass
class Stand(SimulatedCluster):
    """A cluster, and a program that sends in transactions and remembers what it was asked."""

    requested: list[ReceivedMessage] = field(default_factory=list)
    answer: Callable[[ReceivedMessage], TransactionState] = lambda _: UNKNOWN

    async def open(self, brokers: int = 1) -> "Stand":
        await self.start_servers(brokers)
        self.pool = ConnectionPool(self.world.machine("tools", host="10.0.2.9"))
        return self

    def producer(self, name: str = "shop") -> TransactionProducer:
        def check(message: ReceivedMessage) -> TransactionState:
            self.requested.append(message)
            return self.answer(message)

        machine = self.world.machine(name, host="10.0.2.1")
        return TransactionProducer("shop", NAMESRV, ProducerSettings(client=self.settings), machine, check=check)

    async def stored(self, topic: str = TOPIC) -> list[bytes]:
        machine = self.world.machine("reader", host="10.0.2.2")
        async with PullConsumer("readers", NAMESRV, machine=machine) as consumer:
            return sorted(await read_all(consumer, topic))

    async def advance(self, ms: int) -> ClockAnswer:
        return await self.move_clock(self.pool, ms)


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Stand]:
    stand = await Stand(world, ClientSettings(protocol=getattr(request, "param", "staticfire"))).open()
    yield stand
    await stand.pool.close()


def ending(state: TransactionState) -> Callable[[Message, object], TransactionState]:
    return lambda _message, _argument: state


@BOTH_PROTOCOLS
async def test_a_committed_message_is_there_and_a_rolled_back_one_is_not(stand: Stand) -> None:
    async with stand.producer() as producer:
        first = await producer.send_in_transaction(Message(TOPIC, b"paid", tags="t", keys="k"), ending(COMMIT))
        await producer.send_in_transaction(Message(TOPIC, b"refused"), ending(ROLLBACK))
        await stand.world.run_for(seconds=1)
    assert await stand.stored() == [b"paid"]
    async with PullConsumer("readers", NAMESRV, machine=stand.world.machine("r", host="10.0.2.3")) as consumer:
        [message] = [
            message for queue in await consumer.queues(TOPIC) for message in (await consumer.pull(queue, 0)).messages
        ]
    assert (message.tags, message.keys, message.message_id) == ("t", ["k"], first.sent.message_id)
    assert transaction_kind(message.sys_flag) is TransactionKind.COMMIT
    assert message.prepared_position == parse_offset_id(first.sent.offset_message_id)[1]
    assert len(stand.brokers["broker-a"].transactions) == 0


async def test_no_consumer_sees_a_half_message_while_its_transaction_runs(stand: Stand) -> None:
    seen: list[list[bytes]] = []

    async def execute(_message: Message, argument: object) -> TransactionState:
        assert argument == "order 7"
        seen.append(await stand.stored())
        return COMMIT

    async with stand.producer() as producer:
        await producer.send(Message(TOPIC, b"before"))
        await producer.send_in_transaction(Message(TOPIC, b"paid"), execute, "order 7")
        await stand.world.run_for(seconds=1)
    assert seen == [[b"before"]]
    assert await stand.stored() == [b"before", b"paid"]


@BOTH_PROTOCOLS
async def test_a_producer_that_says_nothing_gets_a_check_and_can_commit_then(stand: Stand) -> None:
    stand.answer = lambda _: COMMIT
    async with stand.producer() as producer:
        await producer.send_in_transaction(Message(TOPIC, b"late"), ending(UNKNOWN))
        await stand.world.run_for(seconds=5.5)
        assert stand.requested == []
        await stand.world.run_for(seconds=1)
        [requested] = stand.requested
        assert (requested.topic, requested.body, requested.get("TRANSACTION_CHECK_TIMES")) == (TOPIC, b"late", "1")
    assert await stand.stored() == [b"late"]


async def test_a_transaction_that_raises_is_checked(stand: Stand) -> None:
    def execute(_message: Message, _argument: object) -> TransactionState:
        raise OSError("the database is gone")

    stand.answer = lambda _: ROLLBACK
    async with stand.producer() as producer:
        result = await producer.send_in_transaction(Message(TOPIC, b"x"), execute)
        assert (result.state, str(result.error)) == (UNKNOWN, "the database is gone")
        report = await stand.advance(MINUTE_MS)
    assert (report.checked, len(stand.requested)) == (1, 1)
    assert await stand.stored() == []


async def test_a_producer_that_never_knows_gets_fifteen_checks_and_then_the_message_is_moved_away(stand: Stand) -> None:
    async with stand.producer() as producer:
        await producer.send_in_transaction(Message(TOPIC, b"nobody knows"), ending(UNKNOWN))
        began_ms = stand.world.uptime_ms
        report = await stand.advance(10 * MINUTE_MS)
        assert stand.world.uptime_ms - began_ms < 5_000
    assert len(stand.requested) == 15
    assert report.checked == 16  # the last one is set aside
    assert [message.get("TRANSACTION_CHECK_TIMES") for message in stand.requested] == [str(n) for n in range(1, 16)]
    assert await stand.stored(CHECK_MAX_TIME_TOPIC) == [b"nobody knows"]
    assert await stand.stored() == []


async def test_another_producer_of_the_group_gets_the_check_when_the_first_one_is_gone(stand: Stand) -> None:
    async with stand.producer() as producer:
        await producer.send_in_transaction(Message(TOPIC, b"orphan"), ending(UNKNOWN))
    stand.answer = lambda _: COMMIT
    async with stand.producer("another shop") as another:
        await another.send(Message(TOPIC, b"hello"))
        await stand.advance(MINUTE_MS)
    assert await stand.stored() == [b"hello", b"orphan"]


@pytest.mark.parametrize("is_early", [False, True])
async def test_a_producer_that_has_just_come_back_gets_a_check_before_it_sends_anything(
    stand: Stand, is_early: bool
) -> None:
    async with stand.producer() as producer:
        await producer.send_in_transaction(Message(TOPIC, b"orphan"), ending(UNKNOWN))
        await stand.world.run_for(seconds=1)
        stand.world.kill("shop")
    stand.answer = lambda _: COMMIT
    if is_early:  # It comes before there is a cluster.
        stand.world.kill("namesrv")
    async with stand.producer("another shop"):
        await stand.world.run_for(seconds=1)
        if is_early:
            await stand.start_nameserver("namesrv")
        await stand.world.run_for(seconds=120)
        assert await stand.stored() == [b"orphan"]


async def test_without_a_producer_no_check_is_sent_and_it_counts_all_the_same(stand: Stand) -> None:
    async with stand.producer() as producer:
        await producer.send_in_transaction(Message(TOPIC, b"alone"), ending(UNKNOWN))
    await stand.world.run_for(seconds=1)
    await stand.advance(20 * MINUTE_MS)
    assert stand.requested == []
    assert await stand.stored(CHECK_MAX_TIME_TOPIC) == [b"alone"]


@pytest.mark.parametrize("power_loss", [False, True])
async def test_open_transactions_survive_a_kill_of_the_broker(stand: Stand, power_loss: bool) -> None:
    stand.broker_settings["flush_disk_type"] = "SYNC_FLUSH"
    await stand.world.stop("broker-a")
    await stand.start_broker()
    async with stand.producer() as producer:
        await producer.send_in_transaction(Message(TOPIC, b"done"), ending(COMMIT))
        await producer.send_in_transaction(Message(TOPIC, b"gone"), ending(ROLLBACK))
        await producer.send_in_transaction(Message(TOPIC, b"open"), ending(UNKNOWN))
        await stand.world.run_for(seconds=20)  # asked once, and that is saved
        stand.world.kill("broker-a", power_loss)
        await stand.start_broker()
        assert len(stand.brokers["broker-a"].transactions) == 1
        stand.answer = lambda _: COMMIT
        await stand.world.run_for(seconds=60)
    assert await stand.stored() == [b"done", b"open"]
    assert {message.body for message in stand.requested} == {b"open"}


@pytest.mark.parametrize(("minutes", "stored"), [(2, [b"open"]), (20, [])], ids=["for a while", "for good"])
async def test_a_half_message_that_can_not_be_read_is_read_again_at_the_next_check(
    stand: Stand, minutes: int, stored: list[bytes]
) -> None:
    async with stand.producer() as producer:
        await producer.send_in_transaction(Message(TOPIC, b"open"), ending(UNKNOWN))
        await stand.world.stop("broker-a")
        await stand.start_broker()
        stand.answer = lambda _: COMMIT
        disk = stand.world.disk("broker-a")
        [path] = [path for path in disk.files if "/commitlog/" in path]
        disk.bad_sectors.append((path, 0, 4096))
        await stand.world.run_for(seconds=60 * minutes)
        assert stand.requested == []
        disk.bad_sectors.clear()
        await stand.world.run_for(seconds=60)
    assert await stand.stored() == stored


async def test_a_restart_knows_how_many_checks_were_made(stand: Stand) -> None:
    async with stand.producer() as producer:
        await producer.send_in_transaction(Message(TOPIC, b"open"), ending(UNKNOWN))
        await stand.world.run_for(seconds=40)
        assert len(stand.requested) == 2
        await stand.world.stop("broker-a")
        await stand.start_broker()
        await stand.world.run_for(seconds=70)
    assert [message.get("TRANSACTION_CHECK_TIMES") for message in stand.requested][:3] == ["1", "2", "3"]


async def half_of(stand: Stand, producer: TransactionProducer, body: bytes = b"half") -> EndTransaction:
    """Send a half message that nobody ends; return the request that commits it."""
    result = await producer.send_in_transaction(Message(TOPIC, body), ending(UNKNOWN))
    log_position = parse_offset_id(result.sent.offset_message_id)[1]
    return EndTransaction("shop", result.sent.queue_offset, log_position, 8, msg_id=result.sent.message_id)


async def end(stand: Stand, request: EndTransaction) -> tuple[int, str | None]:
    answer = await stand.pool.ask("10.0.1.1:10911", request)
    return answer.code, answer.remark


@pytest.mark.parametrize(("repeats", "stored"), [(False, 1), (True, 2)])
async def test_a_second_commit_stores_nothing_again(world: SimulatedWorld, repeats: bool, stored: int) -> None:
    stand = await Stand(world, ClientSettings(), {"repeat_ended_commits": repeats}).open()
    async with stand.producer() as producer:
        request = await half_of(stand, producer)
        assert await end(stand, request) == (0, None)
        assert await end(stand, request) == (0, None)
    assert await stand.stored() == [b"half"] * stored
    await stand.pool.close()


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_transaction_that_was_set_aside_can_be_committed_once(stand: Stand, is_killed: bool) -> None:
    """RocketMQ stores it then; answered with success and not stored, it would be lost."""
    async with stand.producer() as producer:
        request, rolled_back = await half_of(stand, producer, b"late"), await half_of(stand, producer, b"too late")
        await stand.advance(HOUR_MS)
        assert await stand.stored(CHECK_MAX_TIME_TOPIC) == [b"late", b"too late"]
        if is_killed:
            stand.world.kill("broker-a")
            await stand.start_broker()
        rolled_back.commit_or_rollback = 12
        assert await end(stand, rolled_back) == (0, None)
        for _ in range(2):
            assert await end(stand, request) == (0, None)
    assert await stand.stored() == [b"late"]


@pytest.mark.parametrize(("answer", "place"), [(COMMIT, TOPIC), (UNKNOWN, CHECK_MAX_TIME_TOPIC)])
async def test_what_a_full_disk_refuses_is_checked_until_it_can_be_stored(
    stand: Stand, answer: TransactionState, place: str
) -> None:
    """Whether that is its commit, or that it is set aside; a commit that was refused is no question too many."""
    stand.answer = lambda _: answer
    disk = stand.world.disk("broker-a")
    async with stand.producer() as producer:
        await producer.send_in_transaction(Message(TOPIC, b"paid"), ending(UNKNOWN))
        disk.bytes_left = 0
        await stand.world.run_for(seconds=600)
        assert len(stand.requested) > 15
        assert len(stand.brokers["broker-a"].transactions) == 1
        disk.bytes_left = None
        await stand.world.run_for(seconds=600)
    assert len(stand.brokers["broker-a"].transactions) == 0
    assert await stand.stored(place) == [b"paid"]


async def test_a_commit_after_a_rollback_brings_nothing_back(stand: Stand) -> None:
    async with stand.producer() as producer:
        request = await half_of(stand, producer)
        request.commit_or_rollback = 12
        assert await end(stand, request) == (0, None)
        request.commit_or_rollback = 8
        assert await end(stand, request) == (0, None)
    assert await stand.stored() == []
    assert await stand.stored(OP_HALF_TOPIC) == [b"0,"]


async def test_ends_that_make_no_sense_are_refused_as_rocketmq_does(stand: Stand) -> None:
    async with stand.producer() as producer:
        request = await half_of(stand, producer)
        for fault, words in (
            ({"commit_or_rollback": 5}, "commitOrRollback field wrong"),
            ({"commit_log_offset": 7}, "Find prepared transaction message failed"),
            ({"commit_log_offset": 1 << 40}, "Find prepared transaction message failed"),
            ({"producer_group": "others"}, "The producer group wrong"),
            ({"tran_state_table_offset": 99}, "The transaction state table offset wrong"),
        ):
            wrong = EndTransaction("shop", request.tran_state_table_offset, request.commit_log_offset, 8)
            for name, value in fault.items():
                setattr(wrong, name, value)
            code, remark = await end(stand, wrong)
            assert (code, words in (remark or "")) == (1, True), remark
    assert await stand.stored() == []
    assert len(await stand.stored(HALF_TOPIC)) == 1


async def test_a_message_can_ask_to_be_left_alone_for_longer(stand: Stand) -> None:
    async with stand.producer() as producer:
        message = Message(TOPIC, b"slow", properties={})
        message.system_properties = {CHECK_IMMUNITY_TIME_IN_SECONDS: "40"}
        await producer.send_in_transaction(message, ending(UNKNOWN))
        await stand.world.run_for(seconds=39)
        assert stand.requested == []
        await stand.world.run_for(seconds=2)
        assert len(stand.requested) == 1


async def test_half_messages_are_refused_where_they_cannot_be(world: SimulatedWorld) -> None:
    stand = await Stand(world, ClientSettings(), {"reject_transaction_message": True}).open()
    async with stand.producer() as producer:
        with pytest.raises(BrokerAnswer, match=r"sending transaction message is forbidden"):
            await producer.send_in_transaction(Message(TOPIC, b"x"), ending(COMMIT))
    await stand.pool.close()


async def test_a_half_message_travels_by_itself(stand: Stand) -> None:
    many = SendMany("shop", "TBW102", 4, body=[ManyMessage(TOPIC, 0, b"TRAN_MSG\x01true\x02", b"x")])
    answer = await stand.pool.ask("10.0.1.1:10911", many)
    [result] = answer.body
    assert (result.code, result.remark) == (13, "a half message must be sent alone, not with others")


async def test_a_producer_of_transactions_says_how_they_are_checked(stand: Stand) -> None:
    with pytest.raises(ClientError, match=r"needs check="):
        TransactionProducer("shop", NAMESRV, machine=stand.world.machine("x", host="10.0.2.7"))


async def test_a_skipping_clock_waits_for_who_works(stand: Stand) -> None:
    """The transaction takes 3 s of real time: none of its 15 questions comes meanwhile."""

    async def execute(_message: Message, _argument: object) -> TransactionState:
        await stand.world.run_for(seconds=3)
        return COMMIT

    async with stand.producer() as producer:
        await stand.pool.ask(NAMESRV, Clock("skip"))
        await producer.send_in_transaction(Message(TOPIC, b"worked"), execute)
        await stand.world.run_for(seconds=1)
    assert stand.requested == []
    assert await stand.stored() == [b"worked"]


async def test_transactions_end_on_the_broker_where_they_began(world: SimulatedWorld) -> None:
    stand = await Stand(world, ClientSettings()).open(brokers=2)
    async with stand.producer() as producer:
        for number in range(20):
            state = COMMIT if number % 2 else ROLLBACK
            await producer.send_in_transaction(Message(TOPIC, b"%02d" % number), ending(state))
        await world.run_for(seconds=1)
    assert await stand.stored() == [b"%02d" % number for number in range(1, 20, 2)]
    assert all(len(broker.transactions) == 0 for broker in stand.brokers.values())
    await stand.pool.close()


async def test_a_reset_forgets_open_transactions(stand: Stand) -> None:

    async with stand.producer() as producer:
        await half_of(stand, producer)
        assert (await stand.pool.ask("10.0.1.1:10911", Reset())).code == 0
        await stand.advance(MINUTE_MS)
    assert stand.requested == []
