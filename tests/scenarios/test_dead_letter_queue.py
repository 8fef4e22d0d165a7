"""Dead letters in public: shown, exported, followed."""

from random import Random

import pytest

from staticfire.client import (
    ClientError,
    DeadLetterQueue,
    GroupNotFound,
    Message,
    NoPermission,
    ResendReport,
)
from staticfire.client.admin.dead_letters import Death, LetterPlace, read_history
from staticfire.control.reset import reset
from staticfire.control.whole_cluster import KnownBrokers
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.burying import DEAD, bodies, bury, dlq
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC, Shop

__all__ = ["dlq"]

pytestmark = pytest.mark.row("A5")


# -- looking -----------------------------------------------------------------------------------------------------------


@BOTH_PROTOCOLS
async def test_a_letter_says_where_it_came_from_and_how_it_died(
    world: SimulatedWorld, shop: Shop, dlq: DeadLetterQueue
) -> None:
    message = Message(TOPIC, b"unlucky", tags="paid", keys=["42", "eu"], properties={"origin": "shop"})
    await bury(world, shop, message, queue=2)
    (letter,) = await dlq.letters()
    assert (letter.id, letter.group, letter.origin_topic) == ("broker-a/0/0", GROUP, TOPIC)
    assert (letter.message.body, letter.message.tags, letter.message.keys) == (b"unlucky", "paid", ["42", "eu"])
    assert (letter.failed_times, letter.earlier_deaths, letter.is_resent) == (1, (), False)
    assert 0 <= shop.brokers["broker-a"].state.clock.message_ms() - letter.died_ms < 60_000
    shown = letter.as_json()
    assert (shown["originTopic"], shown["bodyBase64"], shown["properties"]["origin"]) == (TOPIC, "dW5sdWNreQ==", "shop")
    assert shown["originMessageId"] == letter.origin_message_id
    for name in (letter.id, letter.message.message_id, letter.message.offset_message_id):
        assert (await dlq.find(name)).place == LetterPlace("broker-a", 0, 0)


@BOTH_PROTOCOLS
async def test_they_are_counted_and_come_in_the_order_in_which_they_died(
    world: SimulatedWorld, shop: Shop, dlq: DeadLetterQueue
) -> None:
    for number in range(5):
        await bury(world, shop, Message(TOPIC, b"%d" % number))
        await world.run_for(seconds=1)
    assert {letter.place.broker_name for letter in await dlq.letters()} == {"broker-a", "broker-b"}
    assert bodies(await dlq.letters()) == [b"0", b"1", b"2", b"3", b"4"]
    assert bodies(await dlq.letters(2)) == [b"0", b"1"]
    assert bodies(await dlq.letters(2, newest=True)) == [b"3", b"4"]
    assert sorted(bodies([letter async for letter in dlq.read()])) == [b"0", b"1", b"2", b"3", b"4"]
    assert await dlq.count() == 5
    assert await shop.admin.dead_letters() == {GROUP: 5}


async def test_more_of_them_than_an_answer_holds(world: SimulatedWorld, shop: Shop, dlq: DeadLetterQueue) -> None:
    wanted = [b"%d" % number for number in range(500)]
    await bury(world, shop, *(Message(TOPIC, body) for body in wanted))
    assert sorted(bodies([letter async for letter in dlq.read()])) == sorted(wanted)
    assert len(await dlq.letters(300)) == 300


@BOTH_PROTOCOLS
async def test_a_group_without_any_has_none_and_an_unknown_one_is_reported(shop: Shop, dlq: DeadLetterQueue) -> None:
    with pytest.raises(GroupNotFound, match="no broker knows group billing"):
        await dlq.letters()
    await shop.admin.create_group(GROUP)
    assert (await dlq.letters(), await dlq.count(), await shop.admin.dead_letters()) == ([], 0, {})
    assert await dlq.resend() == ResendReport()


@BOTH_PROTOCOLS
@pytest.mark.parametrize(
    ("letter_id", "words"),
    [
        ("broker-a/0/7", "ends before 1"),
        ("broker-a/3/0", "has no such queue; it has broker-a/0"),
        ("broker-z/0/0", "has no such queue"),
        ("C0A80001", "has no dead letter C0A80001: `staticfire dlq list billing` shows the ids"),
        ("", "has no dead letter"),
        ("broker-a/0/-1", "has no dead letter"),
    ],
)
async def test_an_unknown_id_is_reported_and_nothing_is_sent(
    world: SimulatedWorld, shop: Shop, dlq: DeadLetterQueue, letter_id: str, words: str
) -> None:
    await bury(world, shop, Message(TOPIC, b"unlucky"), queue=0)
    before = shop.ends()
    with pytest.raises(ClientError, match=words):
        await dlq.find(letter_id)
    with pytest.raises(ClientError, match=words):
        await dlq.resend(["broker-a/0/0", letter_id])
    assert shop.ends() == before


