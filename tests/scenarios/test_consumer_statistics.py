"""How fast a consumer is, as it says itself and as administrators see it."""

import asyncio

import pytest

from staticfire.client import ConsumeFromWhere, ConsumeStatus, OrderedStatus, PushConsumer
from staticfire.protocol.requests.connections import ConsumerRunningInfo, GetConsumerRunningInfo, TopicConsumption
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import GROUP, TOPIC, Heard, Messages, Shop
from tests.scenarios.polling import lite_pull

RETRY = f"%RETRY%{GROUP}"
LISTENER_S = 0.04

pytestmark = pytest.mark.row("P8")


async def every_fifth_fails(heard: Heard) -> ConsumeStatus:
    await asyncio.sleep(LISTENER_S)  # house: a listener that takes a while, in virtual time
    is_bad = heard.message.reconsume_times == 0 and heard.message.queue_offset % 5 == 0
    return ConsumeStatus.RECONSUME_LATER if is_bad else ConsumeStatus.CONSUME_SUCCESS


async def requested(shop: Shop, client_id: str) -> ConsumerRunningInfo:
    address = next(iter((await shop.admin.masters()).values()))
    answer = await shop.admin.client.pool.ask(address, GetConsumerRunningInfo(GROUP, client_id), 5_000)
    assert answer.code == 0, answer
    info: ConsumerRunningInfo = answer.body
    return info


@BOTH_PROTOCOLS
async def test_an_administrator_sees_what_the_last_minute_was_like(world: SimulatedWorld, shop: Shop) -> None:
    consumer = await shop.start("one", every_fifth_fails)
    assert consumer.statistics[TOPIC] == TopicConsumption()
    for second in range(100):
        await shop.send(*[b"%d" % second] * 2, queue=0)
        await world.run_for(ms=1_000 - world.uptime_ms % 1_000)
    await world.run_for(ms=10)
    info = await requested(shop, consumer.client.client_id)
    found = info.status_table[TOPIC]
    assert found == consumer.statistics[TOPIC]
    assert found.pull_tps == pytest.approx(2.0, rel=0.05)
    assert found.consume_ok_tps == pytest.approx(1.6, rel=0.05)
    assert found.consume_failed_tps == pytest.approx(0.4, rel=0.1)
    assert found.consume_failed_msgs == 4, "of the hour there is a sample every ten minutes, and one at the beginning"
    assert found.consume_rt == pytest.approx(LISTENER_S * 1000, abs=1)
    assert 0 < found.pull_rt < 1_100, "pulls that are held wait for the next message"
    assert info.status_table[RETRY].consume_ok_tps > 0
    await world.run_for(minutes=10)
    found = consumer.statistics[TOPIC]
    assert (found.pull_tps, found.consume_ok_tps, found.consume_failed_tps, found.pull_rt) == (0, 0, 0, 0)
    assert found.consume_failed_msgs == 40


@pytest.mark.parametrize("is_plain", [False, True], ids=["async", "plain"])
@pytest.mark.parametrize("is_ordered", [False, True], ids=["concurrent", "ordered"])
async def test_each_kind_of_listener_is_counted(
    world: SimulatedWorld, shop: Shop, is_plain: bool, is_ordered: bool
) -> None:
    consumer = shop.consumer("one", consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    listen_to(consumer, is_plain, is_ordered)
    await shop.send(b"ok", b"bad", b"ok", b"ok", queue=0)
    await world.start("one", consumer)
    await world.run_for(ms=10_050)
    found = consumer.statistics[TOPIC]
    assert round(found.consume_ok_tps * 10) == (4 if is_ordered else 3)
    assert round(found.consume_failed_tps * 10) == 1
    assert found.consume_failed_msgs == 1
    assert round(found.pull_tps * 10) == 4


def listen_to(consumer: PushConsumer, is_plain: bool, is_ordered: bool) -> None:
    def is_bad(messages: Messages) -> bool:
        return messages[0].body == b"bad" and messages[0].reconsume_times == 0

    def plain(messages: Messages, _: object) -> ConsumeStatus:
        return ConsumeStatus.RECONSUME_LATER if is_bad(messages) else ConsumeStatus.CONSUME_SUCCESS

    def plain_ordered(messages: Messages, _: object) -> OrderedStatus:
        return OrderedStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT if is_bad(messages) else OrderedStatus.SUCCESS

    async def awaited(messages: Messages, context: object) -> ConsumeStatus:
        return plain(messages, context)

    async def awaited_ordered(messages: Messages, context: object) -> OrderedStatus:
        return plain_ordered(messages, context)

    if is_ordered:
        consumer.ordered_listener(plain_ordered if is_plain else awaited_ordered)
    else:
        consumer.listener(plain if is_plain else awaited)


async def test_a_lite_pull_consumer_says_what_it_pulls_and_holds(world: SimulatedWorld, shop: Shop) -> None:
    consumer = lite_pull(shop, "one", consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    consumer.subscribe(TOPIC)
    await shop.send(b"1", b"2", b"3", queue=0)
    async with consumer:
        await world.run_for(ms=10_050)
        info = await requested(shop, consumer.client.client_id)
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
        assert [one.topic for one in info.subscription_set] == [TOPIC]
        assert len(info.mq_table) == 8
        assert sum(queue.cached_msg_count for queue in info.mq_table.values()) == 3
        assert info.status_table[TOPIC] == consumer.statistics[TOPIC]
        assert round(info.status_table[TOPIC].pull_tps * 10) == 3
