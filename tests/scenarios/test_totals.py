"""What brokers report about all topics, groups and waiting messages together, compared with a survey of each."""

import pytest

from staticfire.client import ClientSettings, Message, MessageQueue
from staticfire.client.admin.listing import group_totals, list_groups, list_topics, member_counts, topic_totals
from staticfire.client.admin.look_ups import LookUp, find_in_all_topics
from staticfire.client.admin.totals import broker_totals, broker_waiting
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import GROUP, TOPIC, Shop, failing, forever
from tests.scenarios.receiving import receive_all, simple

pytestmark = pytest.mark.row("S9")

ROCKETMQ = pytest.mark.parametrize("shop", [ClientSettings(protocol="rocketmq")], indirect=True)
FOREVER = (1 << 63) - 1
COLUMNS = ("group", "members", "lag", "deadLetters")


async def test_totals_of_groups_are_what_a_survey_of_each_finds(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one", reaction=failing(times=99))
    await shop.start("two")
    await shop.send_many(40)
    await shop.admin.create_group("idle")
    await shop.admin.create_group("offline")
    await shop.offsets.commit("offline", MessageQueue(TOPIC, "broker-a", 0), 1)
    await world.run_for(seconds=40)
    await shop.advance(hours=30)
    await world.run_for(seconds=10)
    names = ["idle", "offline", GROUP]
    surveyed = await list_groups(shop.admin, names=names)
    totals = {row["group"]: row for row in await group_totals(shop.admin) or []}
    assert [[totals[row["group"]][name] for name in COLUMNS] for row in surveyed] == [
        [row[name] for name in COLUMNS] for row in surveyed
    ]
    assert totals["offline"]["lag"] > 0
    assert totals[GROUP]["members"] == 2
    assert await shop.admin.dead_letters() == {
        name: row["deadLetters"] for name, row in totals.items() if row["deadLetters"]
    }
    assert await member_counts(shop.admin, names) == {"idle": 0, "offline": 0, GROUP: 2}


async def test_popped_messages_count_in_the_totals_until_they_are_acknowledged(
    world: SimulatedWorld, shop: Shop
) -> None:
    await shop.send_many(6)
    async with simple(shop, "one") as consumer:
        taken = await receive_all(consumer, 6)
        (row,) = await group_totals(shop.admin, [consumer.group]) or []
        assert (row["lag"], row["members"]) == (6, 1)
        waiting = await broker_waiting(shop.admin.client, await shop.admin.readers(), "popped", 10, 5_000) or {}
        popped = [one for part in waiting.values() for one in part.popped]
        assert {(one.group, one.topic) for one in popped} == {(consumer.group, TOPIC)}
        assert sum(one.count for one in popped) == 6
        for message in taken:
            await consumer.ack(message)
        (row,) = await group_totals(shop.admin, [consumer.group]) or []
        assert row["lag"] == 0


async def test_totals_of_topics(shop: Shop) -> None:
    await shop.admin.create_topic("bills", queues=3)
    await shop.send_many(7)
    names = ["bills", "gone", TOPIC]
    brokers = len(shop.brokers)
    assert await topic_totals(shop.admin, names) == await list_topics(shop.admin, names=names)
    rows = {row["topic"]: row for row in await topic_totals(shop.admin, names) or []}
    assert rows["bills"] == {"topic": "bills", "brokers": brokers, "queues": 3 * brokers, "messages": 0}
    assert (rows[TOPIC]["messages"], "gone" in rows) == (7, False)
    totals = await broker_totals(shop.admin.client, await shop.admin.readers(), topics=None, timeout_ms=5_000)
    assert totals is not None
    assert all("bills" in part.topics and not part.groups for part in totals.values())


@ROCKETMQ
async def test_rocketmqs_protocol_has_no_totals(shop: Shop) -> None:
    await shop.send_many(3)
    readers = await shop.admin.readers()
    assert await broker_totals(shop.admin.client, readers, topics=None, timeout_ms=5_000) is None
    assert await broker_waiting(shop.admin.client, readers, "timer", 10, 5_000) is None
    assert await find_in_all_topics(shop.admin.client, readers, LookUp("42"), 1_000) is None
    rows = await list_topics(shop.admin, names=[TOPIC, "gone"])
    assert [(row["topic"], row["messages"]) for row in rows] == [(TOPIC, 3)]


async def test_a_search_in_all_topics_leaves_out_rocketmqs_own_and_deleted_topics(shop: Shop) -> None:
    for topic in ("bills", "refunds"):
        await shop.admin.create_topic(topic, queues=1)
        await shop.producer.send(Message(topic, topic.encode(), keys=("42",)))
    await shop.producer.send(Message(TOPIC, b"order", keys=("42", "43")))
    await shop.producer.send(Message(TOPIC, b"later", keys=("42",), delay_ms=3_600_000))
    client, readers = shop.admin.client, await shop.admin.readers()
    found = await find_in_all_topics(client, readers, LookUp("42"), 15_000)
    assert found is not None
    assert sorted(one.body for one in found) == [b"bills", b"order", b"refunds"]
    assert [
        one.body for one in await find_in_all_topics(client, readers, LookUp("42", messages_max=1), 15_000) or []
    ] == [b"order"]
    assert await find_in_all_topics(client, readers, LookUp("42", 1, 2), 15_000) == []
    await shop.admin.delete_topic("bills")
    assert sorted(one.body for one in await shop.admin.find("42")) == [b"order", b"refunds"]


async def test_what_waits_is_shown_with_the_next_first(world: SimulatedWorld, shop: Shop) -> None:
    await shop.clock("freeze")
    for number in range(5):
        delay_ms = 3_600_000 * (5 - number)
        await shop.producer.send(Message(TOPIC, b"later", tags="t", keys=(f"k-{number}",), delay_ms=delay_ms))
    await shop.producer.send(Message(TOPIC, b"level", keys=("level",), delay_level=1))
    readers = await shop.admin.readers()
    waiting = await broker_waiting(shop.admin.client, readers, "timer,level,transaction", 100, 5_000) or {}
    found = sorted((one for part in waiting.values() for one in part.messages), key=lambda one: one.due_ms)
    assert [(one.kind, one.topic, one.keys) for one in found] == [
        ("level", TOPIC, ["level"]), *(("timer", TOPIC, [f"k-{number}"]) for number in (4, 3, 2, 1, 0)),
    ]  # fmt: skip
    assert (found[1].due_ms - found[1].stored_ms, found[1].tags) == (3_600_000, "t")
    assert sum(part.counts["timer"] for part in waiting.values()) == 5
    (first, *_) = [
        one
        for part in (await broker_waiting(shop.admin.client, readers, "timer", 1, 5_000) or {}).values()
        for one in part.messages
    ]
    assert first.kind == "timer"
    assert all(
        len(part.messages) <= 1
        for part in (await broker_waiting(shop.admin.client, readers, "timer", 1, 5_000) or {}).values()
    )


async def test_a_member_that_doesnt_respond_doesnt_delay_totals(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one", reaction=forever)
    await shop.send_many(3)
    await world.run_for(seconds=5)
    world.freeze("one")
    (row,) = await group_totals(shop.admin, [GROUP]) or []
    assert (row["members"], row["lag"]) == (1, 3)
    world.thaw("one")
