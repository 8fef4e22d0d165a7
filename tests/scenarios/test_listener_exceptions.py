"""Whatever a listener raises, its messages come again; what ends the consumer is loud."""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from staticfire.client import (
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    OrderedContext,
    OrderedStatus,
    PushConsumer,
)
from staticfire.protocol.errors import ClientError
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import GROUP, TOPIC, Messages, Shop, forever

SUCCESS = ConsumeStatus.CONSUME_SUCCESS


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld) -> AsyncIterator[Shop]:
    shop = Shop(world)
    yield await shop.open(queues=1)
    await shop.close()


def fail_a_test() -> None:
    pytest.fail("it wasn't paid")


def fail_a_call() -> None:
    raise ValueError("out of luck")


def exit_from_a_parser() -> None:
    argparse.ArgumentParser(exit_on_error=True, add_help=False).exit(2)


def leave_the_program() -> None:
    sys.exit("no more")


def cancel_itself() -> None:
    raise asyncio.CancelledError


def close_a_generator() -> None:
    raise GeneratorExit


class Mute(Exception):
    """As of a record of an ORM whose session is closed."""

    def __repr__(self) -> str:
        raise RuntimeError("nothing can be said of it")


def fail_without_words() -> None:
    raise Mute


RAISING = [
    fail_without_words,
    fail_a_call,
    fail_a_test,
    exit_from_a_parser,
    leave_the_program,
    cancel_itself,
    close_a_generator,
]
EACH_WAY = pytest.mark.parametrize("fail", RAISING)


class Listeners:
    """The four kinds; each fails a message named `bad` the first time."""

    def __init__(self, fail: Callable[[], None]) -> None:
        self.fail = fail
        self.seen: list[bytes] = []
        self.failures = 1

    def look(self, messages: Messages) -> None:
        [message] = messages
        self.seen.append(message.body)
        if message.body == b"bad" and self.failures:
            self.failures -= 1
            self.fail()

    def attach(self, consumer: PushConsumer, kind: str) -> PushConsumer:
        async def waits(messages: Messages, context: ConsumeContext) -> ConsumeStatus:
            self.look(messages)
            return SUCCESS

        def plain(messages: Messages, context: ConsumeContext) -> ConsumeStatus:
            self.look(messages)
            return SUCCESS

        async def waits_in_order(messages: Messages, context: OrderedContext) -> OrderedStatus:
            self.look(messages)
            return OrderedStatus.SUCCESS

        def plain_in_order(messages: Messages, context: OrderedContext) -> OrderedStatus:
            self.look(messages)
            return OrderedStatus.SUCCESS

        if kind == "async":
            consumer.listener(waits)
        elif kind == "plain":
            consumer.listener(plain)
        else:
            consumer.ordered_listener(waits_in_order if kind == "async, ordered" else plain_in_order)
        return consumer


@EACH_WAY
@pytest.mark.row("C4")
@pytest.mark.parametrize("kind", ["async", "plain", "async, ordered", "plain, ordered"])
async def test_whatever_a_listener_raises_its_message_comes_again(
    world: SimulatedWorld, shop: Shop, kind: str, fail: Callable[[], None]
) -> None:
    listeners = Listeners(fail)
    await world.start("one", listeners.attach(shop.consumer("one"), kind))
    await shop.send(b"before", b"bad", b"after")
    await world.until(lambda: listeners.seen.count(b"bad") == 2 and b"after" in listeners.seen, within_ms=15_000)
    await world.until(shop.is_committed, within_ms=1_000)
    again = [b"bad"] if "ordered" in kind else []  # Ordered: the queue waits for it.
    assert [body for body in listeners.seen if body != b"bad"] == [b"before", b"after"]
    assert listeners.seen[:2] == [b"before", b"bad"]
    assert listeners.seen[2:3] == (again or [b"after"])
    await world.stop("one")


@EACH_WAY
@pytest.mark.row("C4")
@pytest.mark.parametrize("kind", ["plain", "plain, ordered"])
async def test_a_failure_leaves_the_others_of_its_visit_to_a_thread_as_they_are(
    world: SimulatedWorld, shop: Shop, kind: str, fail: Callable[[], None]
) -> None:
    listeners = Listeners(fail)
    await shop.producer.send_many([Message(TOPIC, body) for body in (b"1", b"2", b"bad", b"3", b"4")])
    consumer = shop.consumer("one", consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    await world.start("one", listeners.attach(consumer, kind))
    await world.until(lambda: listeners.seen.count(b"bad") == 2, within_ms=15_000)
    await world.run_for(seconds=1)
    assert sorted(listeners.seen) == [b"1", b"2", b"3", b"4", b"bad", b"bad"]
    assert shop.is_committed()
    if "ordered" in kind:
        assert listeners.seen == [b"1", b"2", b"bad", b"bad", b"3", b"4"]


async def cancel_in_mid_listener(shop: Shop) -> None:
    await shop.send(b"hangs")
    await shop.until_heard(1)
    for task in asyncio.all_tasks():
        if task.get_name() == f"listener of {GROUP}":
            task.cancel()
    await shop.world.run_for(ms=1)


async def test_who_cancels_a_listener_from_outside_ends_the_consumer(world: SimulatedWorld, shop: Shop) -> None:
    consumer = await shop.start("one", forever)
    await cancel_in_mid_listener(shop)
    words = f"listener of {GROUP}: its task was cancelled while it was running"
    with pytest.raises(ClientError, match=words):
        await consumer.wait()
    with pytest.raises(ClientError, match=words):
        await world.stop("one")
    assert shop.committed(0) <= 0


async def test_a_consumer_that_has_ended_says_so_when_it_is_left(world: SimulatedWorld, shop: Shop) -> None:
    async def work() -> None:
        async with shop.consumer("one", forever):
            await cancel_in_mid_listener(shop)

    with pytest.raises(ClientError, match="cancelled while it was running"):
        await work()
