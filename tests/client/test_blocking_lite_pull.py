"""The blocking face of the consumer that polls."""

from collections.abc import Iterator

import pytest

from staticfire import Cluster, ConsumeFromWhere, LitePullConsumer, LitePullSettings, Message, Producer
from staticfire.client.produce.producer import BlockingProducer


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def producer(cluster: Cluster) -> Iterator[BlockingProducer]:
    with Producer("shop", cluster.namesrv) as producer:
        yield producer


def test_a_program_polls(cluster: Cluster, producer: BlockingProducer) -> None:
    settings = LitePullSettings(consume_from_where=ConsumeFromWhere.FIRST_OFFSET, auto_commit=False)
    with LitePullConsumer("audit", cluster.namesrv, settings) as consumer:
        for number in range(5):
            producer.send(Message("audits", b"%d" % number))
        queues = consumer.queues("audits")
        consumer.assign(queues)
        bodies = {message.body for _ in range(5) for message in consumer.poll(timeout_ms=500)}
        assert bodies == {b"0", b"1", b"2", b"3", b"4"}
        consumer.commit()
        assert sum(consumer.committed(queue) or 0 for queue in queues) == 5
        consumer.pause(consumer.assignment)
        assert all(map(consumer.is_paused, queues))
        consumer.resume(queues)
        for queue in queues:
            consumer.seek_to_begin(queue)
        assert consumer.poll()[0].queue_offset == 0


def test_a_program_that_fails_polls_its_last_messages_again(cluster: Cluster, producer: BlockingProducer) -> None:
    settings = LitePullSettings(consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    producer.send(Message("ledgers", b"once"))

    def fail() -> None:
        with LitePullConsumer("ledger", cluster.namesrv, settings) as consumer:
            consumer.subscribe("ledgers")
            assert [message.body for message in consumer.poll(timeout_ms=20_000)] == [b"once"]
            raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            fail()
