"""Static topics: logical queues that stay the same in number while brokers come, go and take them over."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from staticfire.faults.simulation import SimulatedWorld
from staticfire.protocol.codecs import JSON, NATIVE
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.message_ids import parse_offset_id
from staticfire.protocol.requests.groups import SubscriptionGroupConfig, UpdateGroup
from staticfire.protocol.requests.offsets import GetMaxOffset, GetMinOffset
from staticfire.protocol.requests.pull import FLAG_COMMIT_OFFSET
from staticfire.protocol.requests.reset import Reset
from staticfire.protocol.requests.reset_offset import ResetOffset
from staticfire.protocol.requests.routes import GetRoute, RouteAnswer
from staticfire.protocol.requests.send import ManyMessage, SendMany, SendMessageV2
from staticfire.protocol.requests.static_topics import GetStaticTopicConfig, MappingInfo
from staticfire.protocol.requests.statistics import GetConsumeStats
from staticfire.protocol.requests.topics import DeleteTopic, GetAllTopicConfigs, UpdateTopic
from staticfire.protocol.requests.transactions import EndTransaction
from staticfire.runtime.pool import ConnectionPool
from tests.scenarios.stand import NAMESERVER, Stand
from tests.scenarios.static_topics import BLOCK, GROUP, TOPIC, StaticTopic

NOT_LEADER = int(ResponseCode.NOT_LEADER_FOR_QUEUE)
FOUND, NOT_FOUND, RETRY, MOVED = 0, 19, 20, 21
COMMIT = 8


@pytest_asyncio.fixture(params=[NATIVE, JSON], ids=["staticfire", "rocketmq"])
async def stand(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Stand]:
    """Three brokers and a group that is known on all of them."""
    stand = Stand(world, 3)
    stand.pool = ConnectionPool(world.machine("program", "10.0.0.9"), codec_byte=request.param)
    await stand.start()
    for address in stand.brokers.values():
        assert (await stand.ask(address, UpdateGroup(body=SubscriptionGroupConfig(GROUP)))).code == 0
    yield stand
    await stand.close()


@pytest_asyncio.fixture
async def ledger(stand: Stand) -> StaticTopic:
    """Logical queues 0 and 2 on broker-a, 1 on broker-b, none on broker-c."""
    topic = StaticTopic(stand, ["broker-a", "broker-b", "broker-a"])
    await topic.put_all()
    return topic


async def route(stand: Stand) -> dict[str, MappingInfo]:
    answer: RouteAnswer = await stand.ask(NAMESERVER, GetRoute(TOPIC))
    mappings: dict[str, MappingInfo] | None = answer.body.topic_queue_mapping_by_broker
    assert mappings is not None
    return mappings


# -- created -------------------------------------------------------------------------------------------------------


async def test_the_route_says_who_leads_which_logical_queue(stand: Stand, ledger: StaticTopic) -> None:
    mappings = await route(stand)
    assert {name: info.curr_id_map for name, info in mappings.items()} == {
        "broker-a": {0: 0, 2: 1}, "broker-b": {1: 0}, "broker-c": {},
    }  # fmt: skip
    a = mappings["broker-a"]
    assert (a.topic, a.total_queues, a.epoch, a.scope) == (TOPIC, 3, 1_000, "__global__")


async def test_a_topic_that_is_not_static_has_no_mapping_in_its_route(stand: Stand, ledger: StaticTopic) -> None:
    await stand.create_topic("orders")
    answer = await stand.ask(NAMESERVER, GetRoute("orders"))
    assert answer.body.topic_queue_mapping_by_broker is None


async def test_the_configuration_has_the_mapping_for_who_wants_it(stand: Stand, ledger: StaticTopic) -> None:
    address = stand.brokers["broker-b"]
    with_mapping = (await stand.ask(address, GetStaticTopicConfig(TOPIC, True))).body
    assert with_mapping.mapping_detail == ledger.detail("broker-b")
    without = (await stand.ask(address, GetStaticTopicConfig(TOPIC))).body
    assert without.mapping_detail is None
    everything = (await stand.ask(address, GetAllTopicConfigs())).body
    assert list(everything.topic_queue_mapping_detail_map) == [TOPIC]
    assert everything.mapping_data_version.counter == 1


async def test_messages_get_logical_ids_and_offsets(ledger: StaticTopic) -> None:
    for queue_id in range(3):
        answers = [await ledger.send(queue_id, b"%d" % n) for n in range(2)]
        assert [(a.code, a.queue_id, a.queue_offset) for a in answers] == [(0, queue_id, 0), (0, queue_id, 1)]
        assert await ledger.drain(queue_id) == [(0, b"0"), (1, b"1")]
        assert (await ledger.offset(queue_id, GetMinOffset), await ledger.offset(queue_id)) == (0, 2)


async def test_a_broker_that_may_choose_takes_a_queue_that_it_leads(stand: Stand, ledger: StaticTopic) -> None:
    request = SendMessageV2("program", TOPIC, "TBW102", 4, -1, 0, 0, 0, "", body=b"x")
    assert (await stand.ask(stand.brokers["broker-b"], request)).queue_id == 1
    answer = await stand.ask(stand.brokers["broker-c"], request)
    assert answer.code == NOT_LEADER


async def test_who_does_not_lead_a_queue_says_so(ledger: StaticTopic) -> None:
    words = "ledger-1 is not led by broker broker-a"
    refused = [
        await ledger.send(1, b"x", "broker-a"),
        await ledger.pull(1, 0, broker="broker-a"),
        await ledger.commit(1, 3, "broker-a"),
        await ledger.ask(1, GetMaxOffset(TOPIC, 1), "broker-a"),
        await ledger.ask(1, GetMinOffset(TOPIC, 1), "broker-a"),
    ]
    assert [answer.code for answer in refused] == [NOT_LEADER] * 5
    assert all(words in answer.remark for answer in refused), refused[0].remark


@pytest.mark.parametrize("stand", [NATIVE], indirect=True)
async def test_many_messages_in_one_request_are_refused_in_words(stand: Stand, ledger: StaticTopic) -> None:
    request = SendMany("program", "TBW102", 4, body=[ManyMessage(TOPIC, 0, b"", b"x")])
    result = (await stand.ask(stand.brokers["broker-a"], request)).body[0]
    assert result.code != 0
    assert "static topic" in result.remark


async def test_delayed_messages_and_batches_go_to_logical_queues(ledger: StaticTopic) -> None:
    delayed = await ledger.send(2, b"later", properties="DELAY\x011\x02")
    assert (delayed.code, delayed.queue_id) == (0, 2)
    await ledger.stand.world.run_for(seconds=2)
    assert [body for _, body in await ledger.drain(2)] == [b"later"]


# -- mapped elsewhere ----------------------------------------------------------------------------------------------


async def test_a_remapped_queue_goes_on_with_the_next_block_of_offsets(stand: Stand, ledger: StaticTopic) -> None:
    await ledger.send(0, b"old")
    await ledger.remap(0, "broker-c")
    assert {name: info.curr_id_map for name, info in (await route(stand)).items()} == {
        "broker-a": {2: 1}, "broker-b": {1: 0}, "broker-c": {0: 0},
    }  # fmt: skip
    sent = await ledger.send(0, b"new")
    assert (sent.queue_id, sent.queue_offset) == (0, BLOCK)
    assert (await ledger.offset(0, GetMinOffset), await ledger.offset(0)) == (0, BLOCK + 1)
    assert await ledger.drain(0) == [(0, b"old"), (BLOCK, b"new")]
    assert (await ledger.send(0, b"x", "broker-a")).code == NOT_LEADER


async def test_a_queue_moves_over_three_brokers_and_back(ledger: StaticTopic) -> None:
    expected = []
    for turn, name in enumerate(["broker-a", "broker-b", "broker-c", "broker-a"]):
        if turn:
            await ledger.remap(0, name)
        assert (await ledger.send(0, b"%d" % turn)).queue_offset == turn * BLOCK
        expected.append((turn * BLOCK, b"%d" % turn))
    assert await ledger.drain(0) == expected
    assert await ledger.drain(2) == []


async def test_an_empty_stretch_is_passed_over(ledger: StaticTopic) -> None:
    await ledger.remap(0, "broker-b")
    await ledger.remap(0, "broker-c")
    await ledger.send(0, b"x")
    assert await ledger.drain(0) == [(2 * BLOCK, b"x")]


async def test_until_the_offset_is_decided_messages_are_taken_but_not_given(ledger: StaticTopic) -> None:
    await ledger.send(0, b"old")
    await ledger.remap(0, "broker-b", decide=False)
    sent = await ledger.send(0, b"new")
    assert (sent.code, sent.queue_offset) == (0, -1)
    assert await ledger.drain(0) == [(0, b"old")]
    assert (await ledger.offset(0, GetMinOffset), await ledger.offset(0)) == (0, 1)
    await ledger.decide(0)
    assert await ledger.drain(0) == [(0, b"old"), (BLOCK, b"new")]


async def test_a_group_goes_on_where_it_was(ledger: StaticTopic) -> None:
    for n in range(4):
        await ledger.send(0, b"%d" % n)
    await ledger.commit(0, 3)
    assert (await ledger.committed(0)).offset == 3
    await ledger.remap(0, "broker-b")
    assert (await ledger.committed(0)).offset == 3
    await ledger.send(0, b"new")
    assert await ledger.drain(0, 3) == [(3, b"3"), (BLOCK, b"new")]
    assert (await ledger.commit(0, 4)).code == 0
    assert (await ledger.committed(0)).offset == 4
    await ledger.commit(0, BLOCK + 1)
    assert (await ledger.committed(0)).offset == BLOCK + 1


async def test_an_offset_that_rides_along_with_a_pull_is_a_logical_one(ledger: StaticTopic) -> None:
    await ledger.send(0, b"old")
    await ledger.remap(0, "broker-b")
    await ledger.send(0, b"new")
    await ledger.pull(0, BLOCK + 1, flags=FLAG_COMMIT_OFFSET, commit_offset=BLOCK + 1)
    assert (await ledger.committed(0)).offset == BLOCK + 1


async def test_a_new_group_begins_with_the_first_message(ledger: StaticTopic) -> None:
    await ledger.send(0, b"x")
    assert (await ledger.committed(0)).offset == 0
    await ledger.remap(0, "broker-b")
    assert (await ledger.committed(0)).code == int(ResponseCode.QUERY_NOT_FOUND)


async def test_offsets_by_time_are_found_in_every_stretch(world: SimulatedWorld, ledger: StaticTopic) -> None:
    times = []
    for turn, name in enumerate(["broker-a", "broker-b", "broker-c"]):
        if turn:
            await ledger.remap(0, name)
        for _ in range(2):
            await world.run_for(seconds=1)
            times.append(world.machine("program").clock.wall_ms())
            await ledger.send(0, b"x")
    await world.run_for(seconds=1)
    offsets = [0, 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 1]
    assert [await ledger.search(0, time_ms) for time_ms in times] == offsets
    assert [await ledger.search(0, time_ms + 500, "UPPER") for time_ms in times] == offsets
    assert await ledger.search(0, 0) == 0
    assert await ledger.search(0, times[-1] + 900) == 2 * BLOCK + 2
    assert 0 <= await ledger.earliest(0) - times[0] < 100


# -- pulls that wait -----------------------------------------------------------------------------------------------


async def test_a_held_pull_gets_the_next_message_with_its_logical_offset(
    world: SimulatedWorld, ledger: StaticTopic
) -> None:
    await ledger.remap(1, "broker-a")
    pull = asyncio.ensure_future(ledger.pull(1, BLOCK, 15_000))
    await world.run_for(seconds=1)
    assert not pull.done()
    await ledger.send(1, b"x")
    answer = await pull
    assert (answer.code, answer.next_begin_offset, answer.offset_delta) == (FOUND, BLOCK + 1, BLOCK)


async def test_a_pull_that_is_held_when_its_queue_leaves_is_told_at_once(
    world: SimulatedWorld, ledger: StaticTopic
) -> None:
    pull = asyncio.ensure_future(ledger.pull(0, 0, 15_000, broker="broker-a"))
    await world.run_for(seconds=1)
    await ledger.remap(0, "broker-b")
    answer = await asyncio.wait_for(pull, 1)
    assert answer.code == NOT_LEADER


async def test_no_pull_waits_in_a_stretch_that_gets_no_more(ledger: StaticTopic) -> None:
    await ledger.send(0, b"old")
    await ledger.remap(0, "broker-b")
    await ledger.remap(0, "broker-a")
    answer = await asyncio.wait_for(ledger.pull(0, 1, 15_000), 1)
    assert (answer.code, answer.next_begin_offset) == (RETRY, BLOCK)


async def test_an_offset_beyond_the_end_is_moved_back(ledger: StaticTopic) -> None:
    await ledger.send(0, b"old")
    await ledger.remap(0, "broker-b")
    answer = await ledger.pull(0, BLOCK + 7)
    assert (answer.code, answer.next_begin_offset) == (MOVED, BLOCK)


async def test_a_pull_says_which_broker_it_could_not_reach(world: SimulatedWorld, ledger: StaticTopic) -> None:
    await ledger.send(0, b"old")
    await ledger.remap(0, "broker-b")
    await world.stop("broker-a")
    answer = await ledger.pull(0, 0)
    assert answer.code == int(ResponseCode.SYSTEM_ERROR)
    assert "broker-a" in answer.remark
    assert (await ledger.pull(0, BLOCK)).code == NOT_FOUND
    await ledger.stand.start_broker("broker-a")
    assert await ledger.drain(0) == [(0, b"old")]


# -- kept, refused, deleted ----------------------------------------------------------------------------------------


async def test_the_mapping_survives_a_kill(world: SimulatedWorld, stand: Stand, ledger: StaticTopic) -> None:
    await ledger.send(0, b"old")
    await ledger.remap(0, "broker-b")
    await ledger.send(0, b"new")
    for name in ("broker-a", "broker-b"):
        world.kill(name)
        await world.run_for(seconds=1)
        await stand.start_broker(name)
    assert await ledger.drain(0) == [(0, b"old"), (BLOCK, b"new")]
    assert (await route(stand))["broker-b"].curr_id_map == {0: 1, 1: 0}


async def test_the_number_of_logical_queues_stays_when_a_broker_goes(
    world: SimulatedWorld, stand: Stand, ledger: StaticTopic
) -> None:
    await world.stop("broker-b")
    mappings = await route(stand)
    assert (mappings["broker-a"].total_queues, mappings["broker-b"].curr_id_map) == (3, {1: 0})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bname": "broker-z"}, "is broker-z's, and this is broker-a"),
        ({"topic": "other"}, "the mapping is of topic other"),
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


async def test_what_a_mapping_says_of_the_past_can_not_be_changed(stand: Stand, ledger: StaticTopic) -> None:
    await ledger.remap(0, "broker-b")
    kept = ledger.items[0]
    ledger.items[0] = [kept[0].__class__(0, 7, "broker-c", 0), kept[1]]
    answer = await ledger.put("broker-b")
    assert answer.code == int(ResponseCode.SYSTEM_ERROR)
    assert "can't be changed" in answer.remark
    ledger.items[0] = kept
    assert (await ledger.put("broker-b")).code == 0


async def test_fewer_queues_than_are_mapped_are_refused(stand: Stand, ledger: StaticTopic) -> None:
    answer = await stand.ask(stand.brokers["broker-a"], UpdateTopic(TOPIC, 1, 1, 6))
    assert answer.code == int(ResponseCode.INVALID_PARAMETER)
    assert "static topic" in answer.remark
    assert (await stand.ask(stand.brokers["broker-a"], UpdateTopic(TOPIC, 2, 2, 6))).code == 0


async def test_a_deleted_topic_can_be_made_anew_as_an_ordinary_one(stand: Stand, ledger: StaticTopic) -> None:
    for address in stand.brokers.values():
        assert (await stand.ask(address, DeleteTopic(TOPIC))).code == 0
    for name in stand.brokers:
        await stand.create_topic(TOPIC, 1, name)
    answer = await stand.ask(NAMESERVER, GetRoute(TOPIC))
    assert answer.body.topic_queue_mapping_by_broker is None
    assert (await stand.send(TOPIC, b"x", broker="broker-b")).queue_offset == 0


async def test_the_figures_of_a_group_say_where_it_never_was(stand: Stand, ledger: StaticTopic) -> None:
    await ledger.send(0, b"x")
    await ledger.commit(0, 1)
    answer = await stand.ask(stand.brokers["broker-a"], GetConsumeStats(GROUP, TOPIC))
    offsets = {queue.queue_id: offset.consumer_offset for queue, offset in answer.body.offset_table.items()}
    assert offsets == {0: 1, 1: -1}


async def test_an_ordinary_topic_becomes_a_static_one(stand: Stand) -> None:
    await stand.create_topic(TOPIC, 1)
    assert (await stand.send(TOPIC, b"first")).queue_offset == 0
    ledger = StaticTopic(stand, ["broker-b", "broker-a"])
    await ledger.put_all()
    assert (await ledger.send(0, b"x", "broker-a")).code == NOT_LEADER
    sent = await ledger.send(1, b"second")
    assert (sent.queue_id, sent.queue_offset) == (1, 1)


async def test_a_nameserver_that_starts_anew_knows_the_mapping(
    world: SimulatedWorld, stand: Stand, ledger: StaticTopic
) -> None:
    before = await route(stand)
    await world.stop("nameserver")
    await stand.start_nameserver()
    await world.run_for(seconds=2)
    assert await route(stand) == before


async def test_a_broker_that_forgets_everything_forgets_mappings(stand: Stand, ledger: StaticTopic) -> None:
    assert (await stand.ask(stand.brokers["broker-a"], Reset())).code == 0
    assert (await stand.send(TOPIC, b"x", queue_id=0)).queue_offset == 0
    answer = await stand.ask(stand.brokers["broker-a"], GetStaticTopicConfig(TOPIC, True))
    assert answer.body.mapping_detail is None


async def test_half_messages_end_in_their_logical_queue(stand: Stand, ledger: StaticTopic) -> None:
    await ledger.remap(0, "broker-b")
    half = await ledger.send(0, b"half", properties="TRAN_MSG\x01true\x02PGROUP\x01program\x02")
    assert (half.code, half.queue_id) == (0, 0)
    end = EndTransaction(
        "program", half.queue_offset, parse_offset_id(half.msg_id)[1], COMMIT, transaction_id=half.transaction_id,
    )  # fmt: skip
    assert (await ledger.ask(0, end)).code == 0
    assert await ledger.drain(0) == [(BLOCK, b"half")]


async def test_a_broker_that_comes_back_at_another_address_is_found(
    world: SimulatedWorld, stand: Stand, ledger: StaticTopic
) -> None:
    await ledger.send(0, b"old")
    await ledger.remap(0, "broker-b")
    assert await ledger.drain(0) == [(0, b"old")]
    await world.stop("broker-a")
    stand.settings["listen_port"] = 12_911
    await stand.start_broker("broker-a")
    assert (await ledger.pull(0, 0)).code == int(ResponseCode.SYSTEM_ERROR)
    assert await ledger.drain(0) == [(0, b"old")]


async def test_a_reset_moves_a_group_within_the_newest_stretch(stand: Stand, ledger: StaticTopic) -> None:
    await ledger.send(0, b"old")
    await ledger.remap(0, "broker-b")
    for n in range(2):
        await ledger.send(0, b"%d" % n)
    await ledger.commit(0, BLOCK + 2)
    reset = ResetOffset(GROUP, TOPIC, timestamp=0, is_force=True)
    assert (await ledger.ask(0, reset)).code == 0
    answer = await ledger.pull(0, BLOCK + 2)
    assert (answer.code, answer.next_begin_offset) == (MOVED, BLOCK)
