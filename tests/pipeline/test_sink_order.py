"""Rows with an orderingKey, or for a queue: each queue gets them in the order of the partition. No Spark."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import ClusterClient, Message, Producer
from staticfire.client.admin.peek import peek_messages
from staticfire.client.pull.pull_consumer import PullConsumer
from staticfire.pipeline.errors import RowsNotSent
from staticfire.pipeline.row_messages import RowError, RowMessage
from staticfire.pipeline.sending import RowSender
from staticfire.pipeline.sink_options import parse_sink_options
from staticfire.protocol.names import TOOLS_GROUP
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import NAMESRV, TOPIC
from tests.scenarios.faulty_shop import FaultyShop

pytestmark = pytest.mark.row("E4")

OTHER = "bills"


class Task:
    """A task that writes to the cluster of a shop."""

    def __init__(self, shop: FaultyShop, client: ClusterClient) -> None:
        self._shop = shop
        self._client = client

    async def open(self, **options: str) -> RowSender:
        given = {"nameServer": NAMESRV, "topic": TOPIC, **options}
        self.sender = await RowSender(self._client, parse_sink_options(given, {})).open()
        return self.sender

    async def stored(self, topic: str = TOPIC) -> list[str]:
        """Return the bodies in the topic's queue."""
        machine = self._shop.world.machine("reader", host="10.0.4.4")
        async with PullConsumer(TOOLS_GROUP, NAMESRV, machine=machine) as reader:
            return [one.body.decode() for one in await peek_messages(reader, await reader.queues(topic), 10_000)]


@pytest_asyncio.fixture
async def task(world: SimulatedWorld, shop: FaultyShop, client: ClusterClient) -> AsyncIterator[Task]:
    await shop.admin.create_topic(OTHER, queues=1)
    task = Task(shop, client)
    yield task
    await task.sender.close()


def keyed(*bodies: str, topic: str = TOPIC) -> list[RowMessage]:
    return [RowMessage(Message(topic, body.encode(), sharding_key="k"), ordering_key="k") for body in bodies]


def plain(*bodies: str) -> list[RowMessage]:
    return [RowMessage(Message(OTHER, body.encode())) for body in bodies]


def placed(*bodies: str) -> list[RowMessage]:
    return [RowMessage(Message(TOPIC, body.encode()), queue=0) for body in bodies]


async def test_rows_of_a_key_stay_in_order_also_if_there_are_others_before_them(task: Task) -> None:
    sender = await task.open()
    await sender.offer([*plain("p-1"), *keyed("k-1", "k-2")])
    await sender.offer(keyed("k-3", "k-4"))
    await sender.offer([*plain("p-2"), *placed("q-5"), *keyed("k-6")])
    assert (await sender.finish()).sent == 8
    assert await task.stored() == ["k-1", "k-2", "k-3", "k-4", "q-5", "k-6"]
    assert await task.stored(OTHER) == ["p-1", "p-2"]


@pytest.mark.parametrize(
    "fault",
    [{"answer": "SYSTEM_BUSY"}, {"close": True}, {"close": True, "direction": "answer"}],
    ids=["busy", "lost", "lost response"],
)
async def test_rows_wait_for_an_earlier_one_of_their_queue_that_is_retried(
    shop: FaultyShop, task: Task, fault: dict[str, object]
) -> None:
    await shop.add(code="SEND_MESSAGE", topic=TOPIC, times=1, **fault)
    sender = await task.open()
    await sender.offer(keyed("k-1", "k-2", "k-3"))
    await sender.offer(keyed("k-4"))
    assert (await sender.finish()).sent == 4
    assert await shop.hits() == [1]
    first_copies = list(dict.fromkeys(await task.stored()))  # A row whose response was lost is stored twice.
    assert first_copies == ["k-1", "k-2", "k-3", "k-4"]


