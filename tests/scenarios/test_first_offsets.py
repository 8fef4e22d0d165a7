"""Where a new group begins that wants to begin at the end: at the end of when it first looked, in all its queues."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import ClientSettings, ConsumeFromWhere
from staticfire.protocol.requests.groups import DeleteGroup, SubscriptionGroupConfig, UpdateGroup
from staticfire.protocol.requests.offsets import GetMaxOffset, OffsetAnswer, QueryConsumerOffset
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, PullMessage
from staticfire.protocol.requests.topics import DeleteTopic
from staticfire.protocol.requests.upkeep import DeleteExpired
from staticfire.simulation.world import LinkQuality, SimulatedWorld
from tests.scenarios.consuming import TOPIC, Shop
from tests.scenarios.members import Member
from tests.scenarios.polling import QUEUE, lite_pull, poll_all
from tests.scenarios.stand import Stand

pytestmark = pytest.mark.row("F1")


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Stand]:
    stand = await Stand(world, **getattr(request, "param", {})).start()
    await stand.create_topic("orders", queues=1)
    await stand.ask(stand.brokers["broker-a"], UpdateGroup(body=SubscriptionGroupConfig(group_name="billing")))
    yield stand
    await stand.close()


@pytest_asyncio.fixture
async def member(stand: Stand) -> AsyncIterator[Member]:
    member = Member(stand, "member-1")
    await member.heartbeat()
    yield member
    await member.pool.close()


async def has_none(member: Member, topic: str = "orders") -> None:
    request = QueryConsumerOffset("billing", topic, 0)
    assert (await member.pool.ask(member.stand.brokers["broker-a"], request)).code == 22


async def end(member: Member, topic: str = "orders") -> int:
    answer = await member.pool.ask(member.stand.brokers["broker-a"], GetMaxOffset(topic, 0))
    assert isinstance(answer, OffsetAnswer)
    return answer.offset


async def pull(member: Member, group: str) -> None:
    request = PullMessage(group, "orders", 0, 0, 32, FLAG_SUBSCRIPTION, 0, 15_000, "*")
    assert (await member.pool.ask(member.stand.brokers["broker-a"], request)).code == 0


async def test_a_message_between_the_two_requests_of_a_new_group_is_not_passed_over(
    stand: Stand, member: Member
) -> None:
    await has_none(member)
    await stand.send("orders")
    assert await end(member) == 0
    assert await end(member) == 1  # Whoever else requests it over this connection gets what is.


@pytest.mark.parametrize("stand", [{"remember_first_offsets": False}], indirect=True)
async def test_with_the_setting_off_it_is(stand: Stand, member: Member) -> None:
    await has_none(member)
    await stand.send("orders")
    assert await end(member) == 1


async def without_the_first(stand: Stand, messages: int = 6) -> None:
    """Have a queue that doesn't begin at 0: a new group begins at its end, whatever there is."""
    for _ in range(messages):
        await stand.send("orders", body=bytes(8_000))
    await stand.world.run_for(seconds=5)
    await stand.ask(stand.brokers["broker-a"], DeleteExpired())
    assert stand.services["broker-a"].state.store.queue("orders", 0).min_offset > 0


OLD = {"mapped_file_size_commit_log": 16 * 1024, "file_reserved_time": 0}


@pytest.mark.parametrize("stand", [OLD], indirect=True)
async def test_who_takes_a_queue_over_before_anything_was_committed_begins_where_the_group_did(
    stand: Stand, member: Member
) -> None:
    await without_the_first(stand)
    await has_none(member)
    assert await end(member) == 6
    other = Member(stand, "member-2")
    await other.heartbeat()
    await stand.send("orders")
    await member.goodbye()
    await has_none(other)
    assert await end(other) == 6
    await other.goodbye()
    await other.heartbeat()  # The group had no member: it is a new one.
    await has_none(other)
    assert await end(other) == 7
    await other.pool.close()


@pytest.mark.parametrize("stand", [OLD], indirect=True)
async def test_a_topic_that_was_deleted_is_another_one(stand: Stand, member: Member) -> None:
    await without_the_first(stand)
    await has_none(member)
    await stand.ask(stand.brokers["broker-a"], DeleteTopic("orders"))
    await stand.create_topic("orders", queues=1)
    await without_the_first(stand, 7)
    await has_none(member)
    await stand.send("orders")
    assert await end(member) == 7


