"""Static topics: what is kept of them, what is refused, and what becomes of them."""

from typing import Any

import pytest

from staticfire.client import Admin
from staticfire.client.admin.listing import list_topics
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.message_ids import parse_offset_id
from staticfire.protocol.requests.reset import Reset
from staticfire.protocol.requests.reset_offset import ResetOffset
from staticfire.protocol.requests.routes import GetRoute
from staticfire.protocol.requests.snapshots import RestoreSnapshot, SaveSnapshot
from staticfire.protocol.requests.static_topics import GetStaticTopicConfig
from staticfire.protocol.requests.statistics import GetConsumeStats
from staticfire.protocol.requests.topics import DeleteTopic, UpdateTopic
from staticfire.protocol.requests.transactions import EndTransaction
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.stand import NAMESERVER, Stand
from tests.scenarios.static_topics import BLOCK, GROUP, TOPIC, StaticTopic, route

NOT_LEADER = int(ResponseCode.NOT_LEADER_FOR_QUEUE)
FOUND, NOT_FOUND, RETRY, MOVED = 0, 19, 20, 21
COMMIT = 8


async def test_the_mapping_survives_a_kill(world: SimulatedWorld, trio: Stand, ledger: StaticTopic) -> None:
    await ledger.send(0, b"old")
    await ledger.remap(0, "broker-b")
    await ledger.send(0, b"new")
    for name in ("broker-a", "broker-b"):
        world.kill(name)
        await world.run_for(seconds=1)
        await trio.start_broker(name)
    assert await ledger.drain(0) == [(0, b"old"), (BLOCK, b"new")]
    assert (await route(trio))["broker-b"].curr_id_map == {0: 1, 1: 0}


async def test_the_number_of_logical_queues_stays_when_a_broker_goes(
    world: SimulatedWorld, trio: Stand, ledger: StaticTopic
) -> None:
    await world.stop("broker-b")
    mappings = await route(trio)
    assert (mappings["broker-a"].total_queues, mappings["broker-b"].curr_id_map) == (3, {1: 0})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bname": "broker-z"}, "belongs to broker-z, but this broker is broker-a"),
        ({"topic": "other"}, "the topic of the mapping is other"),
        ({"epoch": 999}, "epoch 999 is older than 1000"),
        ({"scope": "elsewhere"}, "scope"),
        ({"hosted_queues": {}}, "logical queue 0"),
    ],
)
async def test_a_mapping_that_does_not_fit_is_refused(ledger: StaticTopic, changes: dict[str, Any], words: str) -> None:
    answer = await ledger.put("broker-a", **changes)
    assert answer.code == int(ResponseCode.SYSTEM_ERROR)
    assert words in answer.remark
    assert (await ledger.send(0, b"x")).queue_offset == 0


async def test_what_a_mapping_says_of_the_past_can_not_be_changed(trio: Stand, ledger: StaticTopic) -> None:
    await ledger.remap(0, "broker-b")
    kept = ledger.items[0]
    ledger.items[0] = [kept[0].__class__(0, 7, "broker-c", 0), kept[1]]
    answer = await ledger.put("broker-b")
    assert answer.code == int(ResponseCode.SYSTEM_ERROR)
    assert "can't be changed" in answer.remark
    ledger.items[0] = kept
    assert (await ledger.put("broker-b")).code == 0


async def test_fewer_queues_than_are_mapped_are_refused(trio: Stand, ledger: StaticTopic) -> None:
    answer = await trio.ask(trio.brokers["broker-a"], UpdateTopic(TOPIC, 1, 1, 6))
    assert answer.code == int(ResponseCode.INVALID_PARAMETER)
    assert "static topic" in answer.remark
    assert (await trio.ask(trio.brokers["broker-a"], UpdateTopic(TOPIC, 2, 2, 6))).code == 0


async def test_a_deleted_topic_can_be_created_again_as_an_ordinary_one(trio: Stand, ledger: StaticTopic) -> None:
    for address in trio.brokers.values():
        assert (await trio.ask(address, DeleteTopic(TOPIC))).code == 0
    for name in trio.brokers:
        await trio.create_topic(TOPIC, 1, name)
    answer = await trio.ask(NAMESERVER, GetRoute(TOPIC))
    assert answer.body.topic_queue_mapping_by_broker is None
    assert (await trio.send(TOPIC, b"x", broker="broker-b")).queue_offset == 0


