"""What POP's requests have to pass, where pops begin, and which acknowledgements count: RocketMQ's answers."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from staticfire.protocol.command import Request
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.requests.config import UpdateBrokerConfig
from staticfire.protocol.requests.offsets import UpdateConsumerOffset
from staticfire.protocol.requests.pop import AckMessage, BatchAck, BatchAckBody, ChangeInvisibleTime, PeekMessage
from staticfire.protocol.requests.reset_offset import ResetOffset
from staticfire.simulation.world.world import SimulatedWorld
from tests.scenarios.broker_stand import BrokerStand, text
from tests.scenarios.popping import INVISIBLE_MS, Popper, handles, offsets

pytestmark = pytest.mark.row("G1")

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
IP, CLIENT = "10.0.0.2", "10.0.0.9"


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[BrokerStand]:
    stand = BrokerStand(world)
    await stand.start()
    await stand.put_topic("orders")
    await stand.put_group("idle", consume_enable=False)
    yield stand
    await stand.close()


@pytest.fixture
def popper(stand: BrokerStand) -> Popper:
    return Popper(stand)


async def send(stand: BrokerStand, count: int, queue_id: int = 0, tags: str = "") -> None:
    for index in range(count):
        await stand.send("orders", b"%d" % index, queue_id, TAGS=tags[index % len(tags)] if tags else "")


async def ask(stand: BrokerStand, request: Request) -> tuple[int, str | None]:
    try:
        answer = await stand.ask(request)
    except BrokerAnswer as error:
        return int(error.code), error.remark
    return answer.code, answer.remark


# -- pops --------------------------------------------------------------------------------------------------------------

ILLEGAL_QUEUE = "queueId[4] is illegal, topic:[orders] topicConfig.readQueueNums:[4] consumer:[/10.0.0.9:"


@pytest.mark.parametrize(
    ("requested", "code", "remark"),
    [
        ({"born_time": -600}, 210, f"the broker[{IP}] pop message is timeout too much"),
        ({"born_time": -600, "poll_time": 200}, 210, "NO_MESSAGE_IN_QUEUE"),
        ({"count": 33, "topic": "NOPE"}, 29, f"the broker[{IP}] pop message's num is greater than 32"),
        ({"topic": "NOPE"}, 17, f"topic[NOPE] not exist, apply first please! {FAQ}"),
        ({"topic": "closed"}, 16, "the topic[closed] peeking message is forbidden"),
        ({"queue_id": 4}, 29, ILLEGAL_QUEUE),
        ({"queue_id": 4, "group": "idle"}, 29, ILLEGAL_QUEUE),
        ({"group": "idle"}, 16, "subscription group no permission, idle"),
        ({"group": "bad group!"}, 26, f"subscription group [bad group!] does not exist, {FAQ}"),
        ({"exp": "||", "exp_type": "TAG"}, 23, "parse the consumer's subscription failed"),
        ({"exp": "a ===", "exp_type": "SQL92"}, 23, "parse the consumer's subscription failed"),
        ({"exp": "a", "exp_type": "FOO"}, 23, "parse the consumer's subscription failed"),
        ({"count": -1}, 1, "java.lang.IllegalArgumentException: Illegal Capacity: -1"),
    ],
)
async def test_a_pop_is_refused_in_rocketmqs_words(
    stand: BrokerStand, requested: dict[str, Any], code: int, remark: str
) -> None:
    await stand.put_topic("closed", perm=2)
    requested = dict(requested)
    popper = Popper(stand, requested.pop("group", "billing"))
    if "born_time" in requested:
        requested["born_time"] += stand.broker.state.machine.clock.wall_ms()
    answer = await popper.pop(**requested)
    assert answer.code == code
    assert (answer.remark or "").startswith(remark)
    if answer.remark != "NO_MESSAGE_IN_QUEUE":
        numbers = (answer.pop_time, answer.invisible_time, answer.revive_qid, answer.rest_num)
        assert (numbers, answer.start_offset_info, answer.msg_offset_info) == ((0, 0, 0, 0), None, None)


async def test_a_pop_of_a_broker_that_may_not_be_read_is_refused(stand: BrokerStand, popper: Popper) -> None:
    await stand.ask(UpdateBrokerConfig(body=b"brokerPermission=2\n"))
    answer = await popper.pop()
    assert (answer.code, answer.remark) == (16, f"the broker[{IP}] pop message is forbidden")


async def test_without_the_timer_wheel_there_are_no_pops(stand: BrokerStand, popper: Popper) -> None:
    await stand.restart(timer_wheel_enable=False)
    answer = await popper.pop()
    assert (answer.code, "timerWheelEnable is false" in (answer.remark or "")) == (1, True)


async def test_a_pop_of_nothing_counts_what_is_there(stand: BrokerStand, popper: Popper) -> None:
    await send(stand, 10)
    answer = await popper.pop(count=0)
    assert (answer.code, answer.rest_num, answer.start_offset_info) == (210, 10, "")


async def test_a_pop_of_all_queues_has_an_entry_for_each(stand: BrokerStand, popper: Popper) -> None:
    await send(stand, 3, 0)
    await send(stand, 2, 1)
    answer = await popper.pop(-1)
    assert sorted(answer.start_offset_info.split(";")) == ["0 0 0", "0 1 0"]
    assert sorted(answer.msg_offset_info.split(";")) == ["0 0 0,1,2", "0 1 0,1"]
    assert [len(handles(answer)), answer.rest_num] == [5, 0]
    assert [await popper.committed(0), await popper.committed(1)] == [3, 2]


async def test_tags_pass_over_what_is_not_wanted(stand: BrokerStand, popper: Popper) -> None:
    await send(stand, 10, tags="AB")
    answer = await popper.pop(count=3, exp="A", exp_type="TAG")
    assert (answer.start_offset_info, answer.msg_offset_info, answer.rest_num) == ("0 0 0", "0 0 0,2,4", 5)
    assert await popper.committed() == 5
    assert (await popper.pop(exp="C")).code == 210
    assert await popper.committed() == 10


async def test_a_condition_chooses(stand: BrokerStand, popper: Popper) -> None:
    for number in range(10):
        await stand.send("orders", b"x", a=str(number))
    answer = await popper.pop(exp="a > 5", exp_type="SQL92")
    assert (answer.start_offset_info, answer.msg_offset_info) == ("0 0 0", "0 0 6,7,8,9")
    assert len(handles(answer)) == 4


@pytest.mark.parametrize(
    ("looks_in_memory", "init_mode", "expected"), [(True, 1, [0, 1, 2, 3, 4]), (False, 1, [4]), (False, 0, [0, 1])]
)
async def test_where_a_new_group_begins(
    stand: BrokerStand, popper: Popper, looks_in_memory: bool, init_mode: int, expected: list[int]
) -> None:
    await stand.restart(init_pop_offset_by_check_msg_in_mem=looks_in_memory)
    await send(stand, 5)
    assert offsets(await popper.pop(init_mode=init_mode, count=len(expected))) == expected


async def test_pulls_and_pops_share_where_their_group_stands(stand: BrokerStand, popper: Popper) -> None:
    await send(stand, 6)
    assert offsets(await popper.pop(count=2)) == [0, 1]
    for committed, expected in ((5, [5]), (1, [1, 2]), (99, [])):
        assert (await stand.ask(UpdateConsumerOffset("billing", "orders", 0, committed))).code == 0
        answer = await popper.pop(count=2)
        assert offsets(answer) == expected
    assert (answer.code, await popper.committed()) == (210, 6)


@pytest.mark.parametrize(("target", "first"), [(4, 4), (11, 10), (0, 0)])
async def test_a_reset_moves_pops(stand: BrokerStand, popper: Popper, target: int, first: int) -> None:
    await send(stand, 10)
    await popper.pop()
    assert (await stand.ask(ResetOffset("billing", "orders", -1, False, 0, target))).code == 0
    assert await popper.committed() == target
    assert offsets(await popper.pop()) == list(range(first, 10))
    assert await popper.committed() == 10


async def test_a_reset_outlives_a_kill(stand: BrokerStand, popper: Popper) -> None:
    await send(stand, 10)
    await popper.pop()
    assert (await stand.ask(ResetOffset("billing", "orders", -1, False, 0, 4))).code == 0
    await stand.kill_and_start()
    assert offsets(await popper.pop()) == [4, 5, 6, 7, 8, 9]


async def test_too_many_in_flight_hold_a_group_back(stand: BrokerStand, popper: Popper) -> None:
    await stand.restart(enable_pop_message_threshold=True, pop_inflight_message_threshold=2)
    await send(stand, 8)
    taken = [await popper.pop(count=2), await popper.pop(count=2)]
    refused = await popper.pop(count=2)
    assert ([answer.code for answer in taken], refused.code, refused.rest_num) == ([0, 0], 210, 4)
    await popper.ack_all(taken[0])
    assert offsets(await popper.pop(count=2)) == [4, 5]


async def test_a_look_takes_nothing(stand: BrokerStand, popper: Popper) -> None:
    await send(stand, 3)
    for _ in range(2):
        answer = await stand.ask(PeekMessage("billing", "orders", -1, 2))
        assert (answer.code, len(answer.body.records), answer.rest_num, answer.pop_time) == (0, 2, 3, 0)
    assert await popper.committed() == 0
    await popper.pop()
    empty = await stand.ask(PeekMessage("billing", "orders", 0, 2))
    assert (empty.code, empty.remark) == (19, "NO_MESSAGE_IN_QUEUE")
    assert await ask(stand, PeekMessage("idle", "orders", 0, 2)) == (16, "subscription group no permission, idle")


# -- acknowledgements --------------------------------------------------------------------------------------------------

HANDLE = "0 1795319639607 30000 0 0 broker-a 0 0"
NOT_SET = "not set any response code"


@pytest.mark.parametrize(
    ("topic", "queue_id", "offset", "handle", "code", "remark"),
    [
        ("NOPE", 0, 0, HANDLE, 17, f"topic[NOPE] not exist, apply first please! {FAQ}"),
        ("orders", 5, 0, HANDLE, 13, "queueId[5] is illegal, topic:[orders] topicConfig.readQueueNums:[4]"),
        ("orders", -1, 0, HANDLE, 13, "queueId[-1] is illegal"),
        ("orders", 0, 99, HANDLE, 208, "offset is illegal, key:orders@0, commit:99, store:0~6"),
        ("orders", 0, -1, HANDLE, 208, "offset is illegal, key:orders@0, commit:-1, store:0~6"),
        ("orders", 0, 6, HANDLE, 0, ""),
        ("orders", 0, 0, "abc", 1, "java.lang.IllegalArgumentException: getBrokerName fail, extraInfoStrs length 1"),
        ("orders", 0, 0, "", 1, "java.lang.IllegalArgumentException: split extraInfo is null"),
        ("orders", 0, 0, "x 1 2 3 0 b", 1, 'java.lang.NumberFormatException: For input string: "x"'),
        ("orders", 0, 0, "-5 -1 -1 0 0 broker-a 0 0", 0, ""),
        ("orders", 0, 0, f"0 {2**63 - 1} 1 0 0 broker-a 0 0", 0, ""),
        ("orders", 0, 0, "0 1 1 7 2 elsewhere 0 0", 0, ""),
    ],
)
async def test_an_acknowledgement_is_answered_in_rocketmqs_words(
    stand: BrokerStand, topic: str, queue_id: int, offset: int, handle: str, code: int, remark: str
) -> None:
    await send(stand, 6)
    got, words = await ask(stand, AckMessage("billing", topic, queue_id, handle, offset))
    assert got == code
    assert (words or "").startswith(remark)


@pytest.mark.parametrize(
    ("topic", "queue_id", "offset", "handle", "code", "remark"),
    [
        ("NOPE", 0, 0, HANDLE, 17, f"topic[NOPE] not exist, apply first please! {FAQ}"),
        ("orders", 4, 0, HANDLE, 13, "queueId[4] is illegal"),
        ("orders", 0, 6, HANDLE, 208, NOT_SET),
        ("orders", 0, 0, HANDLE, 0, NOT_SET),
        ("orders", 0, 0, "0 1 2", 1, "java.lang.IllegalArgumentException: getReviveQid fail, extraInfoStrs length 3"),
        ("orders", 0, 0, "0 1 2 3", 1, "java.lang.IllegalArgumentException: getBrokerName fail, extraInfoStrs"),
        ("orders", 0, 0, "0 1 2 999", 0, NOT_SET),
    ],
)
async def test_a_change_is_answered_in_rocketmqs_words(
    stand: BrokerStand, topic: str, queue_id: int, offset: int, handle: str, code: int, remark: str
) -> None:
    await send(stand, 6)
    got, words = await ask(stand, ChangeInvisibleTime("billing", topic, queue_id, handle, offset, 1_000))
    assert got == code
    assert (words or "").startswith(remark)


def batch(*entries: dict[str, Any]) -> BatchAck:
    return BatchAck(body=BatchAckBody(list(entries), "broker-a"))


async def test_a_batch_acknowledges_by_bits(world: SimulatedWorld, stand: BrokerStand, popper: Popper) -> None:
    await send(stand, 12)
    answer = await popper.pop(invisible_ms=2_000)
    entry = {
        "c": "billing", "t": "orders", "r": "0", "so": 0, "q": 0, "rq": answer.revive_qid, "pt": answer.pop_time,
        "it": 2_000, "b": "Awo=",
    }  # fmt: skip
    assert await ask(stand, batch(entry)) == (0, None)
    await world.run_for(2_100)
    again = await popper.pop()
    expected = [b"%d" % number for number in (2, 3, 4, 5, 6, 7, 8, 10)]
    assert [record.body for record in again.body.records] == expected
    assert {record.reconsume_times for record in again.body.records} == {1}
    retry = {
        "consumerGroup": "billing", "topic": "orders", "retry": 1, "startOffset": 0, "queueId": 0, "reviveQueueId": 0,
        "popTime": again.pop_time, "invisibleTime": INVISIBLE_MS, "bitSet": [0xFF],
    }  # fmt: skip
    assert await ask(stand, batch(retry)) == (0, None)
    await world.run_for(2 * INVISIBLE_MS)
    assert (await popper.pop()).code == 210


ENTRY = {"c": "g", "t": "NOPE", "r": "0", "so": 0, "q": 9, "rq": 0, "pt": 1, "it": 1, "b": "Awo="}


@pytest.mark.parametrize(
    ("request_", "code", "remark"),
    [
        (BatchAck(), 208, None),
        (batch(), 208, None),
        (batch(ENTRY), 0, None),
        (batch(ENTRY | {"b": ""}), 0, None),
        (batch({name: value for name, value in ENTRY.items() if name != "b"}), 1, "entry"),
        (batch({name: value for name, value in ENTRY.items() if name != "r"}), 1, "entry"),
        (batch(ENTRY | {"r": "7"}), 1, "java.lang.IllegalArgumentException: getRetry fail, format is wrong"),
    ],
)
async def test_odd_batches_of_acknowledgements(
    stand: BrokerStand, request_: BatchAck, code: int, remark: str | None
) -> None:
    got, words = await ask(stand, request_)
    assert got == code
    assert words is None if remark is None else (words or "").startswith(remark)


async def test_only_the_newest_handle_keeps_a_message_away(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper
) -> None:
    await send(stand, 4)
    old = handles(await popper.pop())
    changed = {number: await popper.change(number, old[number], 3_000) for number in (1, 2, 3)}
    new = {number: f"{number} {changed[number].pop_time} 3000 0 0 broker-a 0 {number}" for number in changed}
    wrong = f"0 {changed[3].pop_time} 3000 0 0 broker-a 0 3"
    for number, handle in ((0, old[0]), (1, new[1]), (2, old[2]), (3, wrong)):
        assert (await popper.ack(number, handle)).code == 0
    await world.run_for(INVISIBLE_MS)
    assert sorted(await popper.bodies()) == [b"2", b"3"]


async def test_a_spent_handle_changes_nothing(world: SimulatedWorld, stand: BrokerStand, popper: Popper) -> None:
    """RocketMQ makes a second check-point of it, and the message comes twice."""
    await send(stand, 1)
    (old,) = handles(await popper.pop())
    for _ in range(3):
        assert (await popper.change(0, old, 2_000)).code == 0
    await world.run_for(5_000)
    assert await popper.bodies() == [b"0"]


@pytest.mark.parametrize("invisible_ms", [0, -1, 1, -(2**62), 2**62])
async def test_any_invisible_time_is_taken(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper, invisible_ms: int
) -> None:
    await send(stand, 1)
    answer = await popper.pop(invisible_ms=invisible_ms)
    assert (answer.code, answer.invisible_time) == (0, invisible_ms)
    await world.run_for(100)
    assert (await popper.pop()).code == (210 if invisible_ms == 2**62 else 0)


async def test_a_handle_of_the_retry_topic_is_none_of_the_topic(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper
) -> None:
    await send(stand, 2)
    await popper.pop(count=1, invisible_ms=1_000)
    await world.run_for(1_100)
    answer = await popper.pop(invisible_ms=1_000)
    (returned,) = [record for record in answer.body.records if text(record, "POP_CK")]
    assert (await popper.ack(0, text(returned, "POP_CK") or "", topic="orders")).code == 0
    await world.run_for(1_100)
    assert sorted(await popper.bodies()) == [b"0", b"1"]
