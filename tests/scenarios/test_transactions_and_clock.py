"""The age of a transaction, in a cluster whose message time was moved, and with settings that change meanwhile."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import ClientSettings, Message, TransactionProducer
from staticfire.protocol.message_ids import parse_offset_id
from staticfire.protocol.names import CHECK_MAX_TIME_TOPIC
from staticfire.protocol.properties import CHECK_IMMUNITY_TIME_IN_SECONDS, TIMER_DELAY_SEC
from staticfire.protocol.requests.clock import Clock
from staticfire.protocol.requests.config import UpdateBrokerConfig
from staticfire.protocol.requests.transactions import EndTransaction
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.simulated_cluster import NAMESRV
from tests.scenarios.test_transactions import COMMIT, HOUR_MS, MINUTE_MS, TOPIC, UNKNOWN, Stand, end, ending

pytestmark = pytest.mark.row("F5")

DAY_MS = 24 * HOUR_MS
TOO_LATE = (604, "Message commit fail [checkImmunityTime]: too late")


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[Stand]:
    stand = await Stand(world, ClientSettings()).open()
    yield stand
    await stand.pool.close()


async def open_half(producer: TransactionProducer, body: bytes = b"x", immunity_s: str = "") -> EndTransaction:
    """Send a half message that is not ended; return the request that commits it."""
    message = Message(TOPIC, body)
    if immunity_s:
        message.system_properties = {CHECK_IMMUNITY_TIME_IN_SECONDS: immunity_s}
    sent = (await producer.send_in_transaction(message, ending(UNKNOWN))).sent
    return EndTransaction("shop", sent.queue_offset, parse_offset_id(sent.offset_message_id)[1], 8)


async def change(stand: Stand, settings: str) -> None:
    assert (await stand.pool.ask("10.0.1.1:10911", UpdateBrokerConfig(body=settings.encode()))).code == 0


# -- message time that was moved ---------------------------------------------------------------------------------------


async def test_a_transaction_after_an_advance_of_days_is_checked_like_any_other(stand: Stand) -> None:
    """Its program lives in real time, in which the message was created four days ago."""
    await stand.advance(4 * DAY_MS)
    stand.answer = lambda _: COMMIT
    async with stand.producer() as producer:
        await open_half(producer, b"slow")
        await stand.world.run_for(seconds=5.5)
        assert stand.requested == []
        await stand.world.run_for(seconds=1)
    assert len(stand.requested) == 1
    assert await stand.stored() == [b"slow"]


async def test_a_commit_after_an_advance_is_not_too_late(stand: Stand) -> None:
    await stand.advance(HOUR_MS)
    async with stand.producer() as producer:
        message = Message(TOPIC, b"slow")
        message.system_properties = {CHECK_IMMUNITY_TIME_IN_SECONDS: "40"}
        await producer.send_in_transaction(message, ending(COMMIT))
        await stand.world.run_for(seconds=1)
    assert await stand.stored() == [b"slow"]


async def test_a_commit_is_too_late_after_its_immunity_has_passed_in_message_time(stand: Stand) -> None:
    await stand.advance(HOUR_MS)
    async with stand.producer() as producer:
        request = await open_half(producer, immunity_s="40")
        await stand.advance(39_000)
        await stand.advance(2_000)
        assert await end(stand, request) == TOO_LATE


async def test_a_transaction_that_is_open_during_an_advance_of_days_gets_all_its_checks(stand: Stand) -> None:
    async with stand.producer() as producer:
        await open_half(producer, b"never")
        stand.answer = lambda message: COMMIT if message.body == b"at last" else UNKNOWN
        await open_half(producer, b"at last")
        assert (await stand.advance(4 * DAY_MS)).checked == 15 + 1 + 1
    assert [message.body for message in stand.requested].count(b"never") == 15
    assert await stand.stored(CHECK_MAX_TIME_TOPIC) == [b"never"]
    assert await stand.stored() == [b"at last"]


async def test_a_transaction_gets_all_its_checks_if_time_runs_fast(stand: Stand) -> None:
    async with stand.producer() as producer:
        await stand.pool.ask(NAMESRV, Clock("scale", rate=3_600))
        await open_half(producer, b"never")
        await stand.world.run_for(seconds=1)
    assert len(stand.requested) == 15
    assert await stand.stored(CHECK_MAX_TIME_TOPIC) == [b"never"]


async def test_with_a_clock_that_was_never_moved_the_age_counts_from_the_clients_time(stand: Stand) -> None:
    """As in RocketMQ, also if the client's clock is wrong."""
    async with stand.producer() as producer:
        stand.world.skew("shop", -MINUTE_MS)
        assert await end(stand, await open_half(producer, immunity_s="40")) == TOO_LATE
    assert await stand.stored() == []


# -- settings that change while transactions are open ------------------------------------------------------------------


async def test_a_longer_time_out_holds_for_transactions_that_are_open(stand: Stand) -> None:
    async with stand.producer() as producer:
        await open_half(producer)
        await change(stand, "transactionTimeOut=600000")
        await stand.world.run_for(minutes=9.9)
        assert stand.requested == []
        await stand.world.run_for(seconds=10)
        assert len(stand.requested) == 1


async def test_a_shorter_time_out_holds_for_transactions_that_are_open(stand: Stand) -> None:
    await change(stand, "transactionTimeOut=600000")
    async with stand.producer() as producer:
        await open_half(producer)
        await open_half(producer, b"immune", immunity_s="40")
        await stand.world.run_for(seconds=15)
        await change(stand, "transactionTimeOut=6000")
        await stand.world.run_for(seconds=1)
        assert [message.body for message in stand.requested] == [b"x"]
        await stand.world.run_for(seconds=23)
        assert [message.body for message in stand.requested] == [b"x"]
        await stand.world.run_for(seconds=2)
        assert [message.body for message in stand.requested] == [b"x", b"immune"]


async def test_an_advance_counts_only_checks_that_a_longer_time_out_lets_happen(stand: Stand) -> None:
    async with stand.producer() as producer:
        await open_half(producer)
        await change(stand, "transactionTimeOut=600000")
        assert (await stand.advance(9 * MINUTE_MS)).checked == 0
        assert (await stand.advance(MINUTE_MS)).checked == 1


async def test_another_check_interval_holds_from_the_next_check_on(stand: Stand) -> None:
    async with stand.producer() as producer:
        await open_half(producer)
        await stand.world.run_for(seconds=10)
        await change(stand, "transactionCheckInterval=5000")
        await stand.world.run_for(seconds=27)
        assert len(stand.requested) == 2
        await stand.world.run_for(seconds=5)
        assert len(stand.requested) == 3


async def test_a_shorter_limit_of_delivery_times_refuses_no_commit(stand: Stand) -> None:
    """The half message was accepted with its time."""
    async with stand.producer() as producer:
        message = Message(TOPIC, b"later")
        message.system_properties = {TIMER_DELAY_SEC: "60"}  # Our client sends no half message with a time.
        sent = (await producer.send_in_transaction(message, ending(UNKNOWN))).sent
        await change(stand, "timerMaxDelaySec=10")
        request = EndTransaction("shop", sent.queue_offset, parse_offset_id(sent.offset_message_id)[1], 8)
        assert await end(stand, request) == (0, None)
        await stand.advance(59_000)
        assert await stand.stored() == []
        await stand.advance(2_000)
    assert await stand.stored() == [b"later"]