async def test_the_figures_of_a_group_say_where_it_never_was(trio: Stand, ledger: StaticTopic) -> None:
    await ledger.send(0, b"x")
    await ledger.commit(0, 1)
    answer = await trio.ask(trio.brokers["broker-a"], GetConsumeStats(GROUP, TOPIC))
    offsets = {queue.queue_id: offset.consumer_offset for queue, offset in answer.body.offset_table.items()}
    assert offsets == {0: 1, 1: -1}


async def test_an_ordinary_topic_becomes_a_static_one(trio: Stand) -> None:
    await trio.create_topic(TOPIC, 1)
    assert (await trio.send(TOPIC, b"first")).queue_offset == 0
    ledger = StaticTopic(trio, ["broker-b", "broker-a"])
    await ledger.put_all()
    assert (await ledger.send(0, b"x", "broker-a")).code == NOT_LEADER
    sent = await ledger.send(1, b"second")
    assert (sent.queue_id, sent.queue_offset) == (1, 1)


async def test_a_broker_that_a_restore_takes_the_topic_from_leads_no_logical_queue(
    world: SimulatedWorld, trio: Stand
) -> None:
    await trio.create_topic(TOPIC, 1, "broker-a")
    address = trio.brokers["broker-b"]
    assert (await trio.ask(address, SaveSnapshot("before"))).code == 0
    ledger = StaticTopic(trio, ["broker-b", "broker-a"])
    await ledger.put_all()
    assert (await route(trio))["broker-b"].curr_id_map == {0: 0}
    assert (await trio.ask(address, RestoreSnapshot("before"))).code == 0
    await world.run_for(seconds=1)
    assert "broker-b" not in await route(trio)


async def test_a_restarted_nameserver_knows_the_mapping(
    world: SimulatedWorld, trio: Stand, ledger: StaticTopic
) -> None:
    before = await route(trio)
    await world.stop("nameserver")
    await trio.start_nameserver()
    await world.run_for(seconds=2)
    assert await route(trio) == before


async def test_a_broker_that_forgets_everything_forgets_mappings(trio: Stand, ledger: StaticTopic) -> None:
    assert (await trio.ask(trio.brokers["broker-a"], Reset())).code == 0
    assert (await trio.send(TOPIC, b"x", queue_id=0)).queue_offset == 0
    answer = await trio.ask(trio.brokers["broker-a"], GetStaticTopicConfig(TOPIC, True))
    assert answer.body.mapping_detail is None


async def test_half_messages_end_in_their_logical_queue(trio: Stand, ledger: StaticTopic) -> None:
    await ledger.remap(0, "broker-b")
    half = await ledger.send(0, b"half", properties="TRAN_MSG\x01true\x02PGROUP\x01program\x02")
    assert (half.code, half.queue_id) == (0, 0)
    end = EndTransaction(
        "program", half.queue_offset, parse_offset_id(half.msg_id)[1], COMMIT, transaction_id=half.transaction_id,
    )  # fmt: skip
    assert (await ledger.ask(0, end)).code == 0
    assert await ledger.drain(0) == [(BLOCK, b"half")]


async def test_a_broker_that_comes_back_at_another_address_is_found(
    world: SimulatedWorld, trio: Stand, ledger: StaticTopic
) -> None:
    await ledger.send(0, b"old")
    await ledger.remap(0, "broker-b")
    assert await ledger.drain(0) == [(0, b"old")]
    await world.stop("broker-a")
    trio.settings["listen_port"] = 12_911
    await trio.start_broker("broker-a")
    assert (await ledger.pull(0, 0)).code == int(ResponseCode.SYSTEM_ERROR)
    assert await ledger.drain(0) == [(0, b"old")]


async def test_a_reset_moves_a_group_within_the_newest_stretch(trio: Stand, ledger: StaticTopic) -> None:
    await ledger.send(0, b"old")
    await ledger.remap(0, "broker-b")
    for n in range(2):
        await ledger.send(0, b"%d" % n)
    await ledger.commit(0, BLOCK + 2)
    reset = ResetOffset(GROUP, TOPIC, timestamp=0, is_force=True)
    assert (await ledger.ask(0, reset)).code == 0
    answer = await ledger.pull(0, BLOCK + 2)
    assert (answer.code, answer.next_begin_offset) == (MOVED, BLOCK)


async def test_a_list_of_topics_has_the_static_ones(world: SimulatedWorld, trio: Stand, ledger: StaticTopic) -> None:
    await ledger.send(0, b"x")
    async with Admin(NAMESERVER, machine=world.machine("admin")) as admin:
        (topic,) = await list_topics(admin)
    assert topic == {"topic": TOPIC, "brokers": 3, "queues": 3, "messages": 1}
