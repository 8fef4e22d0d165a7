"""All dead letters of a group sent again: what can't be sent yet, two resends at once, and where a resend continues."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import (
    ClientError,
    ClientSettings,
    DeadLetterQueue,
    Message,
    ResendInterrupted,
    ResendReport,
    ResendRunning,
    UsageError,
)
from staticfire.protocol.names import TOOLS_GROUP
from staticfire.protocol.requests.imports import ImportedMessage, ImportMessages
from staticfire.protocol.requests.locks import LockQueues, MessageQueue, QueuesOfClient
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import BOTH_PROTOCOLS, ROCKETMQ
from tests.scenarios.burying import DEAD, bury, dlq, fine, put_stray
from tests.scenarios.consuming import GROUP, TOPIC, Shop
from tests.scenarios.faulty_shop import BROKER, FaultyShop

__all__ = ["dlq"]

pytestmark = pytest.mark.row("A5")


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[FaultyShop]:
    """Two brokers that accept fault rules."""
    shop = FaultyShop(world, getattr(request, "param", ClientSettings()))
    yield await shop.open(brokers=2)
    await shop.close()


async def bury_ten(world: SimulatedWorld, shop: Shop) -> list[bytes]:
    """Turn ten messages into dead letters of broker-a."""
    wanted = [b"%d" % number for number in range(10)]
    await bury(world, shop, *(Message(TOPIC, body) for body in wanted), queue=0)
    return wanted


def sent_to(shop: Shop, topic: str = TOPIC) -> int:
    """Return how many messages a topic has."""
    return sum(shop.ends(topic).values())


# -- letters that can't be sent ----------------------------------------------------------------------------------------


@BOTH_PROTOCOLS
async def test_letters_of_a_missing_topic_are_sent_when_it_exists(
    world: SimulatedWorld, shop: FaultyShop, dlq: DeadLetterQueue
) -> None:
    await bury_ten(world, shop)
    await shop.admin.delete_topic(TOPIC)
    for _ in range(2):
        report = await dlq.resend()
        assert (report.count, len(report.left)) == (0, 10)
        assert not any(letter.is_resent for letter in await dlq.letters())
    await shop.admin.create_topic(TOPIC, 4)
    assert await dlq.resend() == ResendReport({TOPIC: 10})
    assert all(letter.is_resent for letter in await dlq.letters())
    assert await dlq.resend() == ResendReport()


@BOTH_PROTOCOLS
async def test_a_letter_that_can_never_be_sent_blocks_no_other_and_no_other_is_sent_twice(
    world: SimulatedWorld, shop: FaultyShop, dlq: DeadLetterQueue
) -> None:
    await bury(world, shop, Message(TOPIC, b"1"), queue=0)
    await put_stray(shop)
    await bury(world, shop, Message(TOPIC, b"2"), queue=0)
    assert (await dlq.resend()).resent == {TOPIC: 2}
    await shop.start("healed", fine)
    await shop.until_heard(2)
    await world.stop("healed")
    await bury(world, shop, Message(TOPIC, b"3"), queue=0)
    before = sent_to(shop)
    for sent, skipped in ((1, 1), (0, 2)):
        report = await dlq.resend()
        assert (report.count, report.skipped, [left.id for left in report.left]) == (sent, skipped, ["broker-a/0/1"])
    assert sent_to(shop) == before + 1
    assert [letter.is_resent for letter in await dlq.letters()] == [True, False, False, False]


async def test_letters_without_a_unique_id_after_one_that_is_left_are_sent_once(
    world: SimulatedWorld, shop: FaultyShop, dlq: DeadLetterQueue
) -> None:
    await bury(world, shop, Message(TOPIC, b"1"), queue=0)
    await put_stray(shop)
    as_before_version_5 = ImportedMessage(f"RETRY_TOPIC\x01{TOPIC}".encode(), b"old", 1, b"\x0a\0\2\1\0\0\0\1")
    imported = ImportMessages(DEAD, 0, body=[as_before_version_5])
    assert (await shop.producer.client.pool.ask(BROKER, imported, 3_000)).code == 0
    letter = await dlq.find("broker-a/0/2")
    assert letter.message.get("UNIQ_KEY") is None
    assert [(await dlq.resend()).count for _ in range(3)] == [2, 0, 0]
    await shop.start("healed", fine)
    await shop.until_heard(2)
    (old,) = [heard.message for heard in shop.heard if heard.message.body == b"old"]
    assert old.message_id == letter.message.message_id


@pytest.mark.parametrize("only_group", [False, True])
async def test_another_topic_gets_the_letters_that_were_left_and_no_others(
    world: SimulatedWorld, shop: FaultyShop, dlq: DeadLetterQueue, only_group: bool
) -> None:
    await shop.admin.create_topic("investigated", 1)
    await shop.admin.create_group(GROUP)
    await bury(world, shop, Message(TOPIC, b"1"), queue=0)
    await put_stray(shop)
    await bury(world, shop, *(Message(TOPIC, b"%d" % number) for number in range(2, 5)), queue=0)
    assert (await dlq.resend(only_group=only_group)).count == 4
    report = await dlq.resend(to="investigated")
    assert (report.resent, report.skipped, report.left) == ({"investigated": 1}, 3, [])
    assert all(letter.is_resent for letter in await dlq.letters())


async def test_letters_of_a_topic_that_accepts_nothing_are_left_and_those_of_others_are_sent(
    world: SimulatedWorld, shop: FaultyShop, dlq: DeadLetterQueue
) -> None:
    await shop.admin.create_topic("refunds", 1)
    await bury(world, shop, Message(TOPIC, b"1"), queue=0)
    await put_stray(shop, "refunds")
    await shop.admin.create_topic(TOPIC, 4, perm=4)
    report = await dlq.resend()
    ((left),) = report.left
    assert (report.resent, left.id) == ({"refunds": 1}, "broker-a/0/0")
    assert "has no writable queue" in left.reason
    await shop.admin.create_topic(TOPIC, 4)
    assert await dlq.resend() == ResendReport({TOPIC: 1}, skipped=1)


@pytest.mark.parametrize("shop", [ROCKETMQ], indirect=True)
async def test_a_body_that_was_damaged_on_its_way_is_sent_by_the_next_resend(
    world: SimulatedWorld, shop: FaultyShop, dlq: DeadLetterQueue
) -> None:
    await bury(world, shop, Message(TOPIC, b"unlucky" * 5_000), queue=0)
    await shop.add(code="PULL_MESSAGE", topic=DEAD, corrupt=True, times=1, seed=5)
    report = await dlq.resend()
    ((left),) = report.left
    assert "its body was damaged during the transfer; try again" in left.reason
    assert await dlq.resend() == ResendReport({TOPIC: 1})


@BOTH_PROTOCOLS
async def test_a_look_up_that_a_broker_refuses_interrupts_and_nothing_is_sent_twice(
    world: SimulatedWorld, shop: FaultyShop, dlq: DeadLetterQueue
) -> None:
    await bury_ten(world, shop)
    before = sent_to(shop)
    await shop.add(code="UPDATE_CONSUMER_OFFSET", topic=DEAD, answer="SYSTEM_BUSY", times=1)
    with pytest.raises(ResendInterrupted, match="sent 1 dead letters, then broker-a/0/1 failed"):
        await dlq.resend()
    for broker in shop.brokers:  # Each may have it, whatever its permission is now.
        await shop.add(code="QUERY_MESSAGE", topic=TOPIC, answer="SYSTEM_BUSY", times=1, broker=broker)
        with pytest.raises(ResendInterrupted, match="sent 0 dead letters, then broker-a/0/0 failed: SYSTEM_BUSY"):
            await dlq.resend()
    report = await dlq.resend()
    assert (report.count, report.skipped, sent_to(shop)) == (9, 1, before + 10)


@BOTH_PROTOCOLS
async def test_all_brokers_of_a_topic_are_queried_at_once(
    world: SimulatedWorld, shop: FaultyShop, dlq: DeadLetterQueue
) -> None:
    """Whether a letter was sent before is known as soon as the slowest of them responds."""
    await bury_ten(world, shop)
    await shop.add(code="QUERY_MESSAGE", topic=TOPIC, delay="100ms")
    with shop.takes(1_000, within_ms=300):
        assert (await dlq.resend()).count == 10


@BOTH_PROTOCOLS
async def test_letters_after_a_left_one_are_not_sent_twice_when_the_route_of_their_topic_changes(
    world: SimulatedWorld, shop: FaultyShop, dlq: DeadLetterQueue
) -> None:
    """An earlier resend sent them to another broker, since this one was closed. Its progress stays before the stray."""
    await put_stray(shop)
    await bury_ten(world, shop)
    before = sent_to(shop)
    await shop.admin.create_topic(TOPIC, 4, perm=4, broker_name="broker-a")
    assert len((await dlq.resend()).left) == 1
    assert sent_to(shop) == before + 10
    for perm, broker in ((6, "broker-a"), (4, "broker-b")):
        await shop.admin.create_topic(TOPIC, 4, perm=perm, broker_name=broker)
        report = await dlq.resend()
        assert (report.count, report.skipped, sent_to(shop)) == (0, 10, before + 10)


@BOTH_PROTOCOLS
async def test_letters_that_were_sent_to_their_own_topic_are_left_out_when_it_is_closed_since(
    world: SimulatedWorld, shop: FaultyShop, dlq: DeadLetterQueue
) -> None:
    await bury(world, shop, Message(TOPIC, b"1"), queue=0)
    await put_stray(shop)
    await bury(world, shop, Message(TOPIC, b"2"), queue=0)
    assert (await dlq.resend()).resent == {TOPIC: 2}
    await shop.admin.create_topic("other", 1)
    await shop.admin.create_topic(TOPIC, 4, perm=4)
    report = await dlq.resend(to="other")
    assert (report.resent, report.skipped) == ({"other": 1}, 1)  # The stray, and no second copy of the last one.


# -- two at once -------------------------------------------------------------------------------------------------------


@BOTH_PROTOCOLS
async def test_of_two_resends_at_once_one_is_refused_and_each_letter_is_sent_once(
    world: SimulatedWorld, shop: FaultyShop, dlq: DeadLetterQueue
) -> None:
    await bury(world, shop, *(Message(TOPIC, b"%d" % number) for number in range(30)))
    before = sent_to(shop)
    outcomes = await asyncio.gather(*(dlq.resend() for _ in range(3)), return_exceptions=True)
    reports = [one for one in outcomes if isinstance(one, ResendReport)]
    refusals = [one for one in outcomes if isinstance(one, ResendRunning)]
    assert (reports, len(refusals)) == ([ResendReport({TOPIC: 30})], 2)
    assert "another resend of the dead letters of billing is running" in str(refusals[0])
    assert sent_to(shop) == before + 30
    assert await dlq.resend() == ResendReport()


@BOTH_PROTOCOLS
async def test_the_claim_of_a_resend_that_was_killed_ends_after_a_minute(
    world: SimulatedWorld, shop: FaultyShop, dlq: DeadLetterQueue
) -> None:
    await bury_ten(world, shop)
    queue = MessageQueue(DEAD, "broker-a", 0)
    killed = LockQueues(bname="broker-a", body=QueuesOfClient(TOOLS_GROUP, "killed", [queue]))
    assert (await shop.producer.client.pool.ask(BROKER, killed, 3_000)).code == 0
    with pytest.raises(ResendRunning, match="if it was killed, its claim ends after 60 s"):
        await dlq.resend()
    await world.run_for(seconds=61)
    assert (await dlq.resend()).count == 10


async def test_a_long_resend_keeps_its_claim(world: SimulatedWorld, shop: FaultyShop, dlq: DeadLetterQueue) -> None:
    await bury_ten(world, shop)
    await shop.add(code="UPDATE_CONSUMER_OFFSET", topic=DEAD, delay="4s")
    await shop.add(code="SEND_MESSAGE_V2", topic=TOPIC, delay="4s")
    resending = world.loop.create_task(dlq.resend())
    for _ in range(7):
        await world.run_for(seconds=10)
        with pytest.raises(ResendRunning, match="another resend of the dead letters of billing is running"):
            await dlq.resend()
    assert (await resending).count == 10


async def test_a_resend_that_has_lost_its_claim_stops(
    world: SimulatedWorld, shop: FaultyShop, dlq: DeadLetterQueue
) -> None:
    await bury_ten(world, shop)
    await shop.add(code="UPDATE_CONSUMER_OFFSET", topic=DEAD, delay="4s")
    resending = world.loop.create_task(dlq.resend())
    await world.run_for(seconds=10)
    locks = shop.brokers["broker-a"].tables.groups.queue_locks
    locks.forget_all()
    locks.lock(TOOLS_GROUP, "other", [MessageQueue(DEAD, "broker-a", 0)], world.uptime_ms)
    with pytest.raises(ResendInterrupted, match=r"sent \d dead letters, then .* another resend"):
        await resending


# -- where it continues ------------------------------------------------------------------------------------------------


@BOTH_PROTOCOLS
async def test_an_interrupted_resend_of_all_again_continues_where_it_was(
    world: SimulatedWorld, shop: FaultyShop, dlq: DeadLetterQueue
) -> None:
    wanted = await bury_ten(world, shop)
    await bury(world, shop, Message(TOPIC, b"10"), Message(TOPIC, b"11"))
    assert (await dlq.resend()).count == 12
    before = sent_to(shop)
    await shop.add(code="SEND_MESSAGE_V2", topic=TOPIC, answer="SYSTEM_ERROR", times=1, after=4)
    with pytest.raises(ResendInterrupted, match="again from broker-a/0/4 on:") as reported:
        await dlq.resend(again=True)
    assert (reported.value.report.count, reported.value.next_id) == (4, "broker-a/0/4")
    assert "staticfire dlq resend billing --all --again --from broker-a/0/4" in str(reported.value)
    report = await dlq.resend(again=True, start="broker-a/0/4")
    assert (report.count, sent_to(shop)) == (8, before + 12)
    await shop.start("healed", fine)
    await shop.until_heard(24)
    assert sorted(shop.bodies) == sorted([*wanted, b"10", b"11"] * 2)


async def test_a_cancelled_resend_says_where_it_continues(
    world: SimulatedWorld, shop: FaultyShop, dlq: DeadLetterQueue
) -> None:
    await bury_ten(world, shop)
    before = sent_to(shop)
    resending = world.loop.create_task(dlq.resend(again=True))
    await world.until(lambda: sent_to(shop) >= before + 4, 1_000)
    resending.cancel()
    notes: list[str] = []
    try:
        await resending
    except asyncio.CancelledError as cancelled:
        notes += cancelled.__notes__
    (note,) = notes
    start = note.partition("--from ")[2].partition(" ")[0]
    assert start in ("broker-a/0/3", "broker-a/0/4")
    assert (await dlq.resend(again=True, start=start)).count >= 6


async def test_a_resend_of_all_again_counts_as_one_for_letters_that_are_new(
    world: SimulatedWorld, shop: FaultyShop, dlq: DeadLetterQueue
) -> None:
    await bury_ten(world, shop)
    assert (await dlq.resend(again=True, start="broker-a/0/8")).count == 2
    assert not any(letter.is_resent for letter in await dlq.letters())
    assert (await dlq.resend(again=True)).count == 10
    assert await dlq.resend() == ResendReport()


async def test_a_start_needs_again_and_a_queue_that_exists(
    world: SimulatedWorld, shop: FaultyShop, dlq: DeadLetterQueue
) -> None:
    await bury_ten(world, shop)
    with pytest.raises(UsageError, match="a start needs again"):
        await dlq.resend(start="broker-a/0/4")
    for start in ("broker-a/7/4", "nonsense"):
        with pytest.raises(ClientError, match="have no such queue; they have broker-a/0"):
            await dlq.resend(again=True, start=start)


@BOTH_PROTOCOLS
async def test_letters_by_their_ids_that_were_not_sent_are_named(
    world: SimulatedWorld, shop: FaultyShop, dlq: DeadLetterQueue
) -> None:
    await bury_ten(world, shop)
    await shop.add(code="SEND_MESSAGE_V2", topic=TOPIC, answer="SYSTEM_ERROR", times=1, after=1)
    ids = [f"broker-a/0/{number}" for number in (7, 3, 5)]
    with pytest.raises(ResendInterrupted, match=r"Not sent yet: broker-a/0/3, broker-a/0/5$"):
        await dlq.resend(ids)


async def test_a_broker_that_dies_while_letters_are_read_interrupts_with_a_report(
    world: SimulatedWorld, shop: FaultyShop, dlq: DeadLetterQueue
) -> None:
    await bury_ten(world, shop)
    await shop.add(code="PULL_MESSAGE", topic=DEAD, answer="SYSTEM_ERROR", times=1)
    with pytest.raises(ResendInterrupted, match="sent 0 dead letters, then broker-a/0/0 failed") as reported:
        await dlq.resend()
    assert reported.value.report == ResendReport()
    assert (await dlq.resend()).count == 10


# -- other groups ------------------------------------------------------------------------------------------------------


@BOTH_PROTOCOLS
async def test_a_resend_is_reported_also_if_a_broker_doesnt_name_its_groups(
    world: SimulatedWorld, shop: FaultyShop, dlq: DeadLetterQueue
) -> None:
    await shop.start("other", fine, group="shipping")
    await bury(world, shop, Message(TOPIC, b"unlucky"), queue=0)
    await shop.add(code="QUERY_TOPIC_CONSUME_BY_WHO", broker="broker-b", drop="request")
    report = await dlq.resend()
    assert (report.resent, report.other_groups) == ({TOPIC: 1}, ["shipping"])
    ((unknown),) = report.other_groups_unknown
    assert unknown.startswith("broker-b: ")
