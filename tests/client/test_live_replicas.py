"""Programs without asyncio, and a master that is killed: real processes and sockets."""

import asyncio
import threading

import pytest

from staticfire.client import (
    Admin,
    ClientError,
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    NetworkError,
    Producer,
    PushConsumer,
    PushSettings,
    SendStatus,
)
from staticfire.client.consume.results.consume_results import Messages
from staticfire.cluster.cluster import Cluster
from staticfire.failover.replicas import ReplicaAdmin

pytestmark = pytest.mark.row("P7")

WAIT_S = 60
SAFE = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2}


class Heard:
    """What a listener got, and when it is enough."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self._changed = threading.Condition()

    def __call__(self, messages: Messages, _: ConsumeContext) -> ConsumeStatus:
        with self._changed:
            self.bodies += [message.body for message in messages]
            self._changed.notify_all()
        return ConsumeStatus.CONSUME_SUCCESS

    def until(self, *bodies: bytes) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: set(self.bodies) >= set(bodies), WAIT_S), self.bodies


def consumer(cluster: Cluster, heard: Heard) -> PushConsumer:
    settings = PushSettings(consume_from_where=ConsumeFromWhere.FIRST_OFFSET, consume_threads=1)
    made = PushConsumer("billing", cluster.namesrv, settings)
    made.subscribe("orders")
    made.listener(heard)
    return made


async def copy_topics(cluster: Cluster) -> None:
    """Let the slave copy topics now: a master that is lost within slaveSyncPeriod takes a new one with it."""
    async with Admin(cluster.namesrv) as admin:
        replicas = ReplicaAdmin.at_nameservers(admin.client.pool, cluster.namesrv)
        for replica in await replicas.all():
            if replica.broker_id != 0:
                await replicas.copy_state(replica.address)


def test_a_blocking_consumer_reads_the_slave_and_comes_back() -> None:
    heard = Heard()
    with Cluster(replicas=1, isolation="process", settings=SAFE) as cluster:
        cluster.create_topic("orders")
        asyncio.run(copy_topics(cluster))
        with Producer("shop", cluster.namesrv) as producer:
            assert producer.send(Message("orders", b"before")).status is SendStatus.SEND_OK
            cluster.broker("broker-a").kill()
            with consumer(cluster, heard):
                heard.until(b"before")
                with pytest.raises((ClientError, NetworkError)):
                    producer.send(Message("orders", b"lost"))
                cluster.broker("broker-a").restart()
                producer.send(Message("orders", b"after"))
                heard.until(b"before", b"after")
