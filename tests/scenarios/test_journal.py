"""The journal of a broker: who came and went, who has which queue, what was delivered, sent back, and died; when."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from staticfire.client import (
    BrokerAnswer,
    ClientSettings,
    ConsumeStatus,
    JournalRecord,
    MessageQueue,
    OrderedContext,
    OrderedStatus,
    PullConsumer,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
    UsageError,
)
from staticfire.control.reset import reset
from staticfire.control.whole_cluster import KnownBrokers
from staticfire.protocol.requests.journal import (
    CLOCK_SET,
    DELIVERED,
    DIED,
    FORGOTTEN,
    JOINED,
    LEFT,
    LOCKED,
    RESET_OFFSET,
    SENT_BACK,
    STARTED,
    SUBSCRIBED,
    TOOK_OVER,
    UNLOCKED,
    GetJournal,
    JournalPage,
)
from staticfire.protocol.requests.reset_offset import ResetOffset
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC, Heard, Shop, failing

BROKER_A = "10.0.1.1:10911"
ON = {"journal_enable": True, "record_requests": True}

pytestmark = pytest.mark.row("S7")


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    shop = Shop(world, getattr(request, "param", ClientSettings()), broker_settings=dict(ON))
    yield await shop.open(queues=2)
    await shop.close()


async def journal(shop: Shop, *kinds: str, **wanted: Any) -> list[JournalRecord]:
    return await shop.admin.journal(*kinds, **wanted)


def reported(records: list[JournalRecord], *names: str) -> list[tuple[Any, ...]]:
    """Return some fields or details of records."""
    return [tuple(getattr(one, name) if hasattr(one, name) else one.details[name] for name in names) for one in records]


# -- members -----------------------------------------------------------------------------------------------------------


@BOTH_PROTOCOLS
async def test_members_come_and_go_each_for_a_reason(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one", expression="paid || refunded")
    await shop.start("two")
    await world.stop("one")
    world.kill("two")
    await world.run_for(seconds=1)
    joined, gone = await journal(shop, JOINED, group=GROUP), await journal(shop, LEFT, group=GROUP)
    assert [(one.details["members"], one.details["counts"]) for one in joined] == [(1, True), (2, True)]
    assert joined[0].details["subscriptions"] == {TOPIC: "paid || refunded", "%RETRY%billing": "*"}
    assert (joined[0].details["messageModel"], joined[0].details["consumeType"]) == ("CLUSTERING", "CONSUME_PASSIVELY")
    assert reported(gone, "client", "reason", "members") == [
        (joined[0].client, "unregistered", 1),
        (joined[1].client, "connection lost", 0),
    ]


async def test_a_silent_member_is_distinguished_from_one_whose_connection_broke(
    world: SimulatedWorld, shop: Shop
) -> None:
    await shop.start("one")
    world.partition("one", "broker-a")
    await world.run_for(seconds=140)
    (gone,) = await journal(shop, LEFT)
    assert gone.details == {"reason": "silent for too long", "members": 0}


@BOTH_PROTOCOLS
async def test_a_changed_subscription_is_reported_with_the_former_one(world: SimulatedWorld, shop: Shop) -> None:
    consumer = await shop.start("one", expression="paid")
    await world.run_for(seconds=31)
    consumer.subscribe(TOPIC, "refunded")
    consumer.subscribe("more")
    await world.run_for(seconds=31)
    consumer.unsubscribe(TOPIC)
    await world.run_for(seconds=31)
    assert reported(await journal(shop, SUBSCRIBED), "topic", "expression", "before") == [
        ("orders", "refunded", "paid"),
        ("more", "*", ""),
        ("orders", "", "refunded"),
    ]


# -- queues ------------------------------------------------------------------------------------------------------------


@BOTH_PROTOCOLS
async def test_the_first_pull_of_a_new_owner_is_recorded_with_the_former_owner(
    world: SimulatedWorld, shop: Shop
) -> None:
    one = await shop.start("one")
    await world.run_for(seconds=1)
    two = await shop.start("two")
    await world.run_for(seconds=25)
    ids = one.client.client_id, two.client.client_id
    await world.stop("one")
    await world.run_for(seconds=25)
    records = await journal(shop, TOOK_OVER, topic=TOPIC)
    assert sorted(reported(records[:2], "client", "queue_id", "before")) == [(ids[0], 0, ""), (ids[0], 1, "")]
    assert reported(records[2:], "client", "before") == [(ids[1], ids[0]), (ids[1], ids[0])]
    assert len({one.queue_id for one in records[2:]}) == 2


async def test_a_held_pull_of_the_old_owner_takes_nothing_back(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one")
    await world.run_for(seconds=1)
    await shop.start("two")
    await world.run_for(seconds=1)
    await shop.send(*[b"x"] * 8)
    await world.run_for(seconds=1)
    owners: dict[int, set[str]] = {}
    for record in await journal(shop, TOOK_OVER, topic=TOPIC):
        assert record.client not in owners.get(record.queue_id, set())
        owners.setdefault(record.queue_id, set()).add(record.client)


@BOTH_PROTOCOLS
async def test_locks_are_recorded_once_however_often_they_are_renewed(world: SimulatedWorld, shop: Shop) -> None:
    machine = world.machine("ordered")
    consumer = PushConsumer(GROUP, NAMESRV, PushSettings(client=shop.settings), machine)
    consumer.subscribe(TOPIC)

    @consumer.ordered_listener
    async def listen(_: tuple[ReceivedMessage, ...], context: OrderedContext) -> OrderedStatus:
        return OrderedStatus.SUCCESS

    await world.start("ordered", consumer)
    await world.run_for(seconds=70)
    assert sorted(reported(await journal(shop, LOCKED, topic=TOPIC), "queue_id", "before")) == [(0, ""), (1, "")]
    await world.stop("ordered")
    await world.run_for(seconds=1)
    assert {one.details["reason"] for one in await journal(shop, UNLOCKED, topic=TOPIC)} == {"released"}
    assert len(await journal(shop, UNLOCKED, topic=TOPIC)) == 2


async def test_a_lock_that_is_not_renewed_expires(world: SimulatedWorld, shop: Shop) -> None:
    consumer = PushConsumer(GROUP, NAMESRV, machine=world.machine("ordered"))
    consumer.subscribe(TOPIC)
    consumer.ordered_listener(lambda messages, context: OrderedStatus.SUCCESS)
    await world.start("ordered", consumer)
    await world.run_for(seconds=1)
    world.kill("ordered")
    await world.run_for(seconds=90)
    unlocked = await journal(shop, UNLOCKED, topic=TOPIC)
    assert reported(unlocked, "reason") == [("expired",), ("expired",)]


@BOTH_PROTOCOLS
async def test_a_reset_is_reported_with_the_former_offsets(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(b"1", b"2", b"3", queue=0)
    await shop.start("one", skip_young_history=False)
    await shop.until_heard(3)
    await world.run_for(seconds=6)
    request = ResetOffset(topic=TOPIC, group=GROUP, timestamp=0, is_force=True, queue_id=0, offset=1)
    assert (await shop.producer.client.pool.ask(BROKER_A, request, 3_000)).code == 0
    assert reported(await journal(shop, RESET_OFFSET), "group", "queue_id", "queue_offset", "before") == [
        (GROUP, 0, 1, 3)
    ]


# -- messages ----------------------------------------------------------------------------------------------------------


@BOTH_PROTOCOLS
async def test_the_way_of_a_message_from_its_delivery_to_its_death(world: SimulatedWorld, shop: Shop) -> None:
    async def give_up_later(heard: Heard) -> ConsumeStatus:
        heard.context.delay_level_when_next_consume = -1 if heard.message.reconsume_times else 1
        return ConsumeStatus.RECONSUME_LATER

    consumer = await shop.start("one", give_up_later)
    await shop.send(b"unlucky", queue=1)
    await world.run_for(seconds=3)
    client = consumer.client.client_id
    way = await journal(shop, DELIVERED, SENT_BACK, DIED)
    assert reported(way, "kind", "client", "topic", "queue_offset") == [
        (DELIVERED, client, TOPIC, 0),
        (SENT_BACK, client, TOPIC, 0),
        (DELIVERED, client, "%RETRY%billing", 0),
        (DIED, "", "%DLQ%billing", 0),
        (SENT_BACK, client, "%RETRY%billing", 0),
    ]
    assert way[0].details == {"endOffset": 1, "count": 1}
    message_id = shop.heard[0].message.message_id
    assert [way[index].details["messageId"] for index in (1, 3, 4)] == [message_id] * 3
    assert [way[index].details["delayLevel"] for index in (1, 4)] == [1, -1]
    assert (way[3].details["originTopic"], way[4].details["reconsumeTimes"]) == (TOPIC, 2)


async def test_each_event_has_its_time_of_both_clocks(world: SimulatedWorld, shop: Shop) -> None:
    started_ms = shop.brokers["broker-a"].state.clock.message_ms()
    await shop.start("one", failing(times=3))
    await shop.send(b"unlucky")
    await shop.until_heard(1)
    real_ms = world.machine("broker-a").clock.wall_ms()
    await shop.advance(hours=2)
    back = await journal(shop, SENT_BACK)
    waits = [round((one.message_ms - started_ms) / 1_000) for one in back]
    assert waits == [0, 10, 40]
    assert all(one.real_ms - real_ms < 5_000 for one in back)
    moves = await journal(shop, CLOCK_SET)
    assert moves[-1].message_ms >= started_ms + 2 * 3_600_000
    assert [one.number for one in await journal(shop)] == sorted(one.number for one in await journal(shop))


async def test_events_of_several_brokers_come_in_the_order_of_real_time(world: SimulatedWorld) -> None:
    shop = await Shop(world, broker_settings=dict(ON)).open(brokers=2)
    await shop.start("one")
    for number in range(20):
        await shop.send(b"%d" % number)
        await world.run_for(ms=50)
    delivered = await journal(shop, DELIVERED)
    assert {one.broker for one in delivered} == {"broker-a", "broker-b"}
    assert [one.real_ms for one in delivered] == sorted(one.real_ms for one in delivered)
    assert {one.broker for one in await shop.admin.journal(DELIVERED, broker_name="broker-b")} == {"broker-b"}
    await shop.close()


# -- the broker --------------------------------------------------------------------------------------------------------


async def test_a_journal_begins_with_its_broker_and_a_reset_is_an_event(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one")
    first = await journal(shop)
    assert (first[0].kind, first[0].number, first[0].details["address"]) == (STARTED, 1, "0.0.0.0:10911")
    await reset(shop.producer.client.pool, NAMESRV, KnownBrokers())
    assert FORGOTTEN in [one.kind for one in await journal(shop)]
    world.kill("broker-a")
    await shop.start_broker("broker-a")
    await world.run_for(seconds=1)
    assert (await journal(shop))[0].kind == STARTED


@pytest.mark.parametrize("requests", [False, True])
async def test_a_broker_without_a_journal_says_what_would_make_one(world: SimulatedWorld, requests: bool) -> None:
    shop = await Shop(world).open()
    setting = "recordRequests=true" if requests else "journalEnable=true"
    with pytest.raises(BrokerAnswer, match=f"start it with {setting}"):
        await (shop.admin.requests() if requests else shop.admin.journal())
    assert shop.brokers["broker-a"].tables.journals is None
    assert not world.machine("broker-a").files.exists("/store/journal")
    await shop.close()


async def test_a_kind_that_does_not_exist_is_reported(shop: Shop) -> None:
    with pytest.raises(UsageError, match="'dead' is not a kind of event; the kinds are started, joined"):
        await journal(shop, "dead")


# -- its bounds --------------------------------------------------------------------------------------------------------


async def filled(shop: Shop, count: int) -> None:
    """Let so many messages be delivered, one by one."""
    queue = MessageQueue(TOPIC, "broker-a", 0)
    await shop.send(b"x", queue=0)
    reader = PullConsumer("readers", client=shop.producer.client)
    for _ in range(count):
        await reader.pull(queue, 0)


async def page(shop: Shop, **wanted: Any) -> JournalPage:
    answer = await shop.producer.client.pool.ask(BROKER_A, GetJournal(**wanted), 5_000)
    assert answer.code == 0, answer.remark
    found: JournalPage = answer.body
    return found


async def test_what_memory_has_no_room_for_is_read_from_the_disk(world: SimulatedWorld) -> None:
    shop = await Shop(world, broker_settings={**ON, "journal_events_max": 100}).open()
    await filled(shop, 1_000)
    await world.run_for(seconds=1)
    files = world.machine("broker-a").files
    assert [name for name in files.list_folder("/store/journal") if name.startswith("events")]
    records = await shop.admin.journal()
    assert (records.dropped, [one.number for one in records]) == (0, list(range(1, len(records) + 1)))
    assert sum(one.kind == DELIVERED for one in records) == 1_000
    await shop.close()


async def test_what_the_disk_has_no_room_for_either_is_gone_and_counted(world: SimulatedWorld) -> None:
    settings: dict[str, object] = {**ON, "journal_events_max": 100, "journal_spill_bytes_max": 16_384}
    shop = await Shop(world, broker_settings=settings).open()
    for _ in range(8):
        await filled(shop, 250)
        await world.run_for(seconds=1)
    files = world.machine("broker-a").files
    names = files.list_folder("/store/journal")
    assert sum(len(files.read_bytes(f"/store/journal/{name}")) for name in names) <= 16_384
    records = await shop.admin.journal()
    assert records.dropped > 0
    assert [one.number for one in records] == list(range(records.dropped + 1, records.dropped + len(records) + 1))
    assert len(records) > 200
    await shop.close()


async def test_a_disk_that_takes_nothing_costs_the_past_and_nothing_else(world: SimulatedWorld) -> None:
    shop = await Shop(world, broker_settings={**ON, "journal_events_max": 100}).open()
    await filled(shop, 200)
    world.disk("broker-a").bytes_left = 0
    with pytest.raises(BrokerAnswer):
        await filled(shop, 1)
    reader = PullConsumer("readers", client=shop.producer.client)
    for _ in range(400):
        await reader.pull(MessageQueue(TOPIC, "broker-a", 0), 0)
    await world.run_for(seconds=1)
    records = await shop.admin.journal()
    assert len(records) >= 80
    assert records[-1].kind == DELIVERED
    world.disk("broker-a").bytes_left = None
    await shop.close()


async def test_nothing_is_kept_on_the_disk_if_nothing_may_be(world: SimulatedWorld) -> None:
    settings: dict[str, object] = {**ON, "journal_events_max": 100, "journal_spill_bytes_max": 0}
    shop = await Shop(world, broker_settings=settings).open()
    await filled(shop, 500)
    await world.run_for(seconds=1)
    assert not world.machine("broker-a").files.exists("/store/journal")
    records = await shop.admin.journal()
    assert (len(records) <= 125, records.dropped + len(records) > 500) == (True, True)
    await shop.close()


async def test_a_spoilt_spill_costs_what_was_in_it(world: SimulatedWorld) -> None:
    shop = await Shop(world, broker_settings={**ON, "journal_events_max": 100}).open()
    await filled(shop, 500)
    await world.run_for(seconds=1)
    files = world.machine("broker-a").files
    (name,) = files.list_folder("/store/journal")
    file = files.open(f"/store/journal/{name}")
    file.write(4, b"\xc1" * 100)
    file.close()
    records = await shop.admin.journal()
    assert 300 < len(records) < 500
    await shop.close()


async def test_it_is_read_page_by_page(shop: Shop) -> None:
    await filled(shop, 30)
    found: list[int] = []
    number, pages = 1, 0
    while True:
        part = await page(shop, first_number=number, records_max=7, kinds=DELIVERED)
        found += [one.number for one in part.records]
        number, pages = part.next_number, pages + 1
        if part.is_end:
            break
        assert len(part.records) == 7
    assert len(found) == len(set(found)) == 30
    assert pages == 5
    assert (await page(shop, first_number=number)).records == []
    await filled(shop, 1)
    assert [one.kind for one in (await page(shop, first_number=number)).records] == [DELIVERED]


@pytest.mark.parametrize("first_number", [-5, 0, 1, 1 << 62])
@pytest.mark.parametrize("records_max", [-1, 0, 1, 1 << 30])
@pytest.mark.parametrize("requests", [False, True])
async def test_questions_that_make_no_sense_are_answered_with_some(
    shop: Shop, first_number: int, records_max: int, requests: bool
) -> None:
    await filled(shop, 3)
    part = await page(shop, first_number=first_number, records_max=records_max, requests=requests)
    assert len(part.records) <= max(1, records_max)
    assert part.next_number >= 1
