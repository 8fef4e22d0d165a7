"""An administrator's reset reaches the member that owns the queue, whoever else still has a pull there."""

import asyncio

import pytest

from staticfire.client import ConsumeFromWhere, ConsumeStatus, PullConsumer, PullSettings
from staticfire.protocol.requests.reset_offset import CloneGroupOffset, ResetOffset
from staticfire.simulation.world import SimulatedWorld
from tests.cases import spread
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC, Heard, Shop, forever, taking
from tests.scenarios.ordering import Ordering
from tests.scenarios.polling import Program, lite_pull, poll_all

FIRST = ConsumeFromWhere.FIRST_OFFSET

pytestmark = pytest.mark.row("C11")


async def consumed(shop: Shop, count: int = 80) -> list[bytes]:
    """Start a first member, and let it consume messages of all queues."""
    await shop.start("one", consume_from_where=FIRST)
    bodies = await shop.send_many(count)
    await shop.until_heard(count)
    await shop.world.run_for(seconds=10)
    shop.heard.clear()
    return bodies


@BOTH_PROTOCOLS
async def test_a_reset_reaches_all_queues_after_a_second_member_joined(world: SimulatedWorld, shop: Shop) -> None:
    bodies = await consumed(shop)
    await shop.start("two", consume_from_where=FIRST)
    await world.run_for(seconds=1)
    await shop.admin.reset_offset_by_time(GROUP, TOPIC, 0)
    await world.run_for(seconds=60)
    assert sorted(shop.bodies) == sorted(bodies)
    assert shop.is_committed()


@BOTH_PROTOCOLS
async def test_a_reset_reaches_a_member_that_moved_itself_before(world: SimulatedWorld, shop: Shop) -> None:
    consumer = await shop.start("one", consume_from_where=FIRST)
    bodies = await shop.send_many(80)
    await shop.until_heard(80)
    await world.run_for(seconds=10)
    await consumer.reset_offset_by_time(shop.brokers["broker-a"].state.clock.message_ms())
    await world.run_for(seconds=1)
    shop.heard.clear()
    await shop.admin.reset_offset_by_time(GROUP, TOPIC, 0)
    await world.run_for(seconds=60)
    assert sorted(shop.bodies) == sorted(bodies)
    assert shop.is_committed()


async def test_a_member_that_moves_itself_changes_nothing_while_a_reset_waits(
    world: SimulatedWorld, shop: Shop
) -> None:
    consumer = await shop.start("one", consume_from_where=FIRST)
    bodies = await shop.send_many(80)
    await shop.until_heard(80)
    await world.run_for(seconds=10)
    shop.heard.clear()
    await shop.admin.reset_offset_by_time(GROUP, TOPIC, 0)
    await world.run_for(seconds=1)
    await consumer.reset_offset_by_time(shop.brokers["broker-a"].state.clock.message_ms())
    await world.run_for(seconds=60)
    assert sorted(shop.bodies) == sorted(bodies)
    assert shop.is_committed()


