"""Messages found by their ids and keys, and who has consumed them, as administrators ask for it."""

import pytest

from staticfire.client import (
    ConsumeStatus,
    ConsumptionState,
    Message,
    MessageModel,
    MessageQueue,
    SubscriptionGroupConfig,
    TopicNotFound,
)
from staticfire.client.admin.consumption import state_of
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.record import StoredRecord
from staticfire.protocol.requests.clients import SubscriptionData
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import TOPIC, Heard, Shop
from tests.scenarios.receiving import simple

pytestmark = pytest.mark.row("F3")

CONSUMED, FILTERED, NOT_YET, POPPED, UNKNOWN = ConsumptionState


def places(found: list[ReceivedMessage]) -> list[tuple[str, str, int, bytes]]:
    return [(message.topic, message.broker_name, message.queue_id, message.body) for message in found]


@BOTH_PROTOCOLS
async def test_each_of_its_ids_and_keys_finds_a_message_wherever_it_is(shop: Shop) -> None:
    await shop.admin.create_topic("bills", queues=1)
    for broker in ("broker-a", "broker-b"):
        queue = MessageQueue(TOPIC, broker, 2)
        await shop.producer.send(Message(TOPIC, broker.encode(), keys=("42", broker)), queue=queue)
    sent = await shop.producer.send(Message("bills", b"bill", keys=("42",)), queue=MessageQueue("bills", "broker-b", 0))
    of_a, of_b, bill = await shop.admin.find("42")
    assert places([of_a, of_b]) == [(TOPIC, "broker-a", 2, b"broker-a"), (TOPIC, "broker-b", 2, b"broker-b")]
    assert places([bill]) == [("bills", "broker-b", 0, b"bill")]
    for text in (sent.message_id, sent.offset_message_id, bill.offset_message_id.lower()):
        assert places(await shop.admin.find(text)) == places([bill])
    assert places(await shop.admin.find(of_a.offset_message_id)) == places([of_a])
    assert places(await shop.admin.find("42", "bills")) == places([bill])
    assert places(await shop.admin.find("broker-a")) == places([of_a])
    assert await shop.admin.find("4") == []
    assert await shop.admin.find("A" * 32) == []
    with pytest.raises(TopicNotFound):
        await shop.admin.find("42", "nowhere")


async def test_of_many_the_newest_between_two_times_are_found(world: SimulatedWorld, shop: Shop) -> None:
    for number in range(6):
        await shop.producer.send(Message(TOPIC, b"%d" % number, keys=("42",)))
        await world.run_for(seconds=1)
    every = await shop.admin.find("42")
    assert [message.body for message in every] == [b"%d" % number for number in range(6)]
    assert [message.body for message in await shop.admin.find("42", messages_max=2)] == [b"4", b"5"]
    times = every[1].stored_ms, every[3].stored_ms
    assert [message.body for message in await shop.admin.find("42", None, *times)] == [b"1", b"2", b"3"]


async def test_retries_and_the_dead_letter_are_copies_of_one_message(shop: Shop) -> None:
    async def fail(_: Heard) -> ConsumeStatus:
        return ConsumeStatus.RECONSUME_LATER

    await shop.admin.create_group(SubscriptionGroupConfig("billing", retry_max_times=1))
    async with shop.consumer("one", fail, max_reconsume_times=1):
        sent = await shop.producer.send(Message(TOPIC, b"bad"))
        await shop.until_heard(2)
        await shop.world.run_for(seconds=5)
    found = await shop.admin.find(sent.message_id)
    assert [message.topic for message in found] == [TOPIC, "%RETRY%billing", "%DLQ%billing"]
    assert [message.reconsume_times for message in found] == [0, 1, 2]
    first, retry, _ = [await shop.admin.consumption(message) for message in found]
    assert [(group.group, group.state) for group in (*first, *retry)] == [("billing", CONSUMED)] * 2


async def test_groups_that_are_past_a_message_have_consumed_it(world: SimulatedWorld, shop: Shop) -> None:
    queue = MessageQueue(TOPIC, "broker-a", 0)
    first = await shop.producer.send(Message(TOPIC, b"1", tags="paid"), queue=queue)
    async with (
        shop.consumer("one"),
        shop.consumer("two", group="refunds", expression="refunded"),
        shop.consumer("three", group="screens", message_model=MessageModel.BROADCASTING),
    ):
        await shop.until_heard(1)
        await world.run_for(seconds=10)
        (message,) = await shop.admin.find(first.message_id)
        states = {one.group: (one.state, one.committed, one.is_online) for one in await shop.admin.consumption(message)}
        assert states["billing"] == (CONSUMED, 1, True)
        assert states["refunds"] == (FILTERED, 1, True)
        assert states["screens"] == (UNKNOWN, None, True)
    second = await shop.producer.send(Message(TOPIC, b"2"), queue=queue)
    (later,) = await shop.admin.find(second.message_id)
    states = {one.group: (one.state, one.committed, one.is_online) for one in await shop.admin.consumption(later)}
    assert states == {"billing": (NOT_YET, 1, False), "refunds": (NOT_YET, 1, False)}


async def test_a_message_is_consumed_by_a_group_that_pops_when_it_is_acknowledged(
    world: SimulatedWorld, shop: Shop
) -> None:
    queue = MessageQueue(TOPIC, "broker-a", 0)
    sent = [await shop.producer.send(Message(TOPIC, b"x"), queue=queue) for _ in range(3)]
    taker = await world.start("taker", simple(shop, "taker"))
    taken = await taker.receive(3)
    await taker.ack(taken[1])
    messages = [(await shop.admin.find(one.message_id))[0] for one in sent]
    states = [one.state for message in messages for one in await shop.admin.consumption(message)]
    assert states == [POPPED, CONSUMED, POPPED]


@pytest.mark.parametrize(
    ("committed", "text", "kind", "state"),
    [
        (None, "*", "TAG", UNKNOWN),
        (7, "*", "TAG", NOT_YET),
        (8, "*", "TAG", CONSUMED),
        (8, "open || paid", "TAG", CONSUMED),
        (8, "open", "TAG", FILTERED),
        (7, "open", "TAG", NOT_YET),
        (8, "||", "TAG", CONSUMED),
        (8, "price > 3", "SQL92", CONSUMED),
        (8, "price > 300", "SQL92", FILTERED),
        (8, "price >", "SQL92", CONSUMED),
    ],
)
def test_what_offset_and_subscription_say_of_a_message(
    committed: int | None, text: str, kind: str, state: ConsumptionState
) -> None:
    properties = b"TAGS\x01paid\x02price\x0112\x02"
    record = StoredRecord(0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, bytes(8), TOPIC, properties, b"")
    message = ReceivedMessage(record, "broker-a", bytes(8))
    assert state_of(message, committed, SubscriptionData(TOPIC, text, expression_type=kind)) is state
    assert state_of(message, 8, None) is CONSUMED


async def test_a_broker_that_is_away_is_a_gap(world: SimulatedWorld, shop: Shop) -> None:
    await shop.producer.send(Message(TOPIC, b"a", keys=("42",)), queue=MessageQueue(TOPIC, "broker-a", 0))
    world.kill("broker-b")
    found = await shop.admin.find("42", TOPIC)
    assert [message.body for message in found] == [b"a"]
    assert len(found.gaps) == 1
    assert found.gaps[0].startswith("orders on broker-b: ")
    assert [message.body for message in await shop.admin.find(found[0].message_id, TOPIC)] == [b"a"]
