"""Writes folders/<version>.tar.gz: the folder of a whole cluster, with one of everything that a folder can hold.

    python tests/integration/earlier_folder.py tests/integration/folders/0.2.0.tar.gz

Run it once for each release, with the version that is about to be replaced; test_earlier_folders.py opens all of them.
It uses the public API only, so that any version can run it.
"""

import asyncio
import io
import sys
import tarfile
import tempfile
from pathlib import Path

from staticfire import (
    Admin,
    Cluster,
    Message,
    Producer,
    PullConsumer,
    ReceivedMessage,
    SimpleConsumer,
    SubscriptionGroupConfig,
    TransactionProducer,
    TransactionState,
)

SETTINGS = {"mappedFileSizeCommitLog": 65536}
ORDERS = 10
CONSUMED = 4
HOUR_MS = 3_600_000


async def send_orders(namesrv: str) -> None:
    """Send orders to one queue, a reminder for in two hours, and jobs."""
    async with Producer("shop", namesrv) as producer:
        (queue, *_) = await producer.queues("orders")
        for number in range(ORDERS):
            message = Message("orders", b"order %d" % number, tags="paid", keys=[f"key-{number}"])
            await producer.send(message, queue=queue)
        await producer.send(Message("reminders", b"in two hours", delay_ms=2 * HOUR_MS))
        await producer.send(Message("reminders", b"at level 18", delay_level=18))
        for number in range(2):
            await producer.send(Message("jobs", b"job %d" % number))


async def consume_some(namesrv: str) -> None:
    """Commit an offset of billing; hand one message back, to be retried, and one to the dead letters."""
    async with PullConsumer("billing", namesrv) as consumer:
        (queue, *_) = await consumer.queues("orders")
        found = (await consumer.pull(queue, 0)).messages
        await consumer.send_back(found[1], delay_level=3)
        await consumer.send_back(found[2], delay_level=-1)
        await consumer.commit(queue, CONSUMED)


async def pop_one(namesrv: str) -> None:
    """Acknowledge one job; keep the other for an hour."""
    simple = SimpleConsumer("workers", namesrv)
    simple.subscribe("jobs")
    async with simple:
        jobs: list[ReceivedMessage] = []
        while len(jobs) < 2:
            for job in await simple.receive(invisible_ms=HOUR_MS):
                jobs.append(job)
                if job.body == b"job 0":
                    await simple.ack(job)


async def leave_a_transaction_open(namesrv: str) -> None:
    """Send a half message whose state its producer doesn't know yet."""

    def unknown(*_: object) -> TransactionState:
        return TransactionState.UNKNOWN

    async with TransactionProducer("payments", namesrv, check=unknown) as producer:
        await producer.send_in_transaction(Message("paid", b"12.50", keys=["payment"]), unknown)


async def fill(folder: Path) -> None:
    """Fill the folder of a cluster, and stop the cluster."""
    async with Cluster(settings=SETTINGS, directory=folder) as cluster:
        await cluster.clock.freeze()
        async with Admin(cluster.namesrv) as admin:
            for topic in ("orders", "reminders", "jobs", "paid"):
                await admin.create_topic(topic, queues=1)
            await admin.create_group(SubscriptionGroupConfig(group_name="billing", retry_max_times=7))
            await admin.put_kv("folders", "written", "yes")
        await send_orders(cluster.namesrv)
        await cluster.snapshot("sent")
        await consume_some(cluster.namesrv)
        await pop_one(cluster.namesrv)
        await leave_a_transaction_open(cluster.namesrv)


def main(archive: Path) -> None:
    """Write the archive. Unused ends of files compress to almost nothing."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(fill(Path(folder)))
        with tarfile.open(archive, "w:gz") as packed:
            for one in sorted(Path(folder).rglob("*")):
                if one.is_file() and one.name != "lock":
                    member = tarfile.TarInfo(one.relative_to(folder).as_posix())
                    member.size = one.stat().st_size
                    packed.addfile(member, io.BytesIO(one.read_bytes()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
