"""A cluster put away and put back while clients are connected, while messages wait, and while a broker is killed."""

import asyncio
from typing import Any

import pytest

from staticfire.client import (
    ConsumeFromWhere,
    Message,
    OrderedContext,
    OrderedStatus,
    ReceivedMessage,
    TransactionProducer,
    TransactionState,
)
from staticfire.control.snapshots import remove, restore, save, saved
from staticfire.control.whole_cluster import KnownBrokers
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer, ClientError, UsageError
from staticfire.protocol.requests.clients import ConsumerData, Heartbeat, HeartbeatData
from staticfire.protocol.requests.clock import Clock
from staticfire.protocol.requests.faults import AddFault, FaultRule, RemoveFault
from staticfire.protocol.requests.pop import PopMessage
from staticfire.protocol.requests.routes import GetRoute
from staticfire.protocol.requests.snapshots import (
    GetSnapshots,
    RemoveSnapshot,
    RestoreSnapshot,
    SaveSnapshot,
)
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world import SimulatedWorld
from staticfire.simulation.world.process import ProcessKilled
from staticfire.simulation.world.workers import SimulatedWorkers
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import NAMESRV, TOPIC, Messages, Shop, failing

pytestmark = pytest.mark.row("S8")

FIRST = ConsumeFromWhere.FIRST_OFFSET
HOUR_MS = 3_600_000


def addresses(shop: Shop) -> dict[str, str]:
    return {name: f"10.0.1.{'abc'.index(name[-1]) + 1}:10911" for name in shop.brokers}


async def put_away(shop: Shop, name: str = "base") -> dict[str, Any]:
    return await save(shop.producer.client.pool, addresses(shop), name)


async def put_back(shop: Shop, name: str = "base") -> dict[str, Any]:
    return await restore(shop.producer.client.pool, NAMESRV, KnownBrokers(addresses(shop)), name)


@BOTH_PROTOCOLS
async def test_consumers_that_stay_connected_continue_at_the_offsets_of_their_group(
    world: SimulatedWorld, shop: Shop
) -> None:
    await shop.start("one", consume_from_where=FIRST)
    await shop.send_many(40)
    await shop.until_heard(40)
    await world.run_for(seconds=20)
    before = await put_away(shop)
    assert (before["topics"], before["messages"]) == ([TOPIC], 40)
    for round_ in range(3):
        shop.heard.clear()
        more = [b"%d-%d" % (round_, number) for number in range(24)]
        await shop.send(*more)
        await shop.until_heard(24)
        assert sorted(shop.bodies) == sorted(more)
        await world.run_for(seconds=7)  # Its offsets are committed, or not yet.
        back = await put_back(shop)
        assert sum(shop.ends().values()) == 40
        assert back["queues_moved"] == 8
        await world.run_for(seconds=30)
        assert shop.is_committed()
        assert sorted(shop.bodies) == sorted(more)


@BOTH_PROTOCOLS
async def test_what_was_not_consumed_then_is_consumed_again_each_time(world: SimulatedWorld, shop: Shop) -> None:
    bodies = sorted(await shop.send_many(16))
    await put_away(shop)
    await shop.start("one", consume_from_where=FIRST)
    for _ in range(3):
        await shop.until_heard(16)
        await world.run_for(seconds=20)
        assert sorted(shop.bodies) == bodies
        assert shop.is_committed()
        shop.heard.clear()
        await put_back(shop)


async def test_ordered_members_keep_their_locks_and_order(world: SimulatedWorld, shop: Shop) -> None:
    consumer, seen = shop.consumer("one", consume_from_where=FIRST), list[int]()

    @consumer.ordered_listener
    def listen(messages: Messages, context: OrderedContext) -> OrderedStatus:
        seen.extend(int(message.body) for message in messages)
        return OrderedStatus.SUCCESS

    await shop.send(*[b"%d" % number for number in range(20)], queue=0)
    await put_away(shop)
    await world.start("one", consumer)
    for _ in range(3):
        await world.until(lambda: len(seen) == 20)
        assert seen == list(range(20))
        await world.run_for(seconds=10)
        seen.clear()
        await put_back(shop)


