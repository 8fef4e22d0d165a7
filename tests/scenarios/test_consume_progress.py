"""Where a consumer starts, how far it has come, and how much it takes at a time."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from staticfire.client import ClientSettings, ConsumeFromWhere, ConsumeStatus, MessageModel, MessageQueue
from staticfire.client.offsets.local_offsets import decode_offsets
from staticfire.protocol.errors import ClientError
from staticfire.protocol.requests.reset import Reset
from staticfire.simulation.world import SimulatedWorld
from tests.cases import first_and_slow
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import GROUP, TOPIC, Heard, Shop, forever, later, taking

QUEUE = MessageQueue(TOPIC, "broker-a", 0)


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    shop = Shop(world, getattr(request, "param", ClientSettings()))
    yield await shop.open(queues=2)
    await shop.close()


# -- where it starts -------------------------------------------------------------------------------------------------


@BOTH_PROTOCOLS
@pytest.mark.row("R7")
@pytest.mark.parametrize(
    ("settings", "heard"),
    [
        ({}, [b"old", b"young", b"new"]),  # what RocketMQ does with a young queue, whatever was asked for
        ({"skip_young_history": True}, [b"new"]),
        ({"skip_young_history": True, "consume_from_where": ConsumeFromWhere.FIRST_OFFSET}, [b"old", b"young", b"new"]),
        ({"skip_young_history": True, "consume_from_where": ConsumeFromWhere.TIMESTAMP}, [b"young", b"new"]),
    ],
    ids=["young", "last", "first", "timestamp"],
)
async def test_a_new_group_starts_where_its_settings_say(
    world: SimulatedWorld, shop: Shop, settings: dict[str, Any], heard: list[bytes]
) -> None:
    await shop.send(b"old", queue=0)
    await world.run_for(hours=1)
    await shop.send(b"young", queue=0)
    await world.run_for(minutes=10)
    await shop.start("one", **settings)
    await shop.send(b"new", queue=0)
    await world.run_for(seconds=1)
    assert shop.bodies == heard


@BOTH_PROTOCOLS
@pytest.mark.row("R7")
async def test_half_an_hour_ago_is_counted_in_the_time_of_messages(world: SimulatedWorld, shop: Shop) -> None:
    """The clock is frozen a day ahead: half an hour before the wall clock's now is long before all messages."""
    await shop.send(b"old", queue=0)
    await shop.advance(hours=24)
    await shop.send(b"before", queue=0)
    await shop.advance(hours=2 / 60)
    await shop.send(b"young", queue=0)
    await shop.advance(hours=29 / 60)
    await shop.start("one", skip_young_history=True, consume_from_where=ConsumeFromWhere.TIMESTAMP)
    await shop.until_heard(1)
    await world.run_for(seconds=1)
    assert shop.bodies == [b"young"]


@pytest.mark.row("R7")
@pytest.mark.parametrize("where", list(ConsumeFromWhere))
async def test_a_group_continues_where_it_was(world: SimulatedWorld, shop: Shop, where: ConsumeFromWhere) -> None:
    await shop.send(b"0", b"1", b"2", b"3", queue=0)
    await shop.admin.create_group(GROUP)
    await shop.offsets.commit(GROUP, QUEUE, 2)
    await shop.start("one", consume_from_where=where, skip_young_history=True)
    await world.run_for(seconds=1)
    assert shop.bodies == [b"2", b"3"]


@BOTH_PROTOCOLS
@pytest.mark.row("P4")
@pytest.mark.parametrize("stored", [3, 999])
async def test_an_offset_out_of_range_is_put_right_after_ten_seconds(
    world: SimulatedWorld, shop: Shop, stored: int
) -> None:
    await shop.send(b"0", b"1", queue=0)
    await shop.admin.create_group(GROUP)
    await shop.offsets.commit(GROUP, QUEUE, stored)
    await shop.start("one")
    await world.run_for(seconds=9)
    assert shop.committed(0) == stored
    await world.until(lambda: shop.committed(0) == 2, within_ms=1_100)
    await shop.send(b"2", queue=0)
    await shop.until_heard(1, within_ms=1_000)
    assert shop.bodies == [b"2"]