@pytest.mark.parametrize("stand", [OLD], indirect=True)
async def test_a_group_whose_offsets_were_deleted_starts_from_the_beginning(stand: Stand, member: Member) -> None:
    await without_the_first(stand)
    await has_none(member)
    await stand.send("orders")
    await stand.ask(stand.brokers["broker-a"], DeleteGroup("billing", clean_offset=True))
    await has_none(member)
    await stand.send("orders")
    assert await end(member) == 7


async def test_it_is_remembered_for_the_queue_the_connection_and_a_while(stand: Stand, member: Member) -> None:
    await stand.create_topic("bills", queues=1)
    await has_none(member)
    await stand.send("orders")
    other = Member(stand, "member-2")
    assert await end(other) == 1
    await stand.send("bills")
    assert await end(member, "bills") == 1
    await stand.world.run_for(seconds=11)
    assert await end(member) == 1
    await other.pool.close()


async def test_what_a_connection_has_requested_is_forgotten_with_it(stand: Stand, member: Member) -> None:
    await has_none(member)
    first_offsets = stand.services["broker-a"].tables.groups.first_offsets
    assert first_offsets is not None
    assert len(first_offsets) == 1
    await member.lose_connection()
    assert len(first_offsets) == 0


@pytest.mark.parametrize(
    "data",
    [{"consume_from_where": "CONSUME_FROM_FIRST_OFFSET"}, {"consume_from_where": "CONSUME_FROM_TIMESTAMP"}],
    ids=["first", "timestamp"],
)
async def test_a_member_that_begins_elsewhere_gets_the_end_as_it_is(
    stand: Stand, member: Member, data: dict[str, object]
) -> None:
    await member.heartbeat(**data)  # type: ignore[arg-type]
    await has_none(member)
    await stand.send("orders")
    assert await end(member) == 1


async def test_a_program_that_is_no_member_gets_the_end_as_it_is(stand: Stand) -> None:
    program = Member(stand, "member-2")
    await has_none(program)
    await stand.send("orders")
    assert await end(program) == 1
    await program.pool.close()


@pytest.mark.parametrize(("group", "expected"), [("billing", 1), ("audit", 0)])
async def test_a_member_that_pulls_has_found_its_start(stand: Stand, member: Member, group: str, expected: int) -> None:
    """A polling client that begins at the first message pulls without a request for the end."""
    await stand.ask(stand.brokers["broker-a"], UpdateGroup(body=SubscriptionGroupConfig(group_name="audit")))
    await has_none(member)
    await stand.send("orders")
    await pull(member, group)
    assert await end(member) == expected


@pytest.mark.parametrize("where", list(ConsumeFromWhere))
async def test_a_polling_member_seeks_in_the_queue_as_it_is(world: SimulatedWorld, where: ConsumeFromWhere) -> None:
    shop = await Shop(world, ClientSettings()).open(queues=1)
    consumer = lite_pull(shop, "one", consume_from_where=where)
    consumer.subscribe(TOPIC)
    async with consumer:
        await shop.send(*[b"%d" % number for number in range(5)])
        await consumer.seek(QUEUE, 3)
        assert await poll_all(consumer, 2) == [b"3", b"4"]
        await consumer.seek_to_end(QUEUE)
        assert await consumer.poll(1_000) == []
    await shop.close()


@pytest.mark.parametrize("moment_ms", range(400, 640, 20))
async def test_whenever_the_first_message_comes_a_starting_consumer_gets_it(
    world: SimulatedWorld, moment_ms: int
) -> None:
    shop = await Shop(world, ClientSettings()).open(queues=1)
    consumer = shop.consumer("one")
    world.set_link("one", "broker-a", LinkQuality(delay_ms=50))
    starting = asyncio.create_task(world.start("one", consumer))
    await world.run_for(moment_ms)
    await shop.send(b"first", b"second")
    await starting
    await shop.until_heard(2)
    assert shop.bodies == [b"first", b"second"]
    await shop.close()
