"""Static topics: logical queues that stay the same in number while brokers come, go and take them over."""

import asyncio

import pytest

from staticfire.protocol.codecs import NATIVE
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.requests.offsets import GetMaxOffset, GetMinOffset
from staticfire.protocol.requests.pull import FLAG_COMMIT_OFFSET
from staticfire.protocol.requests.routes import GetRoute
from staticfire.protocol.requests.send import ManyMessage, SendMany, SendMessageV2
from staticfire.protocol.requests.static_topics import GetStaticTopicConfig
from staticfire.protocol.requests.topics import GetAllTopicConfigs
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.stand import NAMESERVER, Stand
from tests.scenarios.static_topics import BLOCK, TOPIC, StaticTopic, route

NOT_LEADER = int(ResponseCode.NOT_LEADER_FOR_QUEUE)
FOUND, NOT_FOUND, RETRY, MOVED = 0, 19, 20, 21
COMMIT = 8


# -- created -------------------------------------------------------------------------------------------------------


async def test_the_route_says_who_leads_which_logical_queue(trio: Stand, ledger: StaticTopic) -> None:
    mappings = await route(trio)
    assert {name: info.curr_id_map for name, info in mappings.items()} == {
        "broker-a": {0: 0, 2: 1}, "broker-b": {1: 0}, "broker-c": {},
    }  # fmt: skip
    a = mappings["broker-a"]
    assert (a.topic, a.total_queues, a.epoch, a.scope) == (TOPIC, 3, 1_000, "__global__")


async def test_a_topic_that_is_not_static_has_no_mapping_in_its_route(trio: Stand, ledger: StaticTopic) -> None:
    await trio.create_topic("orders")
    answer = await trio.ask(NAMESERVER, GetRoute("orders"))
    assert answer.body.topic_queue_mapping_by_broker is None


async def test_the_configuration_has_the_mapping_for_who_wants_it(trio: Stand, ledger: StaticTopic) -> None:
    address = trio.brokers["broker-b"]
    with_mapping = (await trio.ask(address, GetStaticTopicConfig(TOPIC, True))).body
    assert with_mapping.mapping_detail == ledger.detail("broker-b")
    without = (await trio.ask(address, GetStaticTopicConfig(TOPIC))).body
    assert without.mapping_detail is None
    everything = (await trio.ask(address, GetAllTopicConfigs())).body
    assert list(everything.topic_queue_mapping_detail_map) == [TOPIC]
    assert everything.mapping_data_version.counter == 1


async def test_messages_get_logical_ids_and_offsets(ledger: StaticTopic) -> None:
    for queue_id in range(3):
        answers = [await ledger.send(queue_id, b"%d" % n) for n in range(2)]
        assert [(a.code, a.queue_id, a.queue_offset) for a in answers] == [(0, queue_id, 0), (0, queue_id, 1)]
        assert await ledger.drain(queue_id) == [(0, b"0"), (1, b"1")]
        assert (await ledger.offset(queue_id, GetMinOffset), await ledger.offset(queue_id)) == (0, 2)


async def test_a_broker_that_may_choose_takes_a_queue_that_it_leads(trio: Stand, ledger: StaticTopic) -> None:
    request = SendMessageV2("program", TOPIC, "TBW102", 4, -1, 0, 0, 0, "", body=b"x")
    assert (await trio.ask(trio.brokers["broker-b"], request)).queue_id == 1
    answer = await trio.ask(trio.brokers["broker-c"], request)
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


@pytest.mark.parametrize("trio", [NATIVE], indirect=True)
async def test_many_messages_in_one_request_are_refused_in_words(trio: Stand, ledger: StaticTopic) -> None:
    request = SendMany("program", "TBW102", 4, body=[ManyMessage(TOPIC, 0, b"", b"x")])
    result = (await trio.ask(trio.brokers["broker-a"], request)).body[0]
    assert result.code != 0
    assert "static topic" in result.remark


async def test_delayed_messages_and_batches_go_to_logical_queues(ledger: StaticTopic) -> None:
    delayed = await ledger.send(2, b"later", properties="DELAY\x011\x02")
    assert (delayed.code, delayed.queue_id) == (0, 2)
    await ledger.stand.world.run_for(seconds=2)
    assert [body for _, body in await ledger.drain(2)] == [b"later"]


# -- mapped elsewhere ----------------------------------------------------------------------------------------------


async def test_a_remapped_queue_continues_with_the_next_block_of_offsets(trio: Stand, ledger: StaticTopic) -> None:
    await ledger.send(0, b"old")
    await ledger.remap(0, "broker-c")
    assert {name: info.curr_id_map for name, info in (await route(trio)).items()} == {
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


async def test_a_group_continues_where_it_was(ledger: StaticTopic) -> None:
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


async def test_a_held_pull_is_answered_at_once_when_its_queue_leaves(
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