async def test_a_letter_that_retention_has_removed_is_reported(world: SimulatedWorld) -> None:
    shop = await Shop(world, broker_settings={"mapped_file_size_commit_log": 100_000}).open()
    async with DeadLetterQueue(GROUP, client=shop.producer.client) as dlq:
        await bury(world, shop, Message(TOPIC, b"1"), queue=0)
        await shop.admin.create_topic("filler", 1)
        await shop.producer.send_many([Message("filler", Random(1).randbytes(40_000))] * 3)
        await bury(world, shop, Message(TOPIC, b"2"), queue=0)
        await world.run_for(seconds=5)
        store = shop.brokers["broker-a"].state.store
        assert store.remove_segments_before(store.max_position)
        with pytest.raises(ClientError, match=r"no longer exists: retention has removed everything before \d"):
            await dlq.find("broker-a/0/0")
        assert bodies(await dlq.letters()) in ([b"2"], [])
        assert (await dlq.resend()).count <= 1
    await shop.close()


async def test_a_write_only_queue_is_reported_with_the_remedy(world: SimulatedWorld) -> None:
    shop = await Shop(world, broker_settings={"dlq_perm": 2}).open()
    await bury(world, shop, Message(TOPIC, b"unlucky"))
    async with DeadLetterQueue(GROUP, client=shop.producer.client) as dlq:
        with pytest.raises(NoPermission, match="staticfire change %DLQ%billing --perm 6"):
            await dlq.letters()
        await shop.admin.create_topic(DEAD, 1)
        assert bodies(await dlq.letters()) == [b"unlucky"]
    await shop.close()


@BOTH_PROTOCOLS
async def test_whoever_follows_hears_of_each_death(world: SimulatedWorld, shop: Shop, dlq: DeadLetterQueue) -> None:
    heard: list[bytes] = []

    async def hear(from_start: bool) -> None:
        async for letter in dlq.follow(from_start):
            heard.append(letter.message.body)

    following = world.loop.create_task(hear(from_start=False))
    await world.run_for(seconds=1)
    await bury(world, shop, Message(TOPIC, b"1"), Message(TOPIC, b"2"), queue=0)
    await world.until(lambda: heard == [b"1", b"2"], 1_000)
    await world.run_for(seconds=6)  # offsets are saved every 5 s
    world.kill("broker-a")
    await world.run_for(seconds=1)
    await shop.start_broker("broker-a")
    await bury(world, shop, Message(TOPIC, b"3"), queue=0)
    await world.until(lambda: heard == [b"1", b"2", b"3"], 60_000)
    following.cancel()
    anew = world.loop.create_task(hear(from_start=True))
    await world.until(lambda: heard[3:] == [b"1", b"2", b"3"], 1_000)
    anew.cancel()


@BOTH_PROTOCOLS
async def test_who_follows_is_notified_of_each_death_after_a_reset(
    world: SimulatedWorld, shop: Shop, dlq: DeadLetterQueue
) -> None:
    """The offsets of the new queue are those of the old one, so only its messages show that it is another one."""
    heard: list[bytes] = []

    async def hear() -> None:
        async for letter in dlq.follow(from_start=True):
            heard.append(letter.message.body)

    await bury(world, shop, Message(TOPIC, b"1"), queue=0)
    following = world.loop.create_task(hear())
    await world.until(lambda: heard == [b"1"], 1_000)
    await reset(shop.producer.client.pool, NAMESRV, KnownBrokers())
    await shop.admin.create_topic(TOPIC, 4)
    await bury(world, shop, Message(TOPIC, b"2"), queue=0)
    await world.until(lambda: heard == [b"1", b"2"], 2_000)
    following.cancel()


# -- pure --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("broker-a/0/17", LetterPlace("broker-a", 0, 17)),
        ("rack/3/broker/1/2", LetterPlace("rack/3/broker", 1, 2)),
        ("broker-a/17", None),
        ("/0/1", None),
        ("broker-a/0/x", None),
        ("broker-a/0/-1", None),
        ("broker-a/0/١", None),
    ],
)
def test_places_are_read_as_they_are_written(text: str, place: LetterPlace | None) -> None:
    assert LetterPlace.parse(text) == place
    assert place is None or str(place) == text


@pytest.mark.parametrize(
    "death",
    [Death("billing", "broker-a/0/17", 1_767_225_600_123, 17), Death("%x|y", "a broker/1/2", 0, 0)],
)
def test_histories_are_read_as_they_are_written(death: Death) -> None:
    assert Death.parse(str(death)) == death
    assert read_history(f"nonsense; {death}; billing; ") == (death,)


def test_a_history_that_is_no_history_is_none() -> None:
    assert read_history(None) == read_history("") == read_history("a b c d; e") == ()
