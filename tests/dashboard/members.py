"""A cluster with something to see: members, failed messages, dead letters."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from threading import Event
from typing import Self

from staticfire import (
    Admin,
    ClientSettings,
    Cluster,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    ProducerSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
    SimpleConsumer,
    TransactionProducer,
    TransactionState,
)
from staticfire.protocol.names import TRACE_TOPIC

FAILS = b"fails"
HELD = b"held"


class Members:
    """Members of one group, which join one by one."""

    def __init__(self, cluster: Cluster, group: str, *topics: str) -> None:
        self._cluster = cluster
        self._group = group
        self._topics = topics
        self._stack = ExitStack()
        self._end = Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._stack.close()

    def join(self, name: str) -> None:
        """Let one more join. It fails with the body FAILS, and with the body HELD it waits for the end."""
        settings = PushSettings(
            client=ClientSettings(instance_name=name),
            consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
            max_reconsume_times=1,
        )
        consumer = PushConsumer(self._group, self._cluster.namesrv, settings)
        for topic in self._topics:
            consumer.subscribe(topic)

        @consumer.listener
        def bill(messages: Sequence[ReceivedMessage], context: object) -> ConsumeStatus:
            if any(one.body == HELD for one in messages):
                self._end.wait()
            has_failed = any(one.body == FAILS for one in messages)
            return ConsumeStatus.RECONSUME_LATER if has_failed else ConsumeStatus.CONSUME_SUCCESS

        self._stack.enter_context(consumer)


def unknown(*_: object) -> TransactionState:
    return TransactionState.UNKNOWN


@contextmanager
def filled(cluster: Cluster) -> Iterator[None]:
    """Let three members consume two topics; some messages have died, others wait, are popped, or in a transaction."""
    cluster.clock.freeze()
    cluster.create_topic("orders", queues=4)
    cluster.create_topic("refunds", queues=2)
    settings = ProducerSettings(enable_trace=True)
    with (
        Members(cluster, "billing", "orders", "refunds") as members,
        TransactionProducer("shop", cluster.namesrv, settings, check=unknown) as producer,
        SimpleConsumer("tills", cluster.namesrv) as till,
    ):
        till.subscribe("orders")
        for number in (1, 2, 3):
            members.join(f"desk-{number}")
        for number in range(60):
            body = FAILS if number % 12 == 0 else b'{"order": %d, "price": 9.99}' % number
            producer.send(Message("orders", body, tags="paid", keys=[f"order-{number}"]))
        cluster.clock.advance(hours=1)
        producer.send(Message("refunds", b"later", keys=["later"], delay_ms=3_600_000))
        producer.send_in_transaction(Message("orders", b"half", keys=["half"]), unknown)
        producer.send(Message("orders", b"popped", keys=["popped"]))
        while not till.receive(1, 3_600_000):
            pass
        with Admin(cluster.namesrv) as admin:
            while not admin.find("popped", TRACE_TOPIC):
                pass  # Clients send traces from time to time.
        yield
