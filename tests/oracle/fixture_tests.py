"""All that the fixture `rocketmq` has, on a real cluster: what it can do, and what is skipped there with a reason.

pytest --rocketmq-target HOST:PORT tests/oracle/fixture_tests.py
"""

from collections.abc import Sequence
from unittest import SkipTest

import pytest

from staticfire import ConsumeFromWhere, ConsumeStatus, Message, PushConsumer, PushSettings, ReceivedMessage
from staticfire.testing import RocketMQ
from staticfire.testing.waits import NotYet


def consumer(rocketmq: RocketMQ, topic: str, group: str, status: ConsumeStatus, tries: int = 3) -> PushConsumer:
    settings = PushSettings(
        client=rocketmq.client_settings,
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        max_reconsume_times=tries,
    )
    found = PushConsumer(group, rocketmq.namesrv, settings)
    found.subscribe(topic)

    @found.listener
    def listen(messages: Sequence[ReceivedMessage], context: object) -> ConsumeStatus:
        return status

    return found


def test_messages_come_and_go(rocketmq: RocketMQ) -> None:
    orders, billing = rocketmq.create_topic("orders", queues=2), rocketmq.group_name("billing")
    assert rocketmq.is_real
    assert rocketmq.environment["NAMESRV_ADDR"] == rocketmq.namesrv
    rocketmq.send(orders, "1", b"2", Message(orders, b"3", keys=["k"]))
    assert sorted(one.body for one in rocketmq.messages(orders)) == [b"1", b"2", b"3"]
    with pytest.raises(NotYet, match=f"{billing} has not consumed {orders}"):
        rocketmq.wait_consumed(orders, group=billing, timeout_s=0.5)
    with consumer(rocketmq, orders, billing, ConsumeStatus.CONSUME_SUCCESS):
        rocketmq.wait_consumed(orders, group=billing)
        assert len(rocketmq.group(billing).members) == 1
        assert billing in rocketmq.explain(billing)


def test_what_fails_dies(rocketmq: RocketMQ) -> None:
    orders, billing = rocketmq.create_topic("orders"), rocketmq.group_name("billing")
    rocketmq.send(orders, "1")
    with consumer(rocketmq, orders, billing, ConsumeStatus.RECONSUME_LATER, tries=0):
        (letter,) = rocketmq.wait_dead(billing)
    assert letter.message.body == b"1"
    assert len(rocketmq.dead_letters(billing)) == 1


async def test_the_same_awaited(rocketmq: RocketMQ) -> None:
    orders = await rocketmq.aio.create_topic("orders")
    await rocketmq.aio.send(orders, "1")
    assert [one.body for one in await rocketmq.aio.messages(orders)] == [b"1"]


def test_what_a_real_cluster_has_not_is_skipped(rocketmq: RocketMQ) -> None:
    for what in ("clock", "cluster"):
        with pytest.raises(SkipTest, match=f"rocketmq.{what} needs a cluster of staticfire"):
            getattr(rocketmq, what)
    for ask in (rocketmq.journal, rocketmq.requests):
        with pytest.raises(SkipTest, match="needs a cluster of staticfire"):
            ask()


@pytest.mark.rocketmq(brokers=2)
def test_a_cluster_of_its_own_is_skipped(rocketmq: RocketMQ) -> None:
    raise AssertionError("it was run")
