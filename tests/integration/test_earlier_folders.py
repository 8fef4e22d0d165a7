"""The folder of an earlier version can be used: folders/ has one of each, written by earlier_folder.py back then."""

import asyncio
import tarfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from staticfire import (
    Admin,
    AsyncCluster,
    Cluster,
    ConsumeStatus,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    SimpleConsumer,
    TransactionProducer,
    TransactionState,
)
from tests.integration.earlier_folder import CONSUMED, ORDERS, SETTINGS

ARCHIVES = sorted((Path(__file__).parent / "folders").glob("*.tar.gz"))
HOUR_MS = 3_600_000

pytestmark = pytest.mark.row("S8")


@pytest.fixture(params=ARCHIVES, ids=lambda archive: archive.name.removesuffix(".tar.gz"))
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(request.param) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Python before 3.11.4 has none.
        packed.extractall(tmp_path)
    return tmp_path


@pytest.fixture
async def cluster(folder: Path) -> AsyncIterator[AsyncCluster]:
    async with Cluster(settings=SETTINGS, directory=folder) as running:
        yield running


async def bodies(cluster: AsyncCluster, topic: str) -> list[bytes]:
    async with PullConsumer("looking", cluster.namesrv) as consumer:
        (queue, *_) = await consumer.queues(topic)
        return [message.body for message in (await consumer.pull(queue, 0)).messages]


async def consume(cluster: AsyncCluster, group: str, topic: str, count: int) -> list[bytes]:
    """Consume with a group until it has got `count` messages, an hour of message time after the other."""
    found: list[bytes] = []
    complete = asyncio.Event()
    consumer = PushConsumer(group, cluster.namesrv)
    consumer.subscribe(topic)

    @consumer.listener
    async def listen(messages: Sequence[ReceivedMessage], context: Any) -> ConsumeStatus:
        found.extend(message.body for message in messages)
        if len(found) >= count:
            complete.set()
        return ConsumeStatus.CONSUME_SUCCESS

    async with consumer:
        await cluster.clock.advance(hours=1)
        await complete.wait()
    return found


async def test_messages_topics_and_settings_are_there(cluster: AsyncCluster) -> None:
    assert await bodies(cluster, "orders") == [b"order %d" % number for number in range(ORDERS)]
    async with Admin(cluster.namesrv) as admin:
        assert {"orders", "reminders", "jobs", "paid"} <= set(await admin.topics())
        assert (await admin.group_config("billing", "broker-a")).retry_max_times == 7
        assert await admin.get_kv("folders", "written") == "yes"
        (message,) = await admin.find("key-7", "orders")
        assert message.body == b"order 7"
    assert (await cluster.clock.now()).mode == "frozen"


async def test_a_group_continues_after_its_offset_with_its_retry_and_its_dead_letter(cluster: AsyncCluster) -> None:
    left = [b"order 1", *(b"order %d" % number for number in range(CONSUMED, ORDERS))]
    assert sorted(await consume(cluster, "billing", "orders", len(left))) == left
    assert [letter.message.body for letter in await cluster.dlq("billing").letters()] == [b"order 2"]


async def test_waiting_messages_are_delivered_when_they_are_due(cluster: AsyncCluster) -> None:
    await cluster.clock.advance(minutes=119)
    assert await bodies(cluster, "reminders") == []
    await cluster.clock.advance(minutes=1)
    assert sorted(await bodies(cluster, "reminders")) == [b"at level 18", b"in two hours"]


async def test_what_is_popped_and_not_acknowledged_is_redelivered(cluster: AsyncCluster) -> None:
    simple = SimpleConsumer("workers", cluster.namesrv)
    simple.subscribe("jobs")
    async with simple:
        assert (await cluster.clock.advance(minutes=59)).expired == 0
        assert (await cluster.clock.advance(minutes=1)).expired == 1
        (job,) = await simple.receive()
        assert (job.body, job.reconsume_times) == (b"job 1", 1)


async def test_an_open_transaction_is_checked_and_ends(cluster: AsyncCluster) -> None:
    def committed(message: ReceivedMessage) -> TransactionState:
        return TransactionState.COMMIT

    assert await bodies(cluster, "paid") == []
    async with TransactionProducer("payments", cluster.namesrv, check=committed):
        assert (await cluster.clock.advance(minutes=5)).checked == 1
    assert await bodies(cluster, "paid") == [b"12.50"]


async def test_a_snapshot_is_restored(cluster: AsyncCluster) -> None:
    assert [each["name"] for each in await cluster.snapshots()] == ["sent"]
    await cluster.restore("sent")
    orders = [b"order %d" % number for number in range(ORDERS)]
    assert sorted(await consume(cluster, "billing", "orders", ORDERS)) == orders
    assert not await cluster.dlq("billing").letters()


async def test_the_folder_opens_a_second_time(folder: Path) -> None:
    """What this version writes into an earlier folder fits together with what the earlier one wrote."""
    for hours in (1, 2):
        async with Cluster(settings=SETTINGS, directory=folder) as cluster:
            assert len(await bodies(cluster, "orders")) == ORDERS
            await cluster.clock.advance(hours=1)
            assert len(await bodies(cluster, "reminders")) == (0 if hours == 1 else 2)