async def test_or_at_once_as_rocketmq_does_today(world: SimulatedWorld, shop: Shop) -> None:
    await shop.admin.create_group(GROUP)
    await shop.offsets.commit(GROUP, QUEUE, 999)
    await shop.start("one", offset_illegal_pause_ms=0)
    await world.run_for(ms=200)
    await shop.send(b"here", queue=0)
    await shop.until_heard(1, within_ms=200)


# -- how far it has come ---------------------------------------------------------------------------------------------


@pytest.mark.row("F1")
@pytest.mark.row("C8")
async def test_while_a_queue_doesnt_drain_its_offset_is_stored_every_five_seconds(
    world: SimulatedWorld, shop: Shop
) -> None:
    async def stuck(heard: Heard) -> ConsumeStatus:
        if heard.message.body == b"stuck":
            await asyncio.get_running_loop().create_future()
        return ConsumeStatus.CONSUME_SUCCESS

    await shop.send(b"0", b"1", b"stuck", b"3", b"4", queue=0)
    began_ms = world.uptime_ms
    await shop.start("one", stuck, await_termination_ms=0)
    await shop.until_heard(5)
    await world.run_for(ms=9_900 - (world.uptime_ms - began_ms))
    assert shop.committed(0) <= 0
    await world.until(lambda: shop.committed(0) == 2, within_ms=200)
    await shop.send(b"5", queue=0)
    await world.run_for(seconds=30)
    assert shop.committed(0) == 2, "later messages are done, and would come again"
    world.kill("one")
    await shop.start("two")
    await world.run_for(ms=200)
    assert shop.bodies_of("two") == [b"stuck", b"3", b"4", b"5"]


