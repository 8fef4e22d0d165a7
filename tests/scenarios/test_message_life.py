"""The life of one message, put together from store, journal, offsets and traces. In simulated time."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from staticfire.client import (
    ClientSettings,
    ConsumeStatus,
    Message,
    MessageQueue,
    Producer,
    ProducerSettings,
    SubscriptionGroupConfig,
    TransactionProducer,
    TransactionState,
    message_lives,
)
from staticfire.client.life.facts import LifeEvent
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC, Heard, Shop, failing

pytestmark = pytest.mark.row("F3")

HOUR_MS = 3_600_000
QUEUE = MessageQueue(TOPIC, "broker-a", 0)


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    shop = Shop(world, getattr(request, "param", ClientSettings()), broker_settings={"journal_enable": True})
    yield await shop.open(brokers=2)
    await shop.close()


def _decided(state: TransactionState, _message: Message, _argument: object) -> TransactionState:
    return state


async def life(shop: Shop, text: str) -> list[LifeEvent]:
    found = await message_lives(shop.admin, text)
    assert len(found) <= 1
    return [event for life in found.values() for event in life.events]


def reported(events: list[LifeEvent], *names: str) -> list[Any]:
    """Return what happened, with some fields of each event."""
    return [(event.what, *(getattr(event, name) for name in names)) if names else event.what for event in events]


@BOTH_PROTOCOLS
async def test_what_fails_is_followed_to_its_dead_letter(shop: Shop) -> None:
    await shop.admin.create_group(SubscriptionGroupConfig(GROUP, retry_max_times=1))
    async with shop.consumer("one", failing(9), max_reconsume_times=1):
        sent = await shop.producer.send(Message(TOPIC, b"bad", keys="order-7"), queue=QUEUE)
        await shop.until_heard(2)
        await shop.world.run_for(seconds=6)
    events = await life(shop, sent.message_id)
    assert reported(events, "group", "success", "reconsume_times") == [
        ("stored", "", None, 0),
        ("delivered", GROUP, False, 0),
        ("sent back", GROUP, True, 0),
        ("waits", GROUP, True, 1),
        ("comes again", GROUP, None, 1),
        ("delivered", GROUP, False, 1),
        ("sent back", GROUP, True, 1),
        ("dead", GROUP, False, 2),
    ]
    assert events[2].words == "redelivered, level 3"
    assert events[6].words == "it is a dead letter"
    assert all(event.client.startswith("10.0.3.") for event in events if event.what == "delivered")
    assert await life(shop, "order-7") == events
    assert await life(shop, sent.offset_message_id) == events


async def test_journal_and_offsets_show_who_consumed_it(world: SimulatedWorld, shop: Shop) -> None:
    sent = await shop.producer.send(Message(TOPIC, b"1", tags="paid"), queue=QUEUE)
    async with shop.consumer("one"), shop.consumer("two", group="refunds", expression="refunded"):
        await shop.until_heard(1)
        await world.run_for(seconds=10)
        events = await life(shop, sent.message_id)
    assert reported(events, "group", "success") == [
        ("stored", "", None),
        ("delivered", "billing", True),
        ("passed over", "refunds", None),
    ]
    later = await shop.producer.send(Message(TOPIC, b"2"), queue=QUEUE)
    assert reported(await life(shop, later.message_id), "group", "words") == [
        ("stored", "", ""),
        ("not yet", "billing", "next offset 1, offline"),
        ("not yet", "refunds", "next offset 1, offline"),
    ]


@BOTH_PROTOCOLS
async def test_what_waits_says_until_when_and_what_became_of_it(shop: Shop) -> None:
    by_level = await shop.producer.send(Message(TOPIC, b"level", delay_level=17))
    timed = await shop.producer.send(Message(TOPIC, b"timed", delay_ms=HOUR_MS))
    regretted = await shop.producer.send(Message(TOPIC, b"regretted", delay_ms=HOUR_MS))
    for sent, words in ((by_level, "for orders, level 17"), (timed, "for orders")):
        [waits] = await life(shop, sent.message_id)
        assert (waits.what, waits.success) == ("waits", None)
        assert waits.words.startswith("until 20")
        assert waits.words.endswith(words)
    await shop.producer.recall(TOPIC, regretted.recall_handle or "")
    await shop.advance(1)
    for sent in (by_level, timed):
        waited, stored = await life(shop, sent.message_id)
        assert (waited.what, waited.success) == ("waits", True)
        assert (stored.what, stored.words) == ("stored", "it was due")
        assert HOUR_MS <= (stored.time_ms or 0) - (waited.time_ms or 0) < HOUR_MS + 50
    waited, recalled = await life(shop, regretted.message_id)
    assert (waited.what, waited.success, recalled.what) == ("waits", False, "recalled")
    assert waited.words.endswith("recalled")


@BOTH_PROTOCOLS
async def test_both_halves_of_a_transaction(world: SimulatedWorld, shop: Shop) -> None:
    decided = {"yes": TransactionState.COMMIT, "no": TransactionState.ROLLBACK, "perhaps": TransactionState.UNKNOWN}
    settings = ProducerSettings(client=shop.settings)
    machine = world.machine("desk", host="10.0.2.9")
    ids = {}
    async with TransactionProducer(
        "shop-t", NAMESRV, settings, machine, check=lambda _: TransactionState.UNKNOWN
    ) as one:
        for word, state in decided.items():
            result = await one.send_in_transaction(Message(TOPIC, word.encode()), partial(_decided, state))
            ids[word] = result.sent.message_id
        await world.run_for(seconds=1)
        lives = {word: await life(shop, message_id) for word, message_id in ids.items()}
    assert reported(lives["yes"]) == ["half", "committed"]
    assert reported(lives["no"]) == ["half", "rolled back"]
    assert reported(lives["perhaps"]) == ["half"]
    assert lives["perhaps"][0].words == "for orders; its transaction is open"
    await shop.advance(4)
    assert reported(await life(shop, ids["perhaps"])) == ["half", "set aside"]


async def test_traces_are_put_where_message_time_was(world: SimulatedWorld, shop: Shop) -> None:
    """Message time jumps by an hour: what a client traced before and after lies on either side of it."""

    async def fails_once(heard: Heard) -> ConsumeStatus:
        again = heard.message.reconsume_times or heard.message.body == b"fine"
        return ConsumeStatus.CONSUME_SUCCESS if again else ConsumeStatus.RECONSUME_LATER

    settings = ProducerSettings(client=shop.settings, enable_trace=True)
    async with Producer("desk", NAMESRV, settings, world.machine("desk", host="10.0.2.9")) as producer:
        sent = await producer.send(Message(TOPIC, b"x", delay_ms=HOUR_MS))
        async with shop.consumer("one", fails_once, enable_trace=True):
            await world.run_for(seconds=2)
            await shop.advance(1)
            await shop.advance(1)
            await world.run_for(seconds=10)
    events = await life(shop, sent.message_id)
    assert reported(events, "success", "source") == [
        ("sent", True, "trace"),
        ("waits", True, "store"),
        ("stored", None, "store"),
        ("delivered", False, "journal"),
        ("consumed", False, "trace"),
        ("sent back", True, "journal"),
        ("waits", True, "store"),
        ("comes again", None, "store"),
        ("delivered", True, "journal"),
        ("consumed", True, "trace"),
    ]


async def test_a_broker_that_keeps_no_journal(world: SimulatedWorld) -> None:
    shop = await Shop(world).open()
    sent = await shop.producer.send(Message(TOPIC, b"1"), queue=QUEUE)
    async with shop.consumer("one"):
        await shop.until_heard(1)
        await world.run_for(seconds=10)
    assert reported(await life(shop, sent.message_id), "group", "source") == [
        ("stored", "", "store"),
        ("consumed", GROUP, "offsets"),
    ]
    assert await message_lives(shop.admin, "nothing") == {}
    async with shop.consumer("two", group="refunds", enable_trace=True):
        await shop.until_heard(2)
        await world.run_for(seconds=10)
    assert reported(await life(shop, sent.message_id), "group", "source") == [
        ("stored", "", "store"),
        ("consumed", "refunds", "trace"),
        ("consumed", GROUP, "offsets"),
    ]
    await shop.close()


async def test_what_can_be_shown_while_a_broker_is_away(world: SimulatedWorld, shop: Shop) -> None:
    sent = await shop.producer.send(Message(TOPIC, b"a"), queue=QUEUE)
    async with shop.consumer("one"):
        await shop.until_heard(1)
        await world.run_for(seconds=10)
    world.partition("shop", "broker-b")
    found = (await message_lives(shop.admin, sent.message_id))[sent.message_id]
    assert reported(found.events, "success") == [("stored", None), ("delivered", True)]
    assert any("on broker-b" in note for note in found.notes)


async def test_of_too_many_the_newest_are_shown_and_that_there_are_more(shop: Shop) -> None:
    await shop.producer.send_many([Message(TOPIC, b"%d" % number, keys="same") for number in range(25)])
    lives = await message_lives(shop.admin, "same")
    assert len(lives) == 20
    assert {note for life in lives.values() for note in life.notes} == {
        "25 or more messages have the key same: only the newest 20 are shown"
    }
