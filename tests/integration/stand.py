"""What tests of whole processes share: a producer that remembers what was acknowledged, and a reader of everything."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import NamedTuple

from staticfire.cluster.cluster import Cluster
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import NetworkError
from staticfire.protocol.record import StoredRecord
from staticfire.protocol.requests.send import SendMessageV2
from staticfire.runtime.connection import Connection
from staticfire.runtime.live import live_machine
from staticfire.runtime.pool import ConnectionPool
from tests.integration.fuzzing import ask
from tests.protocol.rocketmq_answers import split_rocketmq

TIMEOUT_MS = 60_000
WINDOW = 64
QUEUES = 4


@asynccontextmanager
async def connected(address: str, codec_byte: int) -> AsyncIterator[Connection]:
    """A connection that speaks one codec."""
    machine = live_machine()
    pool = ConnectionPool(machine, codec_byte=codec_byte)
    try:
        yield await pool.connection(address)
    finally:
        await pool.close()
        await machine.workers.close()


def message(topic: str, body: str, queue_id: int = 0) -> SendMessageV2:
    """A send of a body that says who it is."""
    properties = f"TAGS\x01a\x02UNIQ_KEY\x01{body[:32]}\x02"
    return SendMessageV2("load", topic, "TBW102", QUEUES, queue_id, 0, 0, 0, properties, body=body.encode())


class Sender:
    """Sends numbered messages, a window at a time, until the connection is lost."""

    def __init__(self, name: str, topic: str, body_bytes: int = 40) -> None:
        self._name = name
        self._topic = topic
        self._body_bytes = body_bytes
        self._number = 0
        self.acknowledged: set[str] = set()
        self.codes: Counter[int] = Counter()
        self.on_window: Callable[[], None] = lambda: None
        """Called after each window."""

    async def send_until_lost(self, address: str, codec_byte: int) -> None:
        async with connected(address, codec_byte) as connection:
            while await self.send_window(connection):
                pass

    async def send_window(self, connection: Connection, count: int = WINDOW) -> bool:
        """Send messages without waiting in between; return whether all were answered."""
        requested: dict[str, asyncio.Future[Answer]] = {}
        try:
            for _ in range(count):
                body = f"{self._name}-{self._number}".ljust(self._body_bytes, ".")
                requested[body] = connection.ask(message(self._topic, body, self._number % QUEUES), TIMEOUT_MS)
                self._number += 1
        except NetworkError:
            pass  # The answers that came before the loss still count.
        answers = await asyncio.gather(*requested.values(), return_exceptions=True)
        for body, answer in zip(requested, answers, strict=True):
            if isinstance(answer, Answer):
                self.codes[answer.code] += 1
                if answer.code == ResponseCode.SUCCESS:
                    self.acknowledged.add(body)
        self.on_window()
        return len(answers) == count and all(isinstance(answer, Answer) for answer in answers)


async def acknowledged(senders: Iterable[Sender], count: int) -> None:
    """Return when these senders have so many more acknowledged than now."""
    watched = list(senders)
    goal = sum(len(sender.acknowledged) for sender in watched) + count
    enough = asyncio.Event()

    def look() -> None:
        if sum(len(sender.acknowledged) for sender in watched) >= goal:
            enough.set()

    for sender in watched:
        sender.on_window = look
    await enough.wait()


class Stored(NamedTuple):
    """Everything that a topic holds."""

    bodies: list[str]
    records: list[StoredRecord]


def read_topic(cluster: Cluster, topic: str) -> Stored:
    """Read all queues of a topic on all brokers as a foreign client; offsets have to be without gaps."""
    records = []
    code, route = ask(cluster.namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    assert code == 0, topic
    for queues in json.loads(route)["queueDatas"]:
        address = cluster.addresses[queues["brokerName"]]
        for queue_id in range(queues["readQueueNums"]):
            records += read_queue(address, topic, queue_id)
    return Stored([record.body.decode("utf-8", "replace") for record in records], records)


def read_queue(address: str, topic: str, queue_id: int) -> list[StoredRecord]:
    """Read a queue to its end."""
    records: list[StoredRecord] = []
    while True:
        fields = {"consumerGroup": "readers", "topic": topic, "queueId": queue_id, "queueOffset": len(records)}
        fields |= {"maxMsgNums": 32, "sysFlag": 4, "subscription": "*"}
        code, body = ask(address, RequestCode.PULL_MESSAGE, fields)
        if code != 0:
            return records
        for record, _ in split_rocketmq(body):
            assert record.queue_offset == len(records)
            records.append(record)
