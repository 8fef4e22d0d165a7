"""Disk errors while the target queue of due messages is loaded: the messages wait until the disk works again."""

import errno
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from staticfire.client import ClientSettings, Message
from staticfire.protocol.names import CHECK_MAX_TIME_TOPIC
from staticfire.protocol.properties import format_properties
from staticfire.protocol.requests.clock import Clock
from staticfire.protocol.requests.send import SendMessage
from staticfire.protocol.requests.upkeep import DeleteExpired
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.broker_stand import NAME, BrokerStand
from tests.scenarios.logged import LogLine
from tests.scenarios.simulated_cluster import NAMESRV
from tests.scenarios.test_transactions import HOUR_MS, UNKNOWN, Stand, ending

BROKER = "10.0.1.1:10911"


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[Stand]:
    stand = await Stand(world, ClientSettings()).open()
    yield stand
    await stand.pool.close()


async def send(stand: Stand, topic: str, body: bytes, **properties: str) -> None:
    born_ms = stand.world.machine("tools").clock.wall_ms()
    text = format_properties(properties).decode()
    request = SendMessage("producers", topic, "TBW102", 4, 0, 0, born_ms, 0, text, body=body)
    assert (await stand.pool.ask(BROKER, request)).code == 0


async def restart(stand: Stand) -> None:
    """Restart the broker: a queue is loaded when it is needed."""
    await stand.world.stop("broker-a")
    await stand.start_broker()
    await stand.world.run_for(seconds=1)


def no_file_of(topic: str) -> Callable[[str, int, int, bool], int]:
    """Return a fault: the process has no file descriptor left for the queues of a topic."""

    def fail(path: str, position: int, _size: int, _is_map: bool) -> int:
        if f"/consumequeue/{topic}/" in path:
            raise OSError(errno.EMFILE, "Too many open files", path)
        return position

    return fail


@pytest_asyncio.fixture
async def four_timers(stand: Stand) -> Stand:
    """The first timer's queue can be loaded; the queue of the other three can't."""
    await send(stand, "orders", b"first")
    await send(stand, "bills", b"1", TIMER_DELAY_SEC="60")
    for number in range(2, 5):
        await send(stand, "orders", b"%d" % number, TIMER_DELAY_SEC="60")
    await restart(stand)
    stand.world.disk("broker-a").on_read = no_file_of("orders")
    return stand


@pytest.mark.row("D4")
async def test_timers_wait_while_their_queue_cant_be_loaded(four_timers: Stand, logged: list[LogLine]) -> None:
    stand, disk = four_timers, four_timers.world.disk("broker-a")
    await stand.world.run_for(seconds=62)
    assert [line.event for line in logged if line.level == "error"] == ["timers_not_delivered"]
    assert len(stand.brokers["broker-a"].timers) == 3
    assert await stand.stored("bills") == [b"1"]
    disk.on_read = None
    await stand.world.run_for(seconds=1)
    assert await stand.stored("orders") == [b"2", b"3", b"4", b"first"]


@pytest.mark.row("D4", "S1")
async def test_an_advance_drops_no_timers_whose_queue_cant_be_loaded(four_timers: Stand, logged: list[LogLine]) -> None:
    stand, disk = four_timers, four_timers.world.disk("broker-a")
    answer = await stand.pool.ask(NAMESRV, Clock("advance", by_ms=HOUR_MS, settle_ms_max=3_000), 3_600_000)
    assert "broker broker-a can't deliver due messages" in (answer.remark or "")
    errors = [line.event for line in logged if line.level == "error"]
    assert (errors.count("due_not_delivered"), errors.count("handler_failed")) == (1, 0)  # Once, for all its tries.
    assert len(stand.brokers["broker-a"].timers) == 3
    assert stand.brokers["broker-a"].timers.next_due_ms() is not None
    disk.on_read = None
    await stand.advance(HOUR_MS)
    assert await stand.stored("orders") == [b"2", b"3", b"4", b"first"]


@pytest.mark.row("F5", "S1")
@pytest.mark.parametrize("is_advance", [False, True])
async def test_transactions_stay_open_while_they_cant_be_moved_away(
    stand: Stand, logged: list[LogLine], is_advance: bool
) -> None:
    async with stand.producer() as producer:
        await producer.send_in_transaction(Message("orders", b"1"), ending(UNKNOWN))
        await stand.advance(HOUR_MS)
        for number in (b"2", b"3"):
            await producer.send_in_transaction(Message("orders", number), ending(UNKNOWN))
        await restart(stand)
        stand.world.disk("broker-a").on_read = no_file_of(CHECK_MAX_TIME_TOPIC)
        if is_advance:
            await stand.advance(HOUR_MS // 4)  # Then both would be moved away, if that worked.
        else:
            await stand.world.run_for(minutes=10)
            assert [line.event for line in logged if line.level == "error"] == ["transactions_not_checked"]
        assert len(stand.brokers["broker-a"].transactions) == 2
        stand.world.disk("broker-a").on_read = None
        await stand.advance(HOUR_MS)
        await stand.world.run_for(seconds=5)
    assert await stand.stored(CHECK_MAX_TIME_TOPIC) == [b"1", b"2", b"3"]


@pytest.mark.row("F2")
async def test_retention_goes_on_after_a_queue_of_waiting_messages_could_not_be_read(
    world: SimulatedWorld, logged: list[LogLine]
) -> None:
    broker = BrokerStand(world, mapped_file_size_commit_log=64 * 1024, clean_file_forcibly_keep_bytes=100 * 1024)
    await broker.start()
    await broker.put_topic("orders")
    assert (await broker.send("orders", b"waits", DELAY="18")).code == 0
    assert (await broker.send("orders", b"waits", TIMER_DELAY_SEC="7200")).code == 0
    await broker.restart()
    for _ in range(30):
        assert (await broker.send("orders", bytes(10_000))).code == 0
    world.disk(NAME).on_read = no_file_of("SCHEDULE_TOPIC_XXXX")
    world.disk(NAME).others_bytes = world.disk(NAME).total_bytes  # Old messages are removed, also if one waits.
    await world.run_for(seconds=40)
    assert [line.fields["error"] for line in logged if line.event == "retention_failed"] == [
        "[Errno 24] Too many open files: '/store/consumequeue/SCHEDULE_TOPIC_XXXX/17/00000000000000000000'"
    ]
    assert world.failures(NAME) == []
    assert (await broker.ask(DeleteExpired())).code != 0
    world.disk(NAME).on_read = None
    world.disk(NAME).others_bytes = 0
    await world.run_for(seconds=40)
    lost = {line.event: line.fields for line in logged if line.event in ("delayed_messages_lost", "timers_lost")}
    assert (lost["delayed_messages_lost"]["by_level"], lost["timers_lost"]["messages"]) == ({18: 1}, 1)
    assert (await broker.send("orders", b"last")).code == 0
    await broker.close()