@pytest.mark.row("F1")
async def test_a_broker_that_lost_offsets_gets_them_again(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one")
    await world.run_for(seconds=12)
    await shop.send(b"0", b"1", queue=0)
    await world.until(lambda: shop.committed(0) == 2, within_ms=100)
    world.kill("broker-a")
    await world.run_for(ms=10)
    await shop.start_broker("broker-a")
    assert shop.committed(0) <= 0
    await world.until(lambda: shop.committed(0) == 2, within_ms=10_000)
    assert shop.bodies == [b"0", b"1"]


async def test_a_consumer_continues_when_its_broker_is_back(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one")
    bodies = await shop.send_many(50)
    await shop.until_heard(50)
    await world.stop("broker-a")
    await world.run_for(seconds=8)
    await shop.start_broker("broker-a")
    await world.run_for(seconds=4)
    await shop.send(b"new")
    await shop.until_heard(51)
    assert sorted(shop.bodies) == sorted([*bodies, b"new"])


@BOTH_PROTOCOLS
@pytest.mark.row("S5")
async def test_after_a_reset_the_first_messages_are_heard_again(world: SimulatedWorld, shop: Shop) -> None:
    """Offsets begin at 0 again: what the consumer knew would skip them."""
    await shop.start("one")
    await shop.send_many(100)
    await shop.until_heard(100)
    for _ in range(3):
        await world.run_for(ms=world.random.randrange(3_000))
        heard = len(shop.bodies)
        reset = await shop.producer.client.pool.ask("10.0.1.1:10911", Reset())
        assert reset.code == 0
        await shop.send(b"first", b"second", b"third", b"fourth")
        await shop.until_heard(heard + 4, within_ms=2_500)
        assert sorted(shop.bodies[heard:]) == [b"first", b"fourth", b"second", b"third"]
        await world.until(shop.is_committed, within_ms=100)


# -- broadcasting ----------------------------------------------------------------------------------------------------


@BOTH_PROTOCOLS
@pytest.mark.row("R2")
@pytest.mark.row("F1")
async def test_broadcasting_gives_everything_to_everybody(world: SimulatedWorld, shop: Shop) -> None:
    consumers = [await shop.start(who, message_model=MessageModel.BROADCASTING) for who in ("one", "two")]
    await world.run_for(ms=300)
    assert [len(consumer.assignment) for consumer in consumers] == [2, 2], "and there are no retries"
    bodies = await shop.send_many(60)
    await shop.until_heard(120)
    assert sorted(shop.bodies_of("one")) == sorted(shop.bodies_of("two")) == sorted(bodies)
    assert shop.committed(0) <= 0


@pytest.mark.row("F1")
async def test_broadcasting_keeps_its_offsets_in_a_file(world: SimulatedWorld, shop: Shop) -> None:
    consumer = await shop.start("one", message_model=MessageModel.BROADCASTING)
    await shop.send(b"0", b"1", b"2", queue=0)
    await shop.until_heard(3)
    await world.stop("one")
    machine = consumer.client.machine
    path = f".rocketmq_offsets/{machine.identity.host_ip}@DEFAULT/{GROUP}/offsets.json"
    assert decode_offsets(machine.files.read_bytes(path))[QUEUE] == 3
    assert b'{"brokerName":"broker-a","queueId":0,"topic":"orders"}:3' in machine.files.read_bytes(path)
    await shop.send(b"3", queue=0)
    await shop.start("one", message_model=MessageModel.BROADCASTING)
    await shop.until_heard(4)
    assert shop.bodies[3:] == [b"3"]
    await world.run_for(seconds=11)
    assert decode_offsets(machine.files.read_bytes(path))[QUEUE] == 4
    assert decode_offsets(machine.files.read_bytes(path + ".bak"))[QUEUE] == 3


@pytest.mark.row("R7")
async def test_an_invalid_stored_offset_is_dropped_and_the_queue_starts_again(
    world: SimulatedWorld, shop: Shop
) -> None:
    await shop.send(b"0", queue=0)
    where = ConsumeFromWhere.FIRST_OFFSET
    consumer = shop.consumer("one", message_model=MessageModel.BROADCASTING, consume_from_where=where)
    machine = consumer.client.machine
    folder = f".rocketmq_offsets/{machine.identity.host_ip}@DEFAULT/{GROUP}"
    machine.files.make_folder(folder)
    text = b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:-7}}'
    machine.files.replace(f"{folder}/offsets.json", text)
    await world.start("one", consumer)
    assert QUEUE not in consumer.assignment
    await shop.until_heard(1, within_ms=2_000)
    assert QUEUE in consumer.assignment


async def test_an_offset_file_that_cant_be_read_is_said_at_the_start(world: SimulatedWorld, shop: Shop) -> None:
    consumer = shop.consumer("one", message_model=MessageModel.BROADCASTING)
    files = consumer.client.machine.files
    folder = f".rocketmq_offsets/{consumer.client.machine.identity.host_ip}@DEFAULT/{GROUP}"
    files.make_folder(folder)
    files.replace(f"{folder}/offsets.json", b"{oops")
    with pytest.raises(ClientError, match=r"offsets can't be read .*offsets.json"):
        await consumer.__aenter__()
    files.replace(f"{folder}/offsets.json.bak", b'{"offsetTable":{}}')
    async with shop.consumer("one", message_model=MessageModel.BROADCASTING):
        pass


# -- how much at a time ----------------------------------------------------------------------------------------------


@pytest.mark.row("P2")
async def test_a_queue_is_pulled_until_a_thousand_messages_are_cached(world: SimulatedWorld, shop: Shop) -> None:
    released = asyncio.Event()

    async def wait(_: Heard) -> ConsumeStatus:
        await released.wait()
        return ConsumeStatus.CONSUME_SUCCESS

    await shop.send_many(4_000)
    consumer = await shop.start("one", wait)
    await world.run_for(seconds=5)
    cached = [consumer.cached[MessageQueue(TOPIC, "broker-a", number)] for number in (0, 1)]
    assert all(1_000 < count <= 1_000 + 32 for count in cached)
    released.set()
    await shop.until_heard(4_000, within_ms=1_000)
    await world.until(shop.is_committed, within_ms=100)