async def test_whatever_waits_waits_again_and_message_time_with_it(world: SimulatedWorld) -> None:
    shop = await Shop(world).open()
    pool, address, checked = shop.producer.client.pool, addresses(shop)["broker-a"], []

    def check(message: ReceivedMessage) -> TransactionState:
        checked.append(message.body)
        return TransactionState.COMMIT

    def message_ms() -> int:
        return shop.brokers["broker-a"].state.clock.message_ms()

    machine = world.machine("halves", "10.0.2.9")
    halves = await world.start("halves", TransactionProducer("halves", NAMESRV, machine=machine, check=check))
    await shop.clock("freeze")
    await halves.send_in_transaction(Message(TOPIC, b"half"), lambda *_: TransactionState.UNKNOWN)
    await shop.producer.send(Message(TOPIC, b"delayed", delay_level=5))
    await shop.producer.send(Message(TOPIC, b"timed", delay_ms=HOUR_MS))
    await shop.send(b"failed", queue=3)
    assert (await pool.ask(address, PopMessage("poppers", TOPIC, 3, 32, 10 * 60_000, 0, 0, 0), 3_000)).code == 0
    await shop.start("one", failing(2), consume_from_where=FIRST)
    await shop.until_heard(1)
    await world.run_for(seconds=15)
    ends, saved_ms = shop.ends(), message_ms()
    await put_away(shop)
    rounds = []
    for _ in range(3):
        shop.heard.clear()
        checked.clear()
        done = await shop.advance(hours=3)
        assert message_ms() == saved_ms + 3 * HOUR_MS
        again = await pool.ask(address, PopMessage("poppers", TOPIC, -1, 32, 60_000, 0, 0, 0), 3_000)
        rounds.append((sorted(shop.bodies), done.delivered, done.expired, checked == [b"half"], again.code))
        await put_back(shop)
        assert shop.ends() == ends
        assert message_ms() == saved_ms
        clock: Any = await pool.ask(NAMESRV, Clock("now"), 3_000)
        assert (clock.mode, clock.message_ms) == ("frozen", saved_ms)
    assert rounds[0] == rounds[1] == rounds[2]
    bodies, _, expired, was_checked, _ = rounds[0]
    assert (set(bodies), expired, was_checked) == ({b"half", b"delayed", b"timed", b"failed"}, 1, True)
    await shop.close()


async def test_senders_and_pulls_wait_meanwhile_and_nothing_acknowledged_afterwards_is_lost(
    world: SimulatedWorld, shop: Shop
) -> None:
    await shop.start("one", consume_from_where=FIRST)
    await shop.send_many(8)
    await put_away(shop)
    done = False

    async def keep_sending() -> None:
        while not done:
            await shop.send(b"x", queue=1)

    sending = asyncio.create_task(keep_sending())
    for _ in range(5):
        await world.run_for(ms=3)
        await put_back(shop)
    done = True
    await sending
    shop.heard.clear()
    await shop.send(b"last", queue=1)
    await world.until(lambda: b"last" in shop.bodies)
    await world.run_for(seconds=30)
    assert shop.is_committed()


