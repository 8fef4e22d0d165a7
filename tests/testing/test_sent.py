"""A cluster of Apache RocketMQ puts messages into their queues after it has answered their sends."""

from collections.abc import Iterator

import pytest

import staticfire.client
from staticfire import ClientSettings, Cluster, Message, MessageQueue, PullConsumer
from staticfire.client.cluster.pull_answers import PullResult
from staticfire.runtime.loop_thread import LoopThread
from staticfire.testing import sent
from staticfire.testing.running_rocketmq import RunningRocketMQ
from staticfire.testing.waits import NotYet


class LateQueues(PullConsumer):
    """Reads queues as if the last message of each weren't in it yet, until their ends were queried a few times."""

    looks_left = 0

    async def max_offset(self, queue: MessageQueue) -> int:
        is_late = LateQueues.looks_left > 0
        LateQueues.looks_left -= 1
        return await super().max_offset(queue) - is_late

    async def pull(self, queue: MessageQueue, queue_offset: int, *arguments: object, **named: object) -> PullResult:
        result = await super().pull(queue, queue_offset, *arguments, **named)  # type: ignore[arg-type]
        if LateQueues.looks_left > 0:
            result.messages = result.messages[:-1]
        return result


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[LoopThread, RunningRocketMQ]]:
    monkeypatch.setattr(staticfire.client, "PullConsumer", LateQueues)
    with Cluster() as cluster:
        thread = LoopThread("the late cluster")
        running = RunningRocketMQ(cluster.namesrv, ClientSettings(protocol="rocketmq"), "-1", ())
        thread.call(running.create_topic("orders", 1))
        yield thread, running
        thread.call(running.close())
        thread.close()


def test_what_a_test_has_sent_is_there_when_it_reads(late: tuple[LoopThread, RunningRocketMQ]) -> None:
    thread, running = late
    thread.call(running.send("orders-1", "1", b"2", Message("orders-1", b"3")))
    LateQueues.looks_left = 3
    assert [one.body for one in thread.call(running.messages("orders-1"))] == [b"1", b"2", b"3"]


def test_group_has_not_consumed_what_is_not_in_its_queue_yet(late: tuple[LoopThread, RunningRocketMQ]) -> None:
    thread, running = late
    thread.call(running.send("orders-1", "1"))
    LateQueues.looks_left = 3
    with pytest.raises(NotYet, match="billing has not consumed orders-1"):
        thread.call(running.wait_consumed("orders-1", "billing", timeout_s=0))


def test_message_that_never_gets_into_its_queue_is_an_error(
    late: tuple[LoopThread, RunningRocketMQ], monkeypatch: pytest.MonkeyPatch
) -> None:
    thread, running = late
    monkeypatch.setattr(sent, "IN_QUEUE_S_MAX", 0.01)
    thread.call(running.send("orders-1", "1"))
    LateQueues.looks_left = 1_000
    with pytest.raises(NotYet, match="broker-a/0 ends at 0, and the last message sent is at 0"):
        thread.call(running.messages("orders-1"))


def test_delayed_message_is_not_waited_for(late: tuple[LoopThread, RunningRocketMQ]) -> None:
    thread, running = late
    delays = {"delay_level": 3}, {"delay_ms": 60_000}, {"deliver_ms": running.clock.wall_ms() + 60_000}
    thread.call(running.send("orders-1", *(Message("orders-1", b"later", **one) for one in delays)))  # type: ignore[arg-type]
    LateQueues.looks_left = 0
    assert thread.call(running.messages("orders-1")) == []
