"""Advances of message time while push consumers of gRPC work on messages: time waits for them."""

import asyncio
from typing import Any

import pytest

from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from tests.proxy.grpc_stand import TOPIC, GrpcStand, keep_alive, moment, ready, working

pytestmark = pytest.mark.row("G3", "G5")

HOUR_MS = 3_600_000


class PushConsumer:
    """Consumes each message for some time; the first tries of each fail if requested."""

    def __init__(self, stand: GrpcStand, works_s: float, failures: int = 0) -> None:
        self._stand = stand
        self._works_s = works_s
        self._failures = failures
        self.consumed: list[tuple[bytes, int, int]] = []
        """Body, attempt, and the code of the acknowledgement."""
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        stand = self._stand
        while True:
            for message in (await stand.receive(auto_renew=True, poll_s=20)).messages:
                await stand.world.run_for(seconds=self._works_s)
                attempt = message.system_properties.delivery_attempt
                if attempt <= self._failures:
                    await stand.change(message, 10)
                    continue
                self.consumed.append((message.body, attempt, (await stand.ack(message)).status.code))


async def advance(stand: GrpcStand, by_ms: int = HOUR_MS, **fields: Any) -> Any:
    return await stand.cluster.clock("advance", by_ms=by_ms, **fields)


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("failures", [0, 2])
async def test_an_advance_waits_until_each_due_message_is_consumed(
    stand: GrpcStand, in_order: bool, failures: int
) -> None:
    await ready(stand, kind="DELAY", queues=1, consume_message_orderly=in_order)
    await stand.consumer(kind=pb.ClientType.PUSH_CONSUMER)
    consumer = PushConsumer(stand, works_s=0.05, failures=failures)
    await stand.world.run_for(seconds=1)
    now_ms = stand.machine.clock.wall_ms()
    for delay_s in (10, 20):
        await stand.send(message_id=f"id-{delay_s}", delivery_timestamp=moment(now_ms + delay_s * 1_000))
    answer = await advance(stand)
    assert (answer.code, answer.delivered) == (0, 2)
    await stand.world.run_for(seconds=1)
    assert consumer.consumed == [(b"x", failures + 1, pb.Code.OK)] * 2
    consumer.task.cancel()


async def test_an_advance_names_the_queue_of_long_work(stand: GrpcStand) -> None:
    message = await working(stand)
    await keep_alive(stand, 3, "c1", "c2")  # It was renewed meanwhile.
    answer = await advance(stand, settle_ms_max=5_000)
    assert TOPIC in answer.remark
    assert (await stand.ack(message)).status.code == pb.Code.OK
    assert (await advance(stand)).code == 0


async def test_an_advance_does_not_wait_for_a_client_that_has_gone(stand: GrpcStand) -> None:
    await working(stand)
    await stand.stop_proxy()
    await stand.start_proxy()
    answer = await advance(stand)
    assert (answer.code, answer.expired) == (0, 1)
