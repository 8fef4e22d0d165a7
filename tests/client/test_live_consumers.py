"""Push consumers over real sockets, with real threads."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from staticfire.client import (
    ClientSettings,
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    MessageModel,
    OrderedStatus,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushSettings,
)
from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.consume.results.consume_results import Messages
from staticfire.runtime.live import live_machine
from tests.client.live_cluster import live_cluster
from tests.protocols import in_both_protocols

BOTH_PROTOCOLS = in_both_protocols("settings", indirect=False)
WITHIN_S = 60
SUCCESS = ConsumeStatus.CONSUME_SUCCESS


@pytest_asyncio.fixture
async def namesrv(tmp_path: Path) -> AsyncIterator[str]:
    async with live_cluster(tmp_path, brokers=2) as cluster:
        yield cluster.namesrv


class Tally:
    """Counts the messages that listeners get until all have come; they may run in any thread."""

    def __init__(self, wanted: int) -> None:
        self.bodies: list[bytes] = []
        self._wanted = wanted
        self._loop = asyncio.get_running_loop()
        self._all = asyncio.Event()

    def add(self, messages: Messages) -> None:
        self.bodies += [message.body for message in messages]
        if len(self.bodies) >= self._wanted:
            self._loop.call_soon_threadsafe(self._all.set)

    async def all(self) -> list[bytes]:
        async with asyncio.timeout(WITHIN_S):
            await self._all.wait()
        return sorted(self.bodies)


@BOTH_PROTOCOLS
@pytest.mark.row("C12")
async def test_two_consumers_share_what_is_sent(namesrv: str, settings: ClientSettings) -> None:
    tally = Tally(2_000)
    owners: set[str] = set()

    def member(name: str) -> PushConsumer:
        consumer = PushConsumer("billing", namesrv, PushSettings(client=settings))
        consumer.subscribe("orders")

        @consumer.listener
        async def listen(messages: Messages, context: ConsumeContext) -> ConsumeStatus:
            owners.add(name)
            tally.add(messages)
            return SUCCESS

        return consumer

    async with member("one") as one, Producer("shop", namesrv, ProducerSettings(client=settings)) as producer:
        rebalanced = asyncio.Event()
        one.on_queues_changed(lambda topic, queues, own: rebalanced.set() if topic == "orders" else None)
        async with member("two") as two:
            async with asyncio.timeout(WITHIN_S):
                await rebalanced.wait()
            assert not set(one.assignment) & set(two.assignment)
            bodies = [b"%d" % number for number in range(2_000)]
            await producer.send_many([Message("orders", body) for body in bodies])
            assert await tally.all() == sorted(bodies)
    assert owners == {"one", "two"}


async def test_plain_functions_run_in_threads_side_by_side(namesrv: str) -> None:
    tally = Tally(100)
    meeting = threading.Barrier(4, timeout=WITHIN_S)
    names: set[str] = set()
    consumer = PushConsumer("billing", namesrv)
    consumer.subscribe("orders")

    @consumer.listener
    def listen(messages: Messages, context: ConsumeContext) -> ConsumeStatus:
        if messages[0].tags == "meet":
            meeting.wait()  # Four listeners have to run at once, or none of them ends.
        names.add(threading.current_thread().name)
        tally.add(messages)
        return SUCCESS

    async with consumer, Producer("shop", namesrv) as producer:
        messages = [Message("orders", b"%d" % number, tags="meet" if number < 4 else "") for number in range(100)]
        await producer.send_many(messages)
        assert len(await tally.all()) == 100
    assert len(names) >= 4
    assert threading.current_thread().name not in names


async def test_there_are_as_many_threads_as_the_settings_say(namesrv: str) -> None:
    tally = Tally(40)
    meeting = threading.Barrier(40, timeout=WITHIN_S)
    consumer = PushConsumer("billing", namesrv, PushSettings(consume_threads=10))
    consumer.subscribe("orders")

    @consumer.listener
    def listen(messages: Messages, context: ConsumeContext) -> ConsumeStatus:
        meeting.wait()  # Forty listeners have to run at once, or none of them ends.
        tally.add(messages)
        return SUCCESS

    async with consumer, Producer("shop", namesrv) as producer:
        await producer.send_many([Message("orders", b"%d" % number) for number in range(40)])
        consumer.update_consume_threads(40)
        assert len(await tally.all()) == 40


@pytest.mark.parametrize("is_ordered", [False, True], ids=["concurrent", "ordered"])
async def test_stuck_listeners_leave_the_threads_of_other_consumers_alone(namesrv: str, is_ordered: bool) -> None:
    release, stuck, tally = threading.Event(), Tally(8), Tally(100)

    def hang(messages: Messages, context: object) -> Any:
        stuck.add(messages)
        release.wait()
        return OrderedStatus.SUCCESS if is_ordered else SUCCESS

    def listen(messages: Messages, context: object) -> Any:
        tally.add(tuple(message for message in messages if message.body != b"hang"))
        return OrderedStatus.SUCCESS if is_ordered else SUCCESS

    def consumer(group: str, listener: Callable[..., Any]) -> PushConsumer:
        one = PushConsumer(group, client=client, settings=PushSettings(await_termination_ms=100))
        one.subscribe("orders")
        (one.ordered_listener if is_ordered else one.listener)(listener)
        return one

    machine = live_machine(threads_max=8)
    async with ClusterClient(namesrv, machine=machine) as client, Producer("shop", client=client) as producer:
        async with consumer("stuck", hang):
            for queue in await producer.queues("orders"):
                await producer.send(Message("orders", b"hang"), queue=queue)
            await stuck.all()
            async with consumer("billing", listen):
                await producer.send_many([Message("orders", b"%d" % number) for number in range(100)])
                assert len(await tally.all()) == 100
        release.set()
    await machine.workers.close()


async def test_offsets_are_where_they_were_after_a_restart(namesrv: str) -> None:
    for round_number in range(3):
        tally = Tally(50)
        consumer = PushConsumer("billing", namesrv)
        consumer.subscribe("orders")

        @consumer.listener
        async def listen(messages: Messages, context: ConsumeContext, tally: Tally = tally) -> ConsumeStatus:
            tally.add(messages)
            return SUCCESS

        bodies = [b"%d-%d" % (round_number, number) for number in range(50)]
        async with consumer, Producer("shop", namesrv) as producer:
            await producer.send_many([Message("orders", body) for body in bodies])
            assert await tally.all() == sorted(bodies)


async def test_broadcast_offsets_lie_in_a_real_file(namesrv: str, tmp_path: Path) -> None:
    folder = str(tmp_path / "offsets")
    settings = PushSettings(
        message_model=MessageModel.BROADCASTING,
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        local_offset_store_dir=folder,
    )
    for round_number in range(2):
        tally = Tally(10)
        consumer = PushConsumer("billing", namesrv, settings)
        consumer.subscribe("orders")

        @consumer.listener
        async def listen(messages: Messages, context: ConsumeContext, tally: Tally = tally) -> ConsumeStatus:
            tally.add(messages)
            return SUCCESS

        bodies = [b"%d-%d" % (round_number, number) for number in range(10)]
        async with Producer("shop", namesrv) as producer:
            await producer.send_many([Message("orders", body) for body in bodies])
        async with consumer:
            assert await tally.all() == sorted(bodies)
    assert len(list((tmp_path / "offsets").glob("*@DEFAULT/billing/offsets.json"))) == 1
