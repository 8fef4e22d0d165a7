"""An order desk and its tests: `pytest examples/testing`, and the same on a real RocketMQ with
`ROCKETMQ_TARGET=127.0.0.1:9876 pytest examples/testing`, where the test that needs a clock is skipped."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from staticfire import (
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from staticfire.testing import RocketMQ


class Desk:
    """Bills orders, each once; those of customers without credit can't be billed."""

    def __init__(self) -> None:
        self.billed: dict[str, bytes] = {}

    def bill(self, messages: Sequence[ReceivedMessage], context: object) -> ConsumeStatus:
        for message in messages:
            if message.body == b"no credit":
                return ConsumeStatus.RECONSUME_LATER
            self.billed[message.keys[0]] = message.body
        return ConsumeStatus.CONSUME_SUCCESS


@contextmanager
def open_desk(rocketmq: RocketMQ, topic: str, group: str) -> Iterator[Desk]:
    """A desk at work."""
    desk = Desk()
    settings = PushSettings(
        client=rocketmq.client_settings,
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        max_reconsume_times=3,
    )
    consumer = PushConsumer(group, rocketmq.namesrv, settings)
    consumer.subscribe(topic)
    consumer.listener(desk.bill)
    with consumer:
        yield desk


def test_orders_are_billed(rocketmq: RocketMQ) -> None:
    orders, billing = rocketmq.create_topic("orders"), rocketmq.group_name("billing")
    rocketmq.send(orders, *(Message(orders, b"12.50", keys=[f"order-{number}"]) for number in range(10)))
    with open_desk(rocketmq, orders, billing) as desk:
        rocketmq.wait_consumed(orders, group=billing)
    assert sorted(desk.billed) == sorted(f"order-{number}" for number in range(10))


def test_orders_without_credit_are_given_up_after_three_tries(rocketmq: RocketMQ) -> None:
    orders, billing = rocketmq.create_topic("orders"), rocketmq.group_name("billing")
    rocketmq.clock.freeze()  # Message time is frozen: no retry comes before we move it.
    rocketmq.send(orders, Message(orders, b"no credit", keys=["order-1"]))
    with open_desk(rocketmq, orders, billing) as desk:
        rocketmq.wait_consumed(orders, group=billing)
        assert not rocketmq.dead_letters(billing)
        rocketmq.clock.advance(minutes=5)  # 10 s, 30 s and a minute: all three tries fall due on the way.
        (letter,) = rocketmq.wait_dead(billing)
    assert letter.message.keys == ["order-1"]
    assert not desk.billed
