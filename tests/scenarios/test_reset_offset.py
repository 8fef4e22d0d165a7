"""Groups moved by administrators: to a time, to an offset, to where another group is."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from staticfire.broker.groups.pending_resets import ANSWERS_MAX
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer
from staticfire.protocol.requests.clients import ConsumerData, Heartbeat, HeartbeatData, SubscriptionData
from staticfire.protocol.requests.locks import MessageQueue
from staticfire.protocol.requests.offsets import QueryConsumerOffset, UpdateConsumerOffset
from staticfire.protocol.requests.pull import FLAG_COMMIT_OFFSET, FLAG_SUBSCRIPTION, FLAG_SUSPEND, PullMessage
from staticfire.protocol.requests.reset_offset import (
    CloneGroupOffset,
    ConsumerStatus,
    ConsumerStatusAnswer,
    GetConsumerStatus,
    QueryCorrectionOffset,
    ResetOffset,
)
from staticfire.runtime.dispatcher import Call, Dispatcher
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world.world import SimulatedWorld
from tests.scenarios.broker_stand import ADDRESS, BrokerStand

pytestmark = pytest.mark.row("C11")


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[BrokerStand]:
    stand = BrokerStand(world)
    await stand.start()
    await stand.put_topic("orders", 2)
    await stand.put_group("billing")
    for number in range(5):
        await stand.send("orders", b"%d" % number)
    yield stand
    await stand.close()


def queue(queue_id: int) -> MessageQueue:
    return MessageQueue("orders", "broker-a", queue_id)


async def reset(stand: BrokerStand, timestamp: int = -1, queue_id: int = -1, offset: int = -1) -> Answer:
    answer: Answer = await stand.ask(ResetOffset("billing", "orders", timestamp, True, queue_id, offset))
    return answer


async def pull(stand: BrokerStand, offset: int, group: str = "billing", hold_ms: int = 0) -> Answer:
    flags = FLAG_SUBSCRIPTION | FLAG_SUSPEND
    answer: Answer = await stand.ask(PullMessage(group, "orders", 0, offset, 32, flags, 0, hold_ms, "*"))
    return answer


async def commit(stand: BrokerStand, offset: int, group: str = "billing") -> Answer:
    answer: Answer = await stand.ask(UpdateConsumerOffset(group, "orders", 0, offset))
    return answer


async def committed(stand: BrokerStand, group: str = "billing") -> int:
    offset: int = (await stand.ask(QueryConsumerOffset(group, "orders", 0))).offset
    return offset


async def test_a_reset_is_over_when_its_client_continues_there_and_commits_until_then_are_ignored(
    stand: BrokerStand,
) -> None:
    await commit(stand, 5)
    answer = await reset(stand, timestamp=0)
    assert answer.body.offset_table == {queue(0): 0, queue(1): 0}
    assert (await commit(stand, 4)).remark == "Offset has been previously reset"
    assert await committed(stand) == 0
    moved = await pull(stand, 5)
    assert (moved.code, moved.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
    assert moved.next_begin_offset == 0  # type: ignore[attr-defined]
    assert (await commit(stand, 4)).remark == "Offset has been previously reset"
    assert (await pull(stand, 0)).code == 0
    assert (await commit(stand, 4)).remark is None
    assert await committed(stand) == 4


async def test_as_in_rocketmq_any_pull_takes_a_reset_and_what_rides_along_counts(stand: BrokerStand) -> None:
    await stand.restart(any_pull_takes_resets=True)
    await commit(stand, 5)
    await reset(stand, timestamp=0)
    assert (await pull(stand, 5)).remark == "OFFSET_RESET"
    assert (await commit(stand, 4)).remark is None
    await reset(stand, timestamp=0)
    await stand.ask(PullMessage("billing", "orders", 0, 5, 32, FLAG_SUBSCRIPTION | FLAG_COMMIT_OFFSET, 5, 0, "*"))
    assert await committed(stand) == 5


async def test_an_offset_that_rides_along_with_a_pull_is_ignored_while_a_reset_waits(stand: BrokerStand) -> None:
    await reset(stand, timestamp=0)
    flags = FLAG_SUBSCRIPTION | FLAG_COMMIT_OFFSET
    moved = await stand.ask(PullMessage("billing", "orders", 0, 5, 32, flags, 5, 0, "*"))
    assert moved.remark == "OFFSET_RESET"
    assert await committed(stand) == 0


async def test_a_client_that_ignores_a_reset_gets_its_messages_again(stand: BrokerStand) -> None:
    await reset(stand, timestamp=0)
    codes = [(await pull(stand, 3)).code for _ in range(ANSWERS_MAX + 1)]
    assert codes == [ResponseCode.PULL_OFFSET_MOVED] * ANSWERS_MAX + [0]
    assert (await commit(stand, 5)).remark is None


async def test_a_reset_waits_on_after_its_broker_was_killed(world: SimulatedWorld, stand: BrokerStand) -> None:
    await reset(stand, timestamp=0)
    assert (await pull(stand, 5)).remark == "OFFSET_RESET"
    await stand.kill_and_start()
    assert (await pull(stand, 5)).remark == "OFFSET_RESET"
    assert (await pull(stand, 0)).code == 0


async def test_a_reset_that_has_ended_stays_over_after_a_kill(world: SimulatedWorld, stand: BrokerStand) -> None:
    await reset(stand, timestamp=0)
    await world.run_for(seconds=6)
    assert ((await pull(stand, 5)).remark, (await pull(stand, 0)).code) == ("OFFSET_RESET", 0)
    await world.run_for(seconds=6)
    await stand.kill_and_start()
    assert (await pull(stand, 2)).code == 0


async def test_a_held_pull_is_answered_at_once_and_those_of_others_wait_on(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    held = asyncio.ensure_future(pull(stand, 5, hold_ms=15_000))
    other = asyncio.ensure_future(pull(stand, 5, group="audit", hold_ms=15_000))
    await world.run_for(seconds=1)
    await reset(stand, queue_id=0, offset=2)
    await world.run_for(seconds=1)
    assert held.done()
    assert held.result().next_begin_offset == 2  # type: ignore[attr-defined]
    assert not other.done()
    assert (await other).code == ResponseCode.PULL_NOT_FOUND


async def test_the_whole_backlog_is_skipped(stand: BrokerStand) -> None:
    assert (await reset(stand)).body.offset_table == {queue(0): 5, queue(1): 0}
    assert await committed(stand) == 5


async def test_a_time_within_the_queue(world: SimulatedWorld, stand: BrokerStand) -> None:
    await world.run_for(seconds=10)
    middle_ms = stand.message_ms
    await stand.send("orders", b"late")
    assert (await reset(stand, timestamp=middle_ms)).body.offset_table == {queue(0): 5, queue(1): 0}


async def test_an_offset_has_to_lie_in_its_queue(stand: BrokerStand) -> None:
    assert (await reset(stand, queue_id=0, offset=6)).code == 0
    answer = await reset(stand, queue_id=0, offset=7)
    assert (answer.code, answer.remark) == (1, "Target offset 7 not in consume queue range [0-5]")
    answer = await reset(stand, queue_id=9, offset=0)
    assert (answer.code, answer.remark) == (1, "Target offset 0 not in consume queue range [0-0]")


async def test_pulls_that_were_held_before_a_reset_are_answered_with_it_and_do_not_end_it(stand: BrokerStand) -> None:
    """However many there are: each is from before, so none shows that its client has taken the reset, or ignores it."""
    held = [asyncio.ensure_future(pull(stand, 5, hold_ms=15_000)) for _ in range(ANSWERS_MAX + 2)]
    other = asyncio.ensure_future(pull(stand, 5, "audit", hold_ms=15_000))
    await stand.world.run_for(ms=10)
    assert (await reset(stand, queue_id=0, offset=2)).code == 0
    answers: list[Any] = await asyncio.gather(*held)
    assert [answer.next_begin_offset for answer in answers] == [2] * len(held)
    assert not other.done()
    await stand.send("orders", b"5")
    assert (await other).code == 0


async def test_what_isnt_there_cant_be_reset(stand: BrokerStand) -> None:
    answer = await stand.ask(ResetOffset("billing", "nothing", -1))
    assert (answer.code, answer.remark) == (ResponseCode.TOPIC_NOT_EXIST, "Topic nothing does not exist")
    answer = await stand.ask(ResetOffset("nobody", "orders", -1))
    assert (answer.code, answer.remark) == (
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        "Group nobody does not exist",
    )


async def test_a_group_stands_where_another_does(stand: BrokerStand) -> None:
    await stand.put_group("audit")
    await commit(stand, 3)
    await stand.ask(CloneGroupOffset("billing", "audit", "orders"))
    assert await committed(stand, "audit") == 3
    await commit(stand, 4)
    await stand.ask(CloneGroupOffset("billing", "audit"))
    assert await committed(stand, "audit") == 4


async def test_the_smallest_offset_of_all_groups(stand: BrokerStand) -> None:
    await stand.put_group("audit")
    await commit(stand, 3)
    await commit(stand, 5, "audit")
    assert (await stand.ask(QueryCorrectionOffset("audit", "orders"))).body.correction_offsets == {0: 3}
    answer = await stand.ask(QueryCorrectionOffset("billing", "orders", "billing"))
    assert answer.body.correction_offsets == {0: (1 << 63) - 1}


class Member:
    """A client of the group billing."""

    def __init__(self, world: SimulatedWorld, codec_byte: int) -> None:
        self.reported: list[dict[MessageQueue, int]] = []
        dispatcher = Dispatcher()
        dispatcher.handle(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, lambda call: None)
        dispatcher.handle(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, self._reported)
        dispatcher.handle(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, self._status)
        self._pool = ConnectionPool(world.machine("consumer", "10.0.0.20"), dispatcher, codec_byte=codec_byte)

    def _reported(self, call: Call) -> None:
        self.reported.append(call.request.body.offset_table)

    def _status(self, call: Call) -> Answer:
        return ConsumerStatusAnswer(body=ConsumerStatus({queue(0): 4}))

    async def start(self) -> None:
        consumer = ConsumerData("billing", "CONSUME_PASSIVELY", "CLUSTERING", None, [SubscriptionData("orders")])
        assert (await self._pool.ask(ADDRESS, Heartbeat(body=HeartbeatData("c1", [], [consumer])), 3_000)).code == 0

    async def stop(self) -> None:
        await self._pool.close()


@pytest.mark.parametrize("codec_byte", [0, 2])
async def test_without_server_side_resets_members_are_notified(
    world: SimulatedWorld, stand: BrokerStand, codec_byte: int
) -> None:
    await stand.restart(use_server_side_reset_offset=False)
    assert (await reset(stand, timestamp=0)).remark == "THe consumer group <billing> not exist"
    for queue_id in (0, 1):
        await stand.ask(UpdateConsumerOffset("billing", "orders", queue_id, 2 if queue_id == 0 else 0))
    assert (await reset(stand, timestamp=0)).code == ResponseCode.CONSUMER_NOT_ONLINE
    member = Member(world, codec_byte)
    await member.start()
    assert (await reset(stand, timestamp=0)).code == 0
    await world.run_for(seconds=1)
    assert member.reported == [{queue(0): 0, queue(1): 0}]
    await member.stop()


async def test_without_server_side_resets_members_move_only_the_requested_queue(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    await stand.restart(use_server_side_reset_offset=False)
    for queue_id in (0, 1):
        await stand.ask(UpdateConsumerOffset("billing", "orders", queue_id, 1 - queue_id))
    member = Member(world, 0)
    await member.start()
    assert (await reset(stand, timestamp=-1, queue_id=0, offset=3)).body.offset_table == {queue(0): 3}
    assert (await reset(stand, timestamp=-1, queue_id=0)).body.offset_table == {queue(0): 5}
    assert (await reset(stand, timestamp=-1, queue_id=2)).code == 1
    assert (await reset(stand, timestamp=-1, queue_id=0, offset=7)).code == 1
    await world.run_for(seconds=1)
    assert member.reported == [{queue(0): 3}, {queue(0): 5}]
    await member.stop()


@pytest.mark.parametrize("codec_byte", [0, 2])
async def test_members_tell_where_they_stand(world: SimulatedWorld, stand: BrokerStand, codec_byte: int) -> None:
    assert (await stand.ask(GetConsumerStatus("orders", "billing"))).code == 1
    member = Member(world, codec_byte)
    await member.start()
    answer = await stand.ask(GetConsumerStatus("orders", "billing"))
    assert answer.body.consumer_table == {"c1": {queue(0): 4}}
    assert (await stand.ask(GetConsumerStatus("orders", "billing", "c2"))).body.consumer_table == {}
    await member.stop()