@pytest.mark.row("P2")
async def test_a_stuck_message_stops_pulls_two_thousand_offsets_further(world: SimulatedWorld, shop: Shop) -> None:
    async def stuck(heard: Heard) -> ConsumeStatus:
        return await forever(heard) if heard.message.queue_offset == 0 else ConsumeStatus.CONSUME_SUCCESS

    await shop.start("one", stuck, await_termination_ms=0)
    await shop.send_many(6_000)
    await world.run_for(seconds=20)
    offsets = [heard.message.queue_offset for heard in shop.heard if heard.context.queue == QUEUE]
    assert 2_000 < max(offsets) <= 2_000 + 32


@pytest.mark.row("P1")
async def test_pull_interval_and_batch_size_are_kept(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(*[b"%d" % number for number in range(10)], queue=0)
    await shop.start("one", pull_interval_ms=1_000, pull_batch_size=2)
    await world.run_for(ms=3_500)
    assert [heard.uptime_ms // 1000 - shop.heard[0].uptime_ms // 1000 for heard in shop.heard] == [
        0,
        0,
        1,
        1,
        2,
        2,
        3,
        3,
    ]


@pytest.mark.row("P5")
async def test_a_new_message_is_heard_as_soon_as_it_is_stored(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one")
    for count, pause_ms in enumerate((10, 14_990, 40_000), 1):
        await world.run_for(ms=pause_ms)
        began_ms = world.uptime_ms
        await shop.send(b"now", queue=0)
        await shop.until_heard(count)
        assert world.uptime_ms - began_ms <= 10


@pytest.mark.row("P4")
async def test_a_refused_pull_is_tried_again_every_three_seconds(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one")
    await shop.admin.create_topic(TOPIC, queues=2, perm=2)
    await world.run_for(seconds=20)
    await shop.send(b"written")
    await world.run_for(seconds=20)
    assert not shop.bodies
    await shop.admin.create_topic(TOPIC, queues=2)
    await shop.until_heard(1, within_ms=4_000)


@pytest.mark.row("C8")
async def test_failing_and_slow_messages_side_by_side(world: SimulatedWorld, shop: Shop) -> None:
    async def mixed(heard: Heard) -> ConsumeStatus | None:
        number = int(heard.message.body)
        await world.run_for(ms=number % 7 * 10)
        return await (
            later(heard) if number % 3 == 0 and heard.message.reconsume_times < 1 else taking(world, 1)(heard)
        )

    await shop.start("one", mixed)
    bodies = await shop.send_many(100)
    await world.run_for(seconds=30)
    expected = [body for body in bodies for _ in range(2 if int(body) % 3 == 0 else 1)]
    assert sorted(shop.bodies) == sorted(expected)
    assert shop.is_committed()


@pytest.mark.row("C12")
@pytest.mark.parametrize("world", first_and_slow(range(6)), indirect=True)
async def test_whatever_dies_every_message_is_heard_in_the_end(world: SimulatedWorld, shop: Shop) -> None:
    async def clumsy(heard: Heard) -> ConsumeStatus:
        await world.run_for(ms=world.random.randrange(40))
        fails = heard.message.reconsume_times == 0 and world.random.random() < 0.1
        return ConsumeStatus.RECONSUME_LATER if fails else ConsumeStatus.CONSUME_SUCCESS

    for who in ("one", "two", "three"):
        await shop.start(who, clumsy)
    bodies: list[bytes] = []
    for number in range(12):
        more = [b"%d-%d" % (number, each) for each in range(30)]
        await shop.send(*more)
        bodies += more
        who = world.random.choice(["one", "two", "three"])
        if world.random.random() < 0.5:
            world.kill(who)
        else:
            await world.stop(who)
        if world.random.random() < 0.3:
            world.kill("broker-a")
            await world.run_for(ms=world.random.randrange(500))
            await shop.start_broker("broker-a")
            await world.run_for(seconds=4)
        await world.run_for(ms=world.random.randrange(300))
        await shop.start(who, clumsy)
    await world.until(lambda: set(shop.bodies) == set(bodies) and shop.is_committed(), within_ms=120_000)
