"""What a program has called around its sends."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from staticfire.client import ClientError, Message, NetworkError, Producer, ProducerHook, SendCall, StaticfireError
from staticfire.simulation.world import SimulatedWorld
from tests.client.peers import NAMESRV, fake_cluster

pytestmark = pytest.mark.row("F5")

WAYS: dict[str, Callable[[Producer, Message], Awaitable[object]]] = {
    "send": lambda producer, message: producer.send(message),
    "post": lambda producer, message: producer.post(message),
    "send_many": lambda producer, message: producer.send_many([message]),
    "send_batch": lambda producer, message: producer.send_batch([message]),
    "send_oneway": lambda producer, message: producer.send_oneway(message),
    "selector": lambda producer, message: producer.send(message, selector=lambda queues, *_: queues[0]),
}
BY_EACH_WAY = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


class Notes(ProducerHook):
    def __init__(self) -> None:
        self.seen: list[tuple[str, bytes, bool, type[BaseException] | None]] = []

    def note(self, name: str, call: SendCall) -> None:
        self.seen.append(
            (name, call.message.body, call.result is not None, None if call.error is None else type(call.error))
        )

    def check_forbidden(self, call: SendCall) -> None:
        self.note("check", call)
        if call.message.tags == "secret":
            raise ClientError("secrets stay here")

    def before_send(self, call: SendCall) -> None:
        self.note("before", call)
        raise RuntimeError("nobody minds")

    def after_send(self, call: SendCall) -> None:
        self.note("after", call)


@BY_EACH_WAY
async def test_each_message_has_one_beginning_and_one_end(
    world: SimulatedWorld, way: Callable[[Producer, Message], Awaitable[object]]
) -> None:
    cluster = await fake_cluster(world)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        notes = Notes()
        producer.add_hook(notes)
        await way(producer, Message("orders", b"one"))
        await asyncio.sleep(0)
    is_reported = way is not WAYS["send_oneway"]
    assert notes.seen == [
        ("check", b"one", False, None),
        ("before", b"one", False, None),
        ("after", b"one", is_reported, None),
    ]


@BY_EACH_WAY
async def test_what_a_hook_forbids_does_not_leave(
    world: SimulatedWorld, way: Callable[[Producer, Message], Awaitable[object]]
) -> None:
    cluster = await fake_cluster(world)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        notes = Notes()
        producer.add_hook(notes)
        with pytest.raises(ClientError, match="secrets stay here"):
            await way(producer, Message("orders", b"one", tags="secret"))
        await producer.send(Message("orders", b"two"))
    assert (cluster.bodies, cluster.brokers[0].journal.oneway) == ([b"two"], [])
    assert [name for name, *_ in notes.seen] == ["check", "check", "before", "after"]


@BY_EACH_WAY
async def test_a_message_that_can_not_leave_has_an_end_too(
    world: SimulatedWorld, way: Callable[[Producer, Message], Awaitable[object]]
) -> None:
    cluster = await fake_cluster(world)
    notes = Notes()
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        producer.add_hook(notes)
        with pytest.raises(StaticfireError):
            await way(producer, Message("orders", b""))
        await asyncio.sleep(0)
    assert [name for name, *_ in notes.seen] == ["check", "before", "after"]
    assert notes.seen[-1][3] is ClientError


async def test_a_hook_hears_of_a_failure_and_of_its_attempts_once(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world, brokers=2)
    notes = Notes()
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        producer.add_hook(notes)
        await world.stop("broker-a")
        await world.stop("broker-b")
        with pytest.raises(NetworkError):
            await producer.send(Message("orders", b"one"))
        await asyncio.sleep(0)
    assert [(name, error is not None) for name, _, _, error in notes.seen] == [
        *(("check", False), ("before", False), ("after", True))
    ]


async def test_of_many_messages_those_that_a_hook_forbids_fail_by_themselves(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        producer.add_hook(Notes())
        many = [Message("orders", b"%d" % number, tags="secret" if number == 1 else "") for number in range(4)]
        outcomes = await producer.send_many(many, return_exceptions=True)
    assert [isinstance(outcome, ClientError) for outcome in outcomes] == [False, True, False, False]
    assert cluster.bodies == [b"0", b"2", b"3"]