@pytest.mark.parametrize("what", ["save", "restore"])
async def test_a_broker_killed_at_any_step_has_what_it_had_or_the_snapshot(world: SimulatedWorld, what: str) -> None:
    shop = await Shop(world).open()
    await shop.send_many(8)
    await put_away(shop)
    await shop.send_many(5)
    disk, steps = world.disk("broker-a"), list[tuple[str, str]]()
    disk.before = lambda *step: steps.append(step)
    await (put_away(shop, "other") if what == "save" else put_back(shop))
    expected = {8, 13}
    seen = set()
    for at in range(0, len(steps), len(steps) // 6):
        disk.before = None
        await put_back(shop)
        await shop.send_many(5)
        left = at

        def strike(*_: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise ProcessKilled

        disk.before = strike
        asking = asyncio.create_task(put_away(shop, "other") if what == "save" else put_back(shop))
        await world.run_for(ms=200)
        disk.before = None
        world.kill("broker-a", power_loss=at % 2 == 1)
        await asyncio.wait([asking])
        asking.exception()
        await shop.start_broker()
        messages = sum(shop.ends().values())
        seen.add(messages)
        assert messages in expected, (at, steps[at])
        names = [info["name"] for info in await saved(shop.producer.client.pool, addresses(shop))]
        assert "base" in names
    assert seen == ({13} if what == "save" else expected)
    await shop.close()


async def test_a_full_disk_leaves_all_as_it_is(world: SimulatedWorld) -> None:
    shop = await Shop(world).open()
    await shop.send_many(8)
    await put_away(shop)
    await shop.send_many(5)
    world.disk("broker-a").bytes_left = 10
    for change in (put_away, put_back):
        with pytest.raises(BrokerAnswer, match="No space left"):
            await change(shop)
        assert sum(shop.ends().values()) == 13
    world.disk("broker-a").bytes_left = None
    await put_back(shop)
    assert sum(shop.ends().values()) == 8
    await shop.close()


async def test_bad_requests_are_refused_in_words(world: SimulatedWorld, shop: Shop) -> None:
    pool, address = shop.producer.client.pool, addresses(shop)["broker-a"]
    with pytest.raises(
        ClientError, match="no snapshot nope on broker-a, broker-b: no snapshot is saved; save one first"
    ):
        await put_back(shop, "nope")
    for name in ("", "../x", "a b", ".x", "x" * 65):
        with pytest.raises(UsageError, match="not a valid name of a snapshot"):
            await put_away(shop, name)
        answer = await pool.ask(address, SaveSnapshot(name), 5_000)
        assert answer.code != 0
        assert "not a valid name of a snapshot" in (answer.remark or "")
    await put_away(shop, "one")
    await put_away(shop, "two")
    await put_away(shop, "one")
    assert [info["name"] for info in await saved(pool, addresses(shop))] == ["one", "two"]
    answers = await asyncio.gather(
        *(pool.ask(address, request, 5_000) for request in (SaveSnapshot("one"), RestoreSnapshot("two")))
    )
    assert "try again" in (answers[1].remark or "")
    await remove(pool, addresses(shop), "one")
    with pytest.raises(BrokerAnswer, match="no snapshot one: the snapshots are two") as refused:
        await remove(pool, addresses(shop), "one")
    assert refused.value.code == ResponseCode.INVALID_PARAMETER
    for request in (SaveSnapshot("../x"), RestoreSnapshot("one"), RemoveSnapshot("one")):
        assert (await pool.ask(address, request, 5_000)).code == ResponseCode.INVALID_PARAMETER


async def test_a_snapshot_that_is_put_back_is_not_removed_meanwhile(world: SimulatedWorld, shop: Shop) -> None:
    pool, address = shop.producer.client.pool, addresses(shop)["broker-a"]
    await put_away(shop, "one")
    back, removed, listed = await asyncio.gather(
        *(
            pool.ask(address, request, 5_000)
            for request in (RestoreSnapshot("one"), RemoveSnapshot("one"), GetSnapshots())
        )
    )
    assert (back.code, removed.code, listed.code) == (0, ResponseCode.SYSTEM_BUSY, 0)
    assert [info["name"] for info in await saved(pool, addresses(shop))] == ["one"]


async def test_a_topic_that_came_later_is_gone_everywhere_and_one_that_went_is_back(
    world: SimulatedWorld, shop: Shop
) -> None:
    await shop.send_many(8)
    await put_away(shop)
    await shop.admin.create_topic("later")
    await shop.send(b"x", topic="later")
    await shop.admin.delete_topic(TOPIC)
    back = await put_back(shop)
    assert back["gone"] == ["later"]
    topics = await shop.admin.topics()
    assert TOPIC in topics
    assert "later" not in topics
    await shop.send(b"again", queue=0)
    assert sum(shop.ends().values()) == 9


async def test_a_topic_that_only_one_broker_had_then_is_gone_from_the_routes_of_the_other_one(
    world: SimulatedWorld, shop: Shop
) -> None:
    await shop.admin.create_topic("partly", broker_name="broker-a")
    await put_away(shop)
    await shop.admin.create_topic("partly")
    assert await brokers_of(shop, "partly") == ["broker-a", "broker-b"]
    assert (await put_back(shop))["gone"] == []
    assert await brokers_of(shop, "partly") == ["broker-a"]
    await shop.send(b"x", topic="partly")
    await shop.admin.create_topic("partly")
    assert await brokers_of(shop, "partly") == ["broker-a", "broker-b"]


async def brokers_of(shop: Shop, topic: str) -> list[str]:
    answer = await shop.producer.client.pool.ask(NAMESRV, GetRoute(topic), 5_000)
    return sorted(queues.broker_name for queues in answer.body.queue_datas)


async def test_a_fault_rule_that_is_added_while_a_snapshot_is_copied_ends_its_restore(
    world: SimulatedWorld, shop: Shop
) -> None:
    await shop.send_many(16)
    await put_away(shop)
    workers, address = world.machine("broker-a").workers, addresses(shop)["broker-a"]
    assert isinstance(workers, SimulatedWorkers)
    workers.run_ms = 5  # A large snapshot.
    pool: Any = shop.producer.client.pool
    rule = FaultRule(number=1, action="delay", delay_ms=1)
    restoring = asyncio.ensure_future(pool.ask(address, RestoreSnapshot("base"), 20_000))
    await world.run_for(3)
    assert (await pool.ask(address, AddFault(body=rule), 5_000)).code == 0
    assert "fault rules are active" in (await restoring).remark
    assert (await pool.ask(address, RemoveFault(1), 5_000)).removed == 1
    await shop.send_many(4)
    await put_back(shop)
    assert sum(shop.ends().values()) == 16


async def test_requests_of_a_client_that_leaves_while_they_wait_for_a_snapshot_leave_nothing(
    world: SimulatedWorld, shop: Shop
) -> None:
    """It would be a member of its group for two minutes, with queues that no other member consumes."""
    await shop.send(b"popped", queue=0)
    workers, address = world.machine("broker-a").workers, addresses(shop)["broker-a"]
    assert isinstance(workers, SimulatedWorkers)
    workers.run_ms = 50  # A large snapshot.
    pool, leaving = shop.producer.client.pool, ConnectionPool(world.machine("leaving", "10.0.9.9"))
    heartbeat = Heartbeat(body=HeartbeatData("c1", [], [ConsumerData("billing", "CONSUME_PASSIVELY", "CLUSTERING")]))
    pop = PopMessage("poppers", TOPIC, -1, 32, HOUR_MS, 0, 0, 0)
    saving = asyncio.ensure_future(put_away(shop))
    await world.run_for(3)
    answers = asyncio.gather(*(leaving.ask(address, one, 3_000) for one in (heartbeat, pop)), return_exceptions=True)
    await world.run_for(3)
    await leaving.close()
    await answers
    assert (await saving)["messages"] == 1
    assert "billing" not in shop.brokers["broker-a"].tables.groups.consumers.consumer_table
    assert (await pool.ask(address, pop, 3_000)).code == 0
