"""Pulls: what is found, what is held, what is refused. RocketMQ: PullMessageProcessor, PullRequestHoldService."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from staticfire.protocol.codecs import JSON, NATIVE, ROCKETMQ
from staticfire.protocol.command import Answer
from staticfire.protocol.requests.clients import ConsumerData, Heartbeat, HeartbeatData, SubscriptionData
from staticfire.protocol.requests.config import UpdateBrokerConfig
from staticfire.protocol.requests.groups import SubscriptionGroupConfig, UpdateGroup
from staticfire.protocol.requests.offsets import QueryConsumerOffset
from staticfire.protocol.requests.pull import (
    FLAG_COMMIT_OFFSET,
    FLAG_SUBSCRIPTION,
    FLAG_SUSPEND,
    LitePullMessage,
    PullAnswer,
    PullMessage,
)
from staticfire.protocol.requests.reset import Reset
from staticfire.protocol.requests.send import ManyMessage, SendMany
from staticfire.protocol.requests.topics import DeleteTopic, UpdateTopic
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.stand import Stand

pytestmark = [pytest.mark.row("P5"), pytest.mark.row("P3")]

FOUND, NOT_FOUND, RETRY, MOVED = 0, 19, 20, 21


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[Stand]:
    stand = await Stand(world).start()
    await stand.create_topic("orders")
    yield stand
    await stand.close()


def a_pull(offset: int = 0, **changes: Any) -> PullMessage:
    pull = PullMessage("billing", "orders", 0, offset, 32, FLAG_SUBSCRIPTION, 0, 15_000, "*")
    for name, value in changes.items():
        setattr(pull, name, value)
    return pull


def held(offset: int = 0, **changes: Any) -> PullMessage:
    return a_pull(offset, sys_flag=FLAG_SUBSCRIPTION | FLAG_SUSPEND, **changes)


async def ask(stand: Stand, pull: PullMessage) -> Any:
    return await stand.ask(stand.brokers["broker-a"], pull, 60_000)


def bodies(answer: Answer) -> list[bytes]:
    return [record.body for record in answer.body.records] if answer.body else []


async def test_everything_from_an_offset_on(stand: Stand) -> None:
    for number in range(5):
        await stand.send("orders", b"%d" % number)
    answer = await ask(stand, a_pull(2))
    assert isinstance(answer, PullAnswer)
    assert bodies(answer) == [b"2", b"3", b"4"]
    assert (answer.code, answer.remark, answer.next_begin_offset) == (FOUND, "FOUND", 5)
    assert (answer.min_offset, answer.max_offset, answer.suggest_which_broker_id) == (0, 5, 0)


@pytest.mark.parametrize(("codec_byte", "most"), [(JSON, 32), (ROCKETMQ, 32), (NATIVE, 40)])
async def test_clients_of_rocketmq_get_32_at_most_our_own_what_they_requested(
    world: SimulatedWorld, stand: Stand, codec_byte: int, most: int
) -> None:
    for number in range(40):
        await stand.send("orders", b"%d" % number)
    pool = ConnectionPool(world.machine("other", "10.0.0.30"), codec_byte=codec_byte)
    answer = await pool.ask(stand.brokers["broker-a"], a_pull(max_msg_nums=1000), 1_000)
    await pool.close()
    assert isinstance(answer, PullAnswer)
    assert answer.next_begin_offset == most


async def test_a_pull_at_the_end_is_answered_when_a_message_arrives(world: SimulatedWorld, stand: Stand) -> None:
    waiting = world.loop.create_task(ask(stand, held()))
    await world.run_for(seconds=5)
    assert not waiting.done()
    await stand.send("orders", b"new")
    await world.run_for(ms=5)
    assert bodies(waiting.result()) == [b"new"]


@pytest.mark.parametrize(("codec_byte", "most"), [(JSON, 32), (NATIVE, 40)])
async def test_a_held_pull_gets_as_many_as_one_that_finds_them_at_once(
    world: SimulatedWorld, stand: Stand, codec_byte: int, most: int
) -> None:
    pool = ConnectionPool(world.machine("other", "10.0.0.30"), codec_byte=codec_byte)
    connection = await pool.connection(stand.brokers["broker-a"])
    waiting = connection.ask(held(max_msg_nums=1000), 60_000)
    await world.run_for(ms=10)
    await asyncio.gather(*[stand.send("orders", b"%d" % number) for number in range(40)])
    answer = await waiting
    await pool.close()
    assert isinstance(answer, PullAnswer)
    assert answer.next_begin_offset == most


async def test_a_held_pull_that_is_no_longer_allowed_is_refused_as_a_new_one_would_be(
    world: SimulatedWorld, stand: Stand
) -> None:
    waiting = world.loop.create_task(ask(stand, held()))
    await world.run_for(ms=10)
    await stand.ask(
        stand.brokers["broker-a"],
        UpdateGroup(body=SubscriptionGroupConfig(group_name="billing", consume_enable=False)),
    )
    answer = await waiting
    assert (answer.code, answer.forbidden_type) == (16, 2)


async def test_one_arrival_wakes_every_pull_of_its_queue_and_no_other(world: SimulatedWorld, stand: Stand) -> None:
    await stand.create_topic("bills", queues=2)
    pulls = [held(topic="bills", consumer_group=f"g{i}", queue_id=i % 2) for i in range(4)]
    waiting = [world.loop.create_task(ask(stand, pull)) for pull in pulls]
    await world.run_for(ms=10)
    await stand.send("bills", queue_id=1)
    await world.run_for(ms=10)
    assert [task.done() for task in waiting] == [False, True, False, True]
    await asyncio.gather(*waiting)


async def test_a_held_pull_ends_at_its_time(world: SimulatedWorld, stand: Stand) -> None:
    began_ms = world.uptime_ms
    answer = await ask(stand, held(suspend_timeout_millis=15_000))
    assert (answer.code, answer.remark, answer.next_begin_offset) == (NOT_FOUND, "NO_MESSAGE_IN_QUEUE", 0)
    assert 15_000 <= world.uptime_ms - began_ms <= 15_500


async def test_without_the_suspend_flag_nothing_is_held(world: SimulatedWorld, stand: Stand) -> None:
    began_ms = world.uptime_ms
    assert (await ask(stand, a_pull())).code == NOT_FOUND
    assert world.uptime_ms - began_ms < 10


async def test_short_polling_is_an_option(world: SimulatedWorld) -> None:
    stand = await Stand(world, long_polling_enable=False).start()
    await stand.create_topic("orders")
    began_ms = world.uptime_ms
    assert (await ask(stand, held())).code == NOT_FOUND
    assert 1_000 <= world.uptime_ms - began_ms <= 1_300
    await stand.close()


async def test_of_two_held_pulls_the_later_one_may_end_first(world: SimulatedWorld, stand: Stand) -> None:
    began_ms = world.uptime_ms
    long = world.loop.create_task(ask(stand, held(suspend_timeout_millis=15_000)))
    short = world.loop.create_task(ask(stand, held(suspend_timeout_millis=5_000)))
    assert (await short).code == NOT_FOUND
    assert 5_000 <= world.uptime_ms - began_ms <= 5_300
    assert (await long).code == NOT_FOUND
    assert 15_000 <= world.uptime_ms - began_ms <= 15_300


async def test_a_lost_connection_frees_its_held_pulls(world: SimulatedWorld, stand: Stand) -> None:
    pool = ConnectionPool(world.machine("other", "10.0.0.30"))
    connection = await pool.connection(stand.brokers["broker-a"])
    waiting = connection.ask(held(), 60_000)
    await world.run_for(ms=10)
    held_pulls = stand.services["broker-a"].tables.held
    assert held_pulls.count == 1
    await pool.close()
    with pytest.raises(Exception, match="lost"):
        await waiting
    await world.run_for(ms=300)
    assert held_pulls.count == 0


async def test_a_reset_looks_at_no_pull_whose_connection_is_gone(world: SimulatedWorld, stand: Stand) -> None:
    """The look would make the group anew."""
    pool = ConnectionPool(world.machine("other", "10.0.0.30"))
    connection = await pool.connection(stand.brokers["broker-a"])
    waiting = connection.ask(held(), 60_000)
    await world.run_for(ms=10)
    await pool.close()
    with pytest.raises(Exception, match="lost"):
        await waiting
    await world.run_for(ms=5)
    tables = stand.services["broker-a"].tables
    assert tables.held.count == 1
    assert (await stand.ask(stand.brokers["broker-a"], Reset())).code == 0
    assert "billing" not in tables.groups.configs.groups


async def test_a_message_of_another_tag_does_not_wake_a_pull_but_shows_it_progress(
    world: SimulatedWorld, stand: Stand
) -> None:
    waiting = world.loop.create_task(ask(stand, held(subscription="paid")))
    await world.run_for(ms=10)
    await stand.send("orders", properties="TAGS\x01open\x02")
    await world.run_for(seconds=1)
    assert not waiting.done()
    await world.run_for(seconds=5)
    answer = waiting.result()
    assert (answer.code, answer.next_begin_offset) == (RETRY, 1)


async def test_a_wanted_tag_behind_others_wakes_it(world: SimulatedWorld, stand: Stand) -> None:
    waiting = world.loop.create_task(ask(stand, held(subscription="paid || refunded")))
    await world.run_for(ms=10)
    for tag in ("open", "lost", "refunded"):
        await stand.send("orders", tag.encode(), properties=f"TAGS\x01{tag}\x02")
    await world.run_for(ms=10)
    answer = waiting.result()
    assert (bodies(answer), answer.next_begin_offset) == ([b"refunded"], 3)


async def test_a_deleted_topic_ends_its_held_pulls(world: SimulatedWorld, stand: Stand) -> None:
    waiting = world.loop.create_task(ask(stand, held()))
    await world.run_for(ms=10)
    await stand.ask(stand.brokers["broker-a"], DeleteTopic("orders"))
    await world.run_for(seconds=16)
    assert waiting.result().code == 17


async def test_too_many_held_pulls_are_answered_at_once(world: SimulatedWorld) -> None:
    stand = await Stand(world, held_pulls_max=1).start()
    await stand.create_topic("orders")
    first = world.loop.create_task(ask(stand, held()))
    await world.run_for(ms=10)
    began_ms = world.uptime_ms
    assert (await ask(stand, held())).code == NOT_FOUND
    assert world.uptime_ms - began_ms < 10
    await first
    await stand.close()


@pytest.mark.parametrize(
    ("offset", "remark", "next_offset"), [(9, "OFFSET_OVERFLOW_BADLY", 3), (-1, "OFFSET_TOO_SMALL", 0)]
)
async def test_an_offset_outside_the_queue_is_moved(stand: Stand, offset: int, remark: str, next_offset: int) -> None:
    for _ in range(3):
        await stand.send("orders")
    answer = await ask(stand, held(offset))
    assert (answer.code, answer.remark, answer.next_begin_offset) == (MOVED, remark, next_offset)


async def test_the_committed_offset_rides_along_even_when_the_pull_is_held(world: SimulatedWorld, stand: Stand) -> None:
    for _ in range(3):
        await stand.send("orders")
    flags = FLAG_COMMIT_OFFSET | FLAG_SUBSCRIPTION | FLAG_SUSPEND
    waiting = world.loop.create_task(ask(stand, a_pull(3, sys_flag=flags, commit_offset=2)))
    await world.run_for(ms=10)
    answer = await stand.ask(stand.brokers["broker-a"], QueryConsumerOffset("billing", "orders", 0))
    assert answer.offset == 2
    await waiting


REFUSALS = [
    ("an unknown topic", {"topic": "nowhere"}, 17, "topic[nowhere] not exist, apply first please!"),
    (
        "a queue that isn't there",
        {"queue_id": 7},
        29,
        "queueId[7] is illegal, topic:[orders]",
    ),
    ("a queue below 0", {"queue_id": -1}, 29, "queueId[-1] is illegal"),
    ("an illegal group", {"consumer_group": "no group"}, 26, "subscription group [no group] does not exist"),
    ("only bars", {"subscription": "||"}, 23, "parse the consumer's subscription failed"),
    ("no subscription, nobody online", {"sys_flag": 0}, 24, "the consumer's group info not exist"),
]


@pytest.mark.parametrize(("changes", "code", "words"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS])
async def test_refusals(stand: Stand, changes: dict[str, Any], code: int, words: str) -> None:
    answer = await ask(stand, a_pull(**changes))
    assert answer.code == code
    assert words in str(answer.remark)


async def test_a_group_that_may_not_consume_gets_the_reason(stand: Stand) -> None:
    group = SubscriptionGroupConfig(group_name="billing", consume_enable=False)
    await stand.ask(stand.brokers["broker-a"], UpdateGroup(body=group))
    answer = await ask(stand, a_pull())
    assert (answer.code, answer.forbidden_type) == (16, 2)
    assert answer.remark == "subscription group no permission, billing"


async def test_a_pull_of_an_unreadable_topic_gets_the_reason(stand: Stand) -> None:
    await stand.ask(stand.brokers["broker-a"], UpdateTopic("orders", 1, 1, 2))
    answer = await ask(stand, a_pull())
    assert (answer.code, answer.forbidden_type) == (16, 3)


async def test_without_its_own_subscription_a_pull_uses_that_of_its_group(world: SimulatedWorld, stand: Stand) -> None:
    broker = stand.brokers["broker-a"]
    subscription = SubscriptionData("orders", "paid", sub_version=5)
    consumer = ConsumerData("billing", "CONSUME_PASSIVELY", "CLUSTERING", None, [subscription])
    await stand.ask(broker, Heartbeat(body=HeartbeatData(client_id="one", consumer_data_set=[consumer])))
    await stand.send("orders", b"1", properties="TAGS\x01open\x02")
    await stand.send("orders", b"2", properties="TAGS\x01paid\x02")
    assert bodies(await ask(stand, a_pull(sys_flag=0, subscription=None, sub_version=5))) == [b"2"]
    assert (await ask(stand, a_pull(sys_flag=0, sub_version=6))).code == 25
    assert (await ask(stand, a_pull(sys_flag=0, topic="TBW102"))).code == 24


@pytest.mark.parametrize("codec", [NATIVE, JSON, ROCKETMQ])
async def test_a_held_pull_gets_as_many_messages_as_a_direct_one(
    world: SimulatedWorld, stand: Stand, codec: int
) -> None:
    pool = ConnectionPool(world.machine("puller", "10.0.0.8"), codec_byte=codec)
    address = stand.brokers["broker-a"]
    waiting = world.loop.create_task(pool.ask(address, held(max_msg_nums=1_024), 60_000))
    await world.run_for(ms=50)
    messages = [ManyMessage("orders", 0, b"", b"%d" % number) for number in range(100)]
    await stand.ask(address, SendMany("producers", "TBW102", 4, body=messages))
    direct = await pool.ask(address, a_pull(max_msg_nums=1_024), 60_000)
    expected = 100 if codec == NATIVE else 32
    assert (len(bodies(await waiting)), len(bodies(direct))) == (expected, expected)
    await pool.close()


@pytest.mark.parametrize("codec", [NATIVE, JSON])
async def test_what_an_answer_may_have_changes_while_the_broker_runs(
    world: SimulatedWorld, stand: Stand, codec: int
) -> None:
    pool = ConnectionPool(world.machine("puller", "10.0.0.8"), codec_byte=codec)
    address = stand.brokers["broker-a"]
    messages = [ManyMessage("orders", 0, b"", b"x" * 100) for number in range(200)]
    await stand.ask(address, SendMany("producers", "TBW102", 4, body=messages))

    async def counts(text: str) -> tuple[int, int]:
        answer = await stand.ask(address, UpdateBrokerConfig(body=text.encode()))
        assert (answer.code, answer.remark) == (0, None)
        direct = await pool.ask(address, a_pull(max_msg_nums=1_024), 60_000)
        lite = await pool.ask(address, msgspec.convert(a_pull(), LitePullMessage, from_attributes=True), 60_000)
        return len(bodies(direct)), lite.code

    share = 32 if codec == NATIVE else 1
    assert await counts("maxTransferCountOnMessageInMemory=3") == (3 * share, 0)
    assert await counts("maxTransferBytesOnMessageInMemory=700") == (2, 0)
    assert await counts("maxTransferBytesOnMessageInMemory=1\nlitePullMessageEnable=false") == (1, 16)
    await pool.close()
