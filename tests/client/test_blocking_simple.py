"""The blocking face of the consumer that receives messages one by one."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from staticfire import Cluster, ConsumeFromWhere, Message, Producer, SimpleConsumer, SimpleSettings
from staticfire.protocol.errors import ClientError

pytestmark = pytest.mark.row("G4")

FIRST = SimpleSettings(consume_from_where=ConsumeFromWhere.FIRST_OFFSET)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def test_threads_receive_and_acknowledge(cluster: Cluster) -> None:
    with Producer("shop", cluster.namesrv) as producer, SimpleConsumer("billing", cluster.namesrv, FIRST) as consumer:
        for number in range(40):
            producer.send(Message("orders", b"%d" % number))
        consumer.subscribe("orders")

        def work(_: int) -> list[bytes]:
            seen = []
            while messages := consumer.receive(3, await_ms=0):
                consumer.ack_all(messages[1:])
                consumer.ack(messages[0])
                seen += [message.body for message in messages]
            return seen

        with ThreadPoolExecutor(4) as threads:
            bodies = sorted(int(body) for seen in threads.map(work, range(4)) for body in seen)
        assert bodies == list(range(40))
        assert consumer.receive(await_ms=0) == []


def test_a_message_is_given_back_and_one_that_is_sent_meanwhile_is_waited_for(cluster: Cluster) -> None:
    with Producer("shop", cluster.namesrv) as producer, SimpleConsumer("audit", cluster.namesrv, FIRST) as consumer:
        producer.send(Message("refunds", b"x"))
        consumer.subscribe("refunds")
        [first] = consumer.receive()
        consumer.change_invisible(first, 0)
        [again] = consumer.receive()
        assert (again.body, again.reconsume_times) == (b"x", 1)
        consumer.ack(again)
        timer = threading.Timer(0.05, producer.send, [Message("refunds", b"later")])
        timer.start()
        assert [message.body for message in consumer.receive(await_ms=20_000)] == [b"later"]
        timer.join()


def test_errors_are_those_of_the_asyncio_methods(cluster: Cluster) -> None:
    with SimpleConsumer("wrong", cluster.namesrv) as consumer:
        with pytest.raises(ClientError, match="subscribe to a topic first"):
            consumer.receive()
        with pytest.raises(ClientError, match="wasn't received by a simple consumer"):
            consumer.ack(Message("orders", b"x"))  # type: ignore[arg-type]
