"""The data source against a real Apache RocketMQ, which tools/oracle.sh starts. Needs Maven, too."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pytest
from pyspark.sql import SparkSession

from staticfire.client import Admin, ClientSettings, Message, Producer, ProducerSettings
from tests.pipeline.stand import Stream, bodies, rows
from tests.ports import free_ports

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(which("mvn") is None, reason="Maven brings RocketMQ, and isn't here"),
]

CLIENT = ClientSettings(protocol="rocketmq", mq_client_api_timeout_ms=30_000)
PATIENT = ProducerSettings(client=CLIENT, send_msg_timeout_ms=60_000)
ORACLE = Path(__file__).parents[2] / "tools" / "oracle.sh"


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("rocketmq")
    # RocketMQ's broker takes the ports two below and a thousand above, too: no outgoing connection is given these.
    nameserver, _, broker, *_ = free_ports()
    ports = {"NAMESRV_PORT": nameserver, "BROKER_PORT": broker}
    environment = os.environ | ports | {"HEAP": "512m"}
    try:
        subprocess.run(["bash", ORACLE, "start", folder], env=environment, check=True)
        yield f"127.0.0.1:{nameserver}"
    finally:
        subprocess.run(["bash", ORACLE, "stop", folder], env=environment, check=True)


def create_topic(namesrv: str, topic: str) -> None:
    async def run() -> None:
        async with Admin(namesrv, CLIENT, timeout_ms=30_000) as admin:
            # RocketMQ's broker says that it has booted before its nameserver knows it.
            while not (await admin.cluster_info()).broker_addr_table:
                await admin.pause_for(100)
            await admin.create_topic(topic, queues=2)

    asyncio.run(run())


def send(namesrv: str, messages: list[Message]) -> None:
    async def run() -> None:
        async with Producer("tests", namesrv, PATIENT) as producer:
            await producer.send_many(messages)

    asyncio.run(run())


def test_batches_and_streams_of_a_real_rocketmq(spark: SparkSession, namesrv: str, tmp_path: Path) -> None:
    create_topic(namesrv, "orders")
    sent = [Message("orders", b"%d" % number, tags="paid", keys=[str(number)]) for number in range(300)]
    sent += [Message("orders", b"%d" % number, properties={"long": "x" * 6_000}) for number in range(300, 320)]
    send(namesrv, sent)
    read = rows(spark, namesrv, "orders", protocol="rocketmq", includeProperties=True)
    assert bodies(read) == list(range(320))
    assert {row.messageId for row in read} == {row.properties["UNIQ_KEY"] for row in read}
    assert {(row.brokerName, row.queueId) for row in read} == {("broker-a", 0), ("broker-a", 1)}
    tagged = rows(spark, namesrv, "orders", protocol="rocketmq", subExpression="paid", minPartitions=6)
    assert sorted(int(row["keys"]) for row in tagged) == list(range(300))
    stream = Stream(spark, namesrv, "orders", tmp_path, protocol="rocketmq", maxOffsetsPerTrigger=200)
    assert [len(batch) for batch in stream.run()] == [200, 120]
    send(namesrv, [Message("orders", b"1000" * 3_000)])
    assert [[bytes(row.body) for row in batch] for batch in stream.run()] == [[b"1000" * 3_000]]
    middle = max(row.storeTimestamp for row in read).timestamp() * 1000 + 1
    later = rows(spark, namesrv, "orders", protocol="rocketmq", startingTimestamp=round(middle))
    assert len(later) == 1
