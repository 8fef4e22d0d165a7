"""Consumers that choose by conditions over properties (SQL92)."""

from typing import Any, cast

import pytest

from staticfire.client import (
    ConsumeStatus,
    LitePullConsumer,
    LitePullSettings,
    Message,
    MessageQueue,
    OrderedContext,
    OrderedStatus,
    PullConsumer,
    PullSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from staticfire.client.cluster.condition_check import V4_1_0, refuse_too_old
from staticfire.protocol.errors import ClientError
from staticfire.protocol.frame_reader import Peer
from staticfire.protocol.requests.config import UpdateBrokerConfig
from staticfire.runtime.connection import Connection
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import NAMESRV, TOPIC, Heard, Shop

pytestmark = pytest.mark.row("P6")

DEAR = "price > 100 AND region IN ('eu', 'us')"


async def send(shop: Shop, *prices: int, region: str = "eu") -> None:
    for price in prices:
        properties = {"price": str(price), "region": region}
        await shop.producer.send(Message(TOPIC, b"%d" % price, properties=properties))


def consumer(shop: Shop, condition: str, who: str = "one", **choices: Any) -> PushConsumer:
    made = shop.consumer(who, topic=None, **choices)
    made.subscribe(TOPIC, condition, "SQL92")
    return made


@BOTH_PROTOCOLS
async def test_a_consumer_hears_what_its_condition_wants(shop: Shop) -> None:
    async with consumer(shop, DEAR):
        await send(shop, 1, 300, 2, 400)
        await send(shop, 500, region="asia")
        await send(shop, 600, region="us")
        await shop.until_heard(3)
        await shop.world.run_for(seconds=10)
    assert sorted(shop.bodies) == [b"300", b"400", b"600"]
    assert shop.is_committed()


@BOTH_PROTOCOLS
async def test_a_message_that_fails_comes_again(shop: Shop) -> None:
    async def fail_once(heard: Heard) -> ConsumeStatus:
        again = heard.message.reconsume_times
        return ConsumeStatus.CONSUME_SUCCESS if again else ConsumeStatus.RECONSUME_LATER

    async with consumer(shop, DEAR, reaction=fail_once):
        await send(shop, 1, 300)
        await shop.until_heard(2)
    assert [(heard.message.body, heard.message.reconsume_times) for heard in shop.heard] == [(b"300", 0), (b"300", 1)]


@BOTH_PROTOCOLS
async def test_another_condition_counts_from_then_on(shop: Shop) -> None:
    async with consumer(shop, "price > 100") as running:
        await send(shop, 1, 300)
        await shop.until_heard(1)
        await shop.world.run_for(seconds=10)  # Until its pull was answered, since 1 doesn't match: 5 s at most.
        running.subscribe(TOPIC, "price < 100", "SQL92")
        await shop.world.run_for(seconds=1)
        await send(shop, 2, 400)
        await shop.until_heard(2)
        await shop.world.run_for(seconds=10)
        running.subscribe(TOPIC, "*")
        await shop.world.run_for(seconds=1)
        await send(shop, 3, 500)
        await shop.until_heard(4)
    assert sorted(shop.bodies) == [b"2", b"3", b"300", b"500"]


async def test_two_members_share_what_their_condition_wants(shop: Shop) -> None:
    async with consumer(shop, "price >= 50"), consumer(shop, "price >= 50", who="two"):
        await shop.world.run_for(seconds=1)
        await send(shop, *range(100))
        await shop.until_heard(50)
        await shop.world.run_for(seconds=10)
    assert sorted(map(int, shop.bodies)) == list(range(50, 100))
    assert {heard.who for heard in shop.heard} == {"one", "two"}


@BOTH_PROTOCOLS
async def test_who_pulls_by_himself_chooses_pull_by_pull(shop: Shop) -> None:
    for price in (1, 300):
        await shop.producer.send(
            Message(TOPIC, b"%d" % price, properties={"price": str(price)}), queue=MessageQueue(TOPIC, "broker-a", 0)
        )
    queue, settings = MessageQueue(TOPIC, "broker-a", 0), PullSettings(client=shop.settings)
    async with PullConsumer("report", NAMESRV, settings, shop.world.machine("report")) as report:
        for condition, expected in (("price > 100", [b"300"]), ("price < 100", [b"1"])):
            result = await report.pull(queue, 0, condition, expression_type="SQL92")
            assert ([message.body for message in result.messages], result.next_offset) == (expected, 2)
        with pytest.raises(ClientError, match="'orders': 'price >' is not a valid condition: Encountered"):
            await report.pull(queue, 0, "price >", expression_type="SQL92")


@BOTH_PROTOCOLS
async def test_who_polls_gets_what_the_condition_wants(shop: Shop) -> None:
    settings = LitePullSettings(client=shop.settings)
    async with LitePullConsumer("report", NAMESRV, settings, shop.world.machine("report")) as report:
        report.subscribe(TOPIC, DEAR, "SQL92")
        await send(shop, 1, 300)
        assert [message.body for message in await report.poll(5_000)] == [b"300"]


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "kind", "words"),
    [
        ("price >", "SQL92", "'orders': 'price >' is not a valid condition: Encountered \"<EOF>\" at line 1, column 7"),
        ("", "SQL92", "'orders': '' is not a valid condition"),
        ("a" * 50_000, "SQL92", r"'orders': 'aaa.*a\.\.\. is not a valid condition: a condition of 50000 characters"),
        (
            "paid",
            "tag",
            "'orders': unknown expression type 'tag': filter by tags, expression_type='TAG'",
        ),
    ],
)
def test_what_is_no_condition_is_refused_where_it_is_said(condition: str, kind: str, words: str) -> None:
    with pytest.raises(ClientError, match=words):
        PushConsumer("report", NAMESRV).subscribe("orders", condition, kind)