async def test_other_queues_continue_while_one_waits(shop: FaultyShop, task: Task) -> None:
    await shop.add(code="SEND_MESSAGE", topic=TOPIC, answer="SYSTEM_BUSY", lifetime="2s")
    sender = await task.open()
    await sender.offer([*keyed("k-1", "k-2"), *keyed("b-1", "b-2", topic=OTHER)])
    await shop.world.run_for(seconds=1)
    assert (await task.stored(), await task.stored(OTHER)) == ([], ["b-1", "b-2"])
    assert (await sender.finish()).sent == 4
    assert await task.stored() == ["k-1", "k-2"]


@pytest.mark.parametrize(
    "fault",
    [{"answer": "NO_PERMISSION", "times": 1}, {"answer": "SYSTEM_BUSY", "lifetime": "1s"}],
    ids=["refused", "busy for too long"],
)
async def test_a_failing_task_sends_no_later_rows_so_the_next_attempt_keeps_the_order(
    shop: FaultyShop, task: Task, fault: dict[str, object]
) -> None:
    await shop.add(code="SEND_MESSAGE", topic=TOPIC, **fault)
    sender = await task.open(sendTimeoutMs="900")
    await sender.offer(keyed("k-1", "k-2", "k-3"))
    await sender.offer(keyed("k-4"))
    with pytest.raises(RowsNotSent, match="3 of 3 rows not sent"):
        await sender.finish()
    await sender.close()
    assert await task.stored() == []
    await shop.world.run_for(seconds=1)
    sender = await task.open()
    await sender.offer(keyed("k-1", "k-2", "k-3"))
    await sender.offer(keyed("k-4"))
    await sender.finish()
    assert await task.stored() == ["k-1", "k-2", "k-3", "k-4"]


async def test_a_row_that_cant_be_a_message_ends_a_task_before_later_rows(task: Task) -> None:
    sender = await task.open()
    await sender.offer(keyed("k-1"))
    await sender.offer([RowError("row 1: value is null"), *keyed("k-3")])
    with pytest.raises(RowsNotSent, match="for example row 1: value is null"):
        await sender.finish()
    assert "k-3" not in await task.stored()


async def test_a_row_that_is_skipped_holds_back_no_others(shop: FaultyShop, task: Task) -> None:
    await shop.add(code="SEND_MESSAGE", topic=TOPIC, answer="NO_PERMISSION", after=1, times=1)
    sender = await task.open(failOnError="false")
    with shop.takes(0, within_ms=100):
        await sender.offer(keyed("k-1", "k-2", "k-3"))
        await sender.offer(keyed("k-4"))
        rows = await sender.finish()
    assert (rows.sent, rows.failed) == (3, 1)
    assert await task.stored() == ["k-1", "k-3", "k-4"]


@pytest.mark.parametrize("fault", [{"answer": "SYSTEM_BUSY"}, {"drop": True}], ids=["busy", "silent"])
async def test_rows_that_wait_for_a_broker_fail_together(
    shop: FaultyShop, task: Task, fault: dict[str, object]
) -> None:
    await shop.add(code="SEND_MESSAGE", topic=TOPIC, **fault)
    sender = await task.open(failOnError="false", sendTimeoutMs="900")
    with shop.takes(900, within_ms=200):
        await sender.offer(keyed("k-1", "k-2", "k-3"))
        rows = await sender.finish()
    assert (rows.sent, rows.failed) == (0, 3)
    assert "not sent, since an earlier row for its queue failed" in rows.examples[1]


@pytest.mark.parametrize("rows", [plain("p-1"), keyed("k-1")], ids=["plain", "keyed"])
async def test_rows_whose_sends_end_unexpectedly_are_not_lost_in_silence(
    task: Task, monkeypatch: pytest.MonkeyPatch, rows: list[RowMessage]
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Producer, "send_many", broken)
    monkeypatch.setattr(Producer, "send", broken)
    sender = await task.open()
    await sender.offer(rows)
    with pytest.raises((ZeroDivisionError, ExceptionGroup)):
        await sender.finish()
    with pytest.raises((ZeroDivisionError, ExceptionGroup)):
        await sender.offer(plain("p-2"))
