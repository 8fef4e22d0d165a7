"""A client is entered once: a second start of one that runs is refused and disturbs nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from staticfire import (
    Admin,
    ClientError,
    Cluster,
    ClusterClient,
    ConsumeStatus,
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    SimpleConsumer,
)
from staticfire.simulation.world import SimulatedWorld
from tests.client.peers import NAMESRV, fake_cluster

RUNS, OVER = (
    r"^{} is already running: use the running one",
    r"^{} was closed, or failed to start: it can be used only once",
)


def push_consumer(namesrv: str) -> PushConsumer:
    consumer = PushConsumer("billing", namesrv)
    consumer.listener(lambda messages, context: ConsumeStatus.CONSUME_SUCCESS)
    return consumer


CLIENTS: list[tuple[str, Callable[[str], Any], Callable[[Any], object]]] = [
    ("Producer shop", lambda namesrv: Producer("shop", namesrv), lambda face: face.send(Message("orders", b"1"))),
    ("Admin", Admin, lambda face: face.topics()),
    ("SimpleConsumer pops", lambda namesrv: SimpleConsumer("pops", namesrv), lambda face: face.receive(await_ms=10)),
    ("LitePullConsumer polls", lambda namesrv: LitePullConsumer("polls", namesrv), lambda face: face.poll(10)),
    ("PushConsumer billing", push_consumer, lambda face: face.subscribe("orders")),
]


def test_a_second_start_is_refused_and_the_first_one_continues() -> None:
    with Cluster() as cluster:
        cluster.create_topic("orders", queues=1)
        for name, make, use in CLIENTS:
            client = make(cluster.namesrv)
            if not isinstance(client, Producer | Admin):
                client.subscribe("orders")
            with client as face:
                use(face)
                with pytest.raises(ClientError, match=RUNS.format(name)):
                    client.__enter__()
                use(face)
                assert client.crash is None
            with pytest.raises(ClientError, match=OVER.format(name)):
                client.__enter__()


def test_a_client_that_is_shared_is_entered_once_as_well() -> None:
    with Cluster() as cluster, ClusterClient(cluster.namesrv) as client, Admin(client=client) as admin:
        with pytest.raises(ClientError, match=RUNS.format("ClusterClient")):
            client.__enter__()
        with Producer("shop", client=client) as producer:
            assert producer.send(Message("orders", b"1")).queue_offset == 0
        assert list(admin.masters()) == ["broker-a"]


async def test_a_second_start_with_async_is_refused_as_well(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    producer = Producer("shop", NAMESRV, machine=cluster.machine)
    async with producer:
        with pytest.raises(ClientError, match=RUNS.format("Producer shop")):
            await producer.__aenter__()
        await producer.send(Message("orders", b"1"))
    with pytest.raises(ClientError, match=OVER.format("Producer shop")):
        await producer.__aenter__()