@BOTH_PROTOCOLS
async def test_a_backlog_is_skipped_that_a_new_owner_has_cached(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one", taking(world, 1_000), consume_from_where=FIRST, consume_threads=1)
    await shop.send_many(400)
    await shop.until_heard(3)
    await shop.start("two", taking(world, 1_000), consume_from_where=FIRST, consume_threads=1)
    await world.run_for(seconds=2)
    await shop.admin.reset_offset_by_time(GROUP, TOPIC, -1)
    await world.run_for(seconds=3)
    heard = len(shop.heard)
    await world.run_for(seconds=30)
    assert len(shop.heard) == heard
    assert shop.is_committed()


@pytest.mark.parametrize("after_ms", spread([half / 2 for half in range(20)], 4))
async def test_a_reset_while_a_second_member_joins(world: SimulatedWorld, shop: Shop, after_ms: float) -> None:
    bodies = await consumed(shop)
    joining = asyncio.ensure_future(shop.start("two", consume_from_where=FIRST))
    await world.run_for(after_ms)
    await shop.admin.reset_offset_by_time(GROUP, TOPIC, 0)
    await joining
    await world.run_for(seconds=60)
    assert set(bodies) <= set(shop.bodies)
    assert shop.is_committed()


def pending(shop: Shop) -> list[tuple[str, int]]:
    """Return the queues whose reset waits."""
    resets = [
        (name, queue)
        for (name, queue) in shop.ends()
        if shop.brokers[name].tables.groups.offsets.has_reset(GROUP, TOPIC, queue)
    ]
    return sorted(resets)


@BOTH_PROTOCOLS
@pytest.mark.parametrize("fate", ["freeze", "kill", "cut"])
async def test_a_reset_outlives_an_owner_that_cannot_take_it(world: SimulatedWorld, shop: Shop, fate: str) -> None:
    bodies = await consumed(shop)
    await shop.start("two", consume_from_where=FIRST)
    await world.run_for(seconds=1)
    if fate == "cut":
        world.isolate("two")
    else:
        getattr(world, fate)("two")
    await shop.admin.reset_offset_by_time(GROUP, TOPIC, 0)
    await world.run_for(minutes=5)
    assert set(shop.bodies) == set(bodies)
    assert shop.is_committed()
    assert pending(shop) == []
    if fate != "kill":
        world.thaw("two") if fate == "freeze" else world.heal("two")
        await world.run_for(minutes=2)
        assert shop.is_committed()


async def test_a_program_that_reads_on_its_own_takes_no_reset_from_the_members(
    world: SimulatedWorld, shop: Shop
) -> None:
    bodies = await consumed(shop)
    machine = world.machine("report", host="10.0.9.9")
    async with PullConsumer(GROUP, NAMESRV, PullSettings(client=shop.settings), machine) as report:
        queues = list(await report.queues(TOPIC))
        reads = [asyncio.ensure_future(report.pull(queue, 10, wait_ms=20_000)) for queue in queues]
        await world.run_for(seconds=1)
        await shop.admin.reset_offset_by_time(GROUP, TOPIC, 0)
        again = await asyncio.gather(*(report.pull(queue, 0) for queue in queues))
        assert sum(len(result.messages) for result in again) == len(bodies)
        await world.run_for(seconds=60)
        await asyncio.gather(*reads)
    assert sorted(shop.bodies) == sorted(bodies)


async def test_a_group_at_work_continues_at_the_offsets_of_another_one(world: SimulatedWorld, shop: Shop) -> None:
    await consumed(shop)
    await shop.start("two", consume_from_where=FIRST)
    await world.run_for(seconds=1)
    await shop.admin.create_group("audit")
    for broker in shop.brokers.values():
        for queue in range(4):
            broker.tables.groups.offsets.commit("audit", TOPIC, queue, 4)
    for name in shop.brokers:
        address = (await shop.admin.masters())[name]
        await shop.producer.client.pool.ask(address, CloneGroupOffset("audit", GROUP, TOPIC))
    await world.run_for(seconds=60)
    assert len(shop.bodies) == sum(end - 4 for end in shop.ends().values())
    assert shop.is_committed()


async def test_a_clone_takes_the_place_of_a_reset_that_waits(world: SimulatedWorld, shop: Shop) -> None:
    await consumed(shop)
    await world.stop("one")
    shop.heard.clear()
    await shop.admin.reset_offset_by_time(GROUP, TOPIC, 0)
    for name, address in (await shop.admin.masters()).items():
        for queue in range(4):
            shop.brokers[name].tables.groups.offsets.commit("audit", TOPIC, queue, 9)
        await shop.producer.client.pool.ask(address, CloneGroupOffset("audit", GROUP, TOPIC))
    await shop.start("one", consume_from_where=FIRST)
    await world.run_for(seconds=60)
    assert len(shop.bodies) == sum(end - 9 for end in shop.ends().values())


async def test_a_second_reset_counts_while_the_first_one_waits(world: SimulatedWorld, shop: Shop) -> None:
    bodies = await consumed(shop)
    await shop.start("two", consume_from_where=FIRST)
    await world.run_for(seconds=1)
    await shop.admin.reset_offset_by_time(GROUP, TOPIC, -1)
    await world.run_for(seconds=2)
    await shop.admin.reset_offset_by_time(GROUP, TOPIC, 0)
    await world.run_for(seconds=60)
    assert sorted(shop.bodies) == sorted(bodies)
    assert shop.is_committed()


async def test_one_queue_by_its_offset(world: SimulatedWorld, shop: Shop) -> None:
    await consumed(shop)
    await shop.start("two", consume_from_where=FIRST)
    await world.run_for(seconds=1)
    for name, address in (await shop.admin.masters()).items():
        for queue in range(4):
            answer = await shop.producer.client.pool.ask(address, ResetOffset(GROUP, TOPIC, -1, True, queue, 7))
            assert answer.code == 0, (name, answer.remark)
    await world.run_for(seconds=60)
    assert len(shop.bodies) == sum(end - 7 for end in shop.ends().values())
    assert shop.is_committed()


@BOTH_PROTOCOLS
async def test_members_in_order(world: SimulatedWorld, shop: Shop) -> None:
    group = Ordering(shop)
    await group.start("one", consume_from_where=FIRST)
    await shop.send_many(80)
    await group.until(80)
    await group.start("two", consume_from_where=FIRST)
    await world.run_for(seconds=1)
    await shop.admin.reset_offset_by_time(GROUP, TOPIC, 0)
    await world.run_for(minutes=3)
    assert len(group.bodies) == 160
    assert shop.is_committed()
    assert group.faults == []


@pytest.mark.parametrize("kind", ["as RocketMQ", "as staticfire"])
async def test_a_message_that_hangs_does_not_keep_its_queue_from_a_reset(world: SimulatedWorld, kind: str) -> None:
    shop = await Shop(world, broker_settings={"any_pull_takes_resets": kind == "as RocketMQ"}).open()

    async def react(heard: Heard) -> ConsumeStatus | None:
        return await (forever if heard.message.queue_offset == 0 else taking(world, 0))(heard)

    await shop.start("one", react, consume_from_where=FIRST, await_termination_ms=0)
    await shop.send(*[b"%d" % number for number in range(10)], queue=0)
    await shop.until_heard(10)
    shop.heard.clear()
    address = (await shop.admin.masters())["broker-a"]
    assert (await shop.producer.client.pool.ask(address, ResetOffset(GROUP, TOPIC, -1, queue_id=0, offset=5))).code == 0
    await world.run_for(seconds=30)
    assert shop.bodies == [b"5", b"6", b"7", b"8", b"9"]
    assert shop.committed() == 10
    await shop.close()


@BOTH_PROTOCOLS
async def test_programs_that_poll(world: SimulatedWorld, shop: Shop) -> None:
    programs = [Program(shop, who) for who in ("one", "two")]
    await programs[0].start()
    bodies = await shop.send_many(80)
    await world.until(lambda: len(programs[0].bodies) == 80, 60_000)
    await world.run_for(seconds=10)
    await programs[1].start()
    await world.run_for(seconds=1)
    await shop.admin.reset_offset_by_time(GROUP, TOPIC, 0)
    await world.run_for(seconds=60)
    assert sorted(programs[0].bodies + programs[1].bodies) == sorted(2 * bodies)
    assert shop.is_committed()


@BOTH_PROTOCOLS
async def test_a_program_that_polls_gets_nothing_of_a_skipped_backlog(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send_many(400)
    async with lite_pull(shop, "one", consume_from_where=FIRST) as consumer:
        consumer.subscribe(TOPIC)
        assert len(await consumer.poll(5_000)) > 0
        await world.run_for(seconds=3)
        await shop.admin.reset_offset_by_time(GROUP, TOPIC, -1)
        await world.run_for(seconds=3)
        assert await poll_all(consumer, 1) == []
        await shop.send(b"next", queue=0)
        assert await poll_all(consumer, 1) == [b"next"]
        await world.run_for(seconds=10)
        assert await poll_all(consumer, 1) == []
        assert shop.is_committed()


@BOTH_PROTOCOLS
async def test_members_that_pop_get_it_at_once(world: SimulatedWorld, shop: Shop) -> None:
    await shop.admin.set_consume_mode(TOPIC, GROUP, "POP", 0)
    for who in ("one", "two"):
        await shop.start(who, client_rebalance=False, consume_from_where=FIRST)
    bodies = await shop.send_many(80)
    await shop.until_heard(80)
    await world.run_for(seconds=3)
    shop.heard.clear()
    began_ms = world.uptime_ms
    await shop.admin.reset_offset_by_time(GROUP, TOPIC, 0)
    await shop.until_heard(80)
    assert world.uptime_ms - began_ms < 1_000
    await world.run_for(seconds=60)
    assert sorted(shop.bodies) == sorted(bodies)
