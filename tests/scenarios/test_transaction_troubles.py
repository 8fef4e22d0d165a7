"""Transactions whose broker restarts, whose clock is moved at once, and whose program raises what is no Exception."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.broker.transactions.checks import RETURN_MS_MAX
from staticfire.client import (
    ClientSettings,
    Message,
    ProducerHook,
    ReceivedMessage,
    SendCall,
    TransactionProducer,
    TransactionState,
)
from staticfire.protocol.names import CHECK_MAX_TIME_TOPIC
from staticfire.protocol.properties import format_properties
from staticfire.protocol.requests.send import SendMessage
from staticfire.simulation.world import LinkQuality, SimulatedWorld
from tests.protocols import PROTOCOLS
from tests.scenarios.logged import LogLine
from tests.scenarios.test_client import NAMESRV
from tests.scenarios.test_transactions import COMMIT, HOUR_MS, ROLLBACK, TOPIC, UNKNOWN, Stand, ending

pytestmark = pytest.mark.row("F5")
BOTH_PROTOCOLS = pytest.mark.parametrize("stand", PROTOCOLS, indirect=True)

TRANSACTIONS = 60


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Stand]:
    stand = await Stand(world, ClientSettings(protocol=getattr(request, "param", "staticfire"))).open()
    yield stand
    await stand.pool.close()


@BOTH_PROTOCOLS
@pytest.mark.parametrize("state", [COMMIT, ROLLBACK])
async def test_an_advance_after_a_transaction_finds_it_ended(stand: Stand, state: object) -> None:
    """Also where requests to the broker take longer than those that move its clock."""
    async with stand.producer() as producer:
        await producer.send(Message(TOPIC, b"first"))
        stand.world.set_link("shop", "broker-a", LinkQuality(delay_ms=5, jitter_ms=45))
        for _ in range(3):
            sends = [
                producer.send_in_transaction(Message(TOPIC, b"x"), ending(state))  # type: ignore[arg-type]
                for _ in range(TRANSACTIONS // 3)
            ]
            await asyncio.gather(*sends)
            assert (await stand.advance(HOUR_MS)).checked == 0
    assert stand.requested == []


@BOTH_PROTOCOLS
@pytest.mark.parametrize("down_ms", [300, 3_000, 20_000])
async def test_a_producer_gets_a_check_soon_after_its_broker_was_killed(
    world: SimulatedWorld, stand: Stand, down_ms: int
) -> None:
    stand.broker_settings["transaction_time_out"] = 60_000
    await stand.start_broker("broker-b", host="10.0.1.2")
    world.kill("broker-a")
    await stand.start_broker("broker-a")
    async with stand.producer() as producer:
        for _ in range(4):
            await producer.send_in_transaction(Message(TOPIC, b"x"), ending(UNKNOWN))
        world.kill("broker-a")
        await world.run_for(down_ms)
        await stand.start_broker("broker-a")
        producers = stand.brokers["broker-a"].tables.groups.producers
        await world.until(lambda: "shop" in producers.producer_table, 1_500, "the broker knows the producer")
        stand.answer = lambda _: COMMIT
        assert (await stand.advance(HOUR_MS)).checked == 4
        assert len(stand.requested) == 4
        await world.run_for(seconds=1)
        assert await stand.stored() == [b"x"] * 4


@pytest.mark.parametrize("after_ms", [0.1, 0.5, 1.2, 5, 100])
async def test_a_kill_during_an_advance_uses_up_no_checks(world: SimulatedWorld, stand: Stand, after_ms: float) -> None:
    async with stand.producer() as producer:
        for _ in range(4):
            await producer.send_in_transaction(Message(TOPIC, b"x"), ending(UNKNOWN))
        advancing = asyncio.ensure_future(stand.advance(HOUR_MS))
        await world.run_for(after_ms)
        world.kill("broker-a")
        is_over = advancing.done()
        await world.run_for(200)
        await stand.start_broker("broker-a")
        stand.answer = lambda _: COMMIT
        await advancing
        if not is_over:
            await stand.advance(HOUR_MS)
            await world.run_for(seconds=1)
            assert await stand.stored() == [b"x"] * 4


async def test_an_advance_waits_a_moment_only_for_producers_that_stay_away(world: SimulatedWorld, stand: Stand) -> None:
    async with stand.producer() as producer:
        await producer.send_in_transaction(Message(TOPIC, b"x"), ending(UNKNOWN))
    world.kill("broker-a")
    await world.run_for(200)
    await stand.start_broker("broker-a")
    began_ms = world.uptime_ms
    await stand.advance(HOUR_MS)
    assert world.uptime_ms - began_ms < RETURN_MS_MAX + 1_500


async def test_a_half_message_that_is_older_than_messages_are_kept_is_set_aside_at_once(stand: Stand) -> None:
    """While message time is real, its age counts from when it was created: its program may have sent it long after."""
    properties = format_properties({"TRAN_MSG": "true", "PGROUP": "shop", "UNIQ_KEY": "U1"}).decode()
    born_ms = stand.world.machine("tools", host="10.0.2.9").clock.wall_ms() - 73 * HOUR_MS
    half = SendMessage("shop", TOPIC, "TBW102", 4, 0, 4, born_ms, 0, properties, body=b"old")
    async with stand.producer() as producer:
        await producer.send(Message(TOPIC, b"hello"))
        assert (await stand.pool.ask("10.0.1.1:10911", half)).code == 0
        await stand.world.run_for(seconds=10)
    assert stand.requested == []
    assert await stand.stored(CHECK_MAX_TIME_TOPIC) == [b"old"]


async def test_the_producers_of_a_group_get_checks_in_turn(world: SimulatedWorld, stand: Stand) -> None:
    requested: list[str] = []

    def producer(name: str) -> TransactionProducer:
        def check(_: ReceivedMessage) -> TransactionState:
            requested.append(name)
            return UNKNOWN

        return TransactionProducer("shop", NAMESRV, machine=world.machine(name, host="10.0.2.1"), check=check)

    async with producer("one") as one, producer("two") as two:
        await two.send(Message(TOPIC, b"hello"))
        for _ in range(4):
            await one.send_in_transaction(Message(TOPIC, b"x"), ending(UNKNOWN))
        await stand.advance(10_000)
    assert sorted(requested) == ["one", "one", "two", "two"]


async def test_a_broker_that_never_comes_back_is_looked_for_no_more(world: SimulatedWorld, stand: Stand) -> None:
    await stand.start_broker("broker-b", host="10.0.1.2")
    async with stand.producer() as producer:
        for _ in range(4):
            await producer.send(Message(TOPIC, b"x"))
        world.kill("broker-a")
        await world.run_for(minutes=5)
        await producer.send(Message(TOPIC, b"x"))


RAISED = [SystemExit(3), asyncio.CancelledError(), GeneratorExit(), pytest.fail.Exception("x"), ValueError("x")]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
async def test_whatever_a_check_raises_is_unknown_and_it_is_checked_again(
    stand: Stand, logged: list[LogLine], error: BaseException, is_async: bool
) -> None:
    def fail(_: ReceivedMessage) -> object:
        if len(stand.requested) == 1:
            raise error
        return COMMIT

    async def fail_later(message: ReceivedMessage) -> object:
        return fail(message)

    stand.answer = fail_later if is_async else fail  # type: ignore[assignment]
    async with stand.producer() as producer:
        await producer.send_in_transaction(Message(TOPIC, b"x"), ending(UNKNOWN))
        await stand.advance(HOUR_MS)
        assert len(stand.requested) == 2
        await producer.send(Message(TOPIC, b"after"))
    assert await stand.stored() == [b"after", b"x"]
    assert [line.event for line in logged].count("transaction_check_raised") == 1


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("name", ["before_send", "after_send"])
async def test_whatever_a_hook_raises_the_message_is_sent(
    stand: Stand, logged: list[LogLine], error: BaseException, name: str
) -> None:
    class Raising(ProducerHook):
        pass

    def fail(_: SendCall) -> None:
        raise error

    setattr(Raising, name, staticmethod(fail))
    async with stand.producer() as producer:
        producer.add_hook(Raising())
        await producer.send(Message(TOPIC, b"1"))
        await producer.send_many([Message(TOPIC, b"2")])
        await producer.send_oneway(Message(TOPIC, b"3"))
        await producer.send_in_transaction(Message(TOPIC, b"4"), ending(COMMIT))
        await stand.world.run_for(seconds=1)
    assert await stand.stored() == [b"1", b"2", b"3", b"4"]
    assert [line.fields["hook"] for line in logged if line.event == "hook_raised"] == [name] * 4


@pytest.mark.parametrize("error", [*RAISED, KeyboardInterrupt()], ids=lambda error: type(error).__name__)
async def test_a_send_that_is_forbidden_with_anything_leaves_nothing_behind(stand: Stand, error: BaseException) -> None:
    class Forbidding(ProducerHook):
        def check_forbidden(self, call: SendCall) -> None:
            if call.message.body == b"bad":
                raise error

    async with stand.producer() as producer:
        producer.add_hook(Forbidding())
        for _ in range(3):
            with pytest.raises(type(error)):
                await producer.send(Message(TOPIC, b"bad"))
        await producer.send(Message(TOPIC, b"good"))
    assert await stand.stored() == [b"good"]


async def test_a_hook_that_is_interrupted_interrupts_the_send_and_nothing_else(stand: Stand) -> None:
    class Interrupted(ProducerHook):
        def before_send(self, call: SendCall) -> None:
            if call.message.body == b"bad":
                raise KeyboardInterrupt

    async with stand.producer() as producer:
        producer.add_hook(Interrupted())
        with pytest.raises(KeyboardInterrupt):
            await producer.send(Message(TOPIC, b"bad"))
        await producer.send(Message(TOPIC, b"good"))
    assert await stand.stored() == [b"good"]