@BOTH_PROTOCOLS
async def test_a_broker_without_conditions_is_reported_at_the_start(shop: Shop) -> None:
    for broker in shop.brokers.values():
        address = f"{broker.state.machine.identity.host_ip}:{broker.port}"
        await shop.producer.client.pool.ask(address, UpdateBrokerConfig(body=b"enablePropertyFilter=false"), 1_000)
    words = "doesn't filter by 'price > 1': The broker does not support consumer to filter message by SQL92"
    with pytest.raises(ClientError, match=words):
        async with consumer(shop, "price > 1"):
            pass
    refused = consumer(shop, "price > 1", who="two")
    refused.subscribe(TOPIC)
    async with refused:
        await send(shop, 300)
        await shop.until_heard(1)


async def test_a_start_without_a_broker_waits_for_no_broker(world: SimulatedWorld, shop: Shop) -> None:
    for name in ("broker-a", "broker-b"):
        world.kill(name)
    async with consumer(shop, "price > 1"):
        await world.run_for(seconds=1)


@pytest.mark.parametrize(("version", "is_refused"), [(0, False), (213, True), (V4_1_0, False), (479, False)])
def test_a_broker_that_is_too_old_gets_no_pull(version: int, is_refused: bool) -> None:
    class Old:
        peer = Peer("10.0.0.2:10911", version)

    connection = cast(Connection, Old)
    refuse_too_old(connection, "TAG")
    if not is_refused:
        refuse_too_old(connection, "SQL92")
    else:
        with pytest.raises(ClientError, match="of version 213, is too old to filter by SQL92: filter by tags"):
            refuse_too_old(connection, "SQL92")


# -- with everything else ----------------------------------------------------------------------------------------------


async def test_a_clock_that_jumps_waits_for_what_is_wanted_and_for_nothing_else(shop: Shop) -> None:
    async with consumer(shop, "price > 100"):
        for price in (1, 300, 2):
            delayed = Message(TOPIC, b"%d" % price, properties={"price": str(price)}, delay_level=17)
            await shop.producer.send(delayed)
        assert (await shop.advance(hours=2)).delivered == 3
        assert shop.bodies == [b"300"]
        await shop.world.run_for(seconds=10)
        assert shop.is_committed()


async def test_a_reset_consumer_hears_what_it_wants_again(shop: Shop) -> None:
    async with consumer(shop, "price > 100"):
        await send(shop, 1, 300, 2, 400)
        await shop.until_heard(2)
        await shop.world.run_for(seconds=6)
        await shop.admin.reset_offset_by_time("billing", TOPIC, 0)
        await shop.until_heard(4)
        await shop.world.run_for(seconds=10)
    assert sorted(shop.bodies) == [b"300", b"300", b"400", b"400"]


@BOTH_PROTOCOLS
async def test_a_consumer_in_order_hears_what_it_wants_in_order(shop: Shop) -> None:
    heard: list[bytes] = []
    machine = shop.world.machine("ordered")
    ordered = PushConsumer("billing", NAMESRV, PushSettings(client=shop.settings), machine)
    ordered.subscribe(TOPIC, "price >= 50", "SQL92")

    @ordered.ordered_listener
    async def listen(messages: tuple[ReceivedMessage, ...], _: OrderedContext) -> OrderedStatus:
        heard.extend(message.body for message in messages)
        return OrderedStatus.SUCCESS

    queue = MessageQueue(TOPIC, "broker-a", 0)
    async with ordered:
        for price in range(100):
            await shop.producer.send(Message(TOPIC, b"%d" % price, properties={"price": str(price)}), queue=queue)
        await shop.world.until(lambda: len(heard) >= 50, 60_000, "50 messages heard")
    assert heard == [b"%d" % price for price in range(50, 100)]


async def test_a_broker_that_was_killed_filters_on(shop: Shop) -> None:
    async with consumer(shop, "price > 100"):
        await send(shop, 1, 300)
        await shop.until_heard(1)
        shop.world.kill("broker-a")
        shop.world.kill("broker-b")
        await shop.world.run_for(seconds=1)
        await shop.start_broker("broker-a")
        await shop.start_broker("broker-b")
        await shop.world.run_for(seconds=40)
        await send(shop, 2, 400)
        await shop.until_heard(2)
        await shop.world.run_for(seconds=10)
    assert set(shop.bodies) == {b"300", b"400"}
