"""Receives that their clients give up while the broker holds them: they take no messages from the others."""

import asyncio
from typing import Any

import pytest

from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import refusal
from staticfire.protocol.requests.pop import PollingInfo
from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from staticfire.runtime.dispatcher import Handler
from tests.proxy.conftest import USUAL
from tests.proxy.grpc_stand import GROUP, TOPIC, GrpcStand, ready
from tests.proxy.test_receives import dead_letters

pytestmark = pytest.mark.row("G3", "G5")


async def give_up(stand: GrpcStand, count: int, **fields: Any) -> None:
    """Receive, and cancel the call while the broker holds the pop, some times."""
    for _ in range(count):
        receiving = asyncio.ensure_future(stand.receive(poll_s=20, **fields))
        await stand.world.run_for(seconds=0.5)
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)


async def held(stand: GrpcStand) -> int:
    """Return how many pops the broker holds."""
    answer = await stand.cluster.ask(stand.cluster.brokers["broker-a"], PollingInfo(GROUP, TOPIC, -1))
    count: int = answer.polling_num
    return count


async def test_the_next_message_goes_to_the_receive_that_waits_for_it(stand: GrpcStand) -> None:
    await ready(stand, queues=1)
    await give_up(stand, 3)
    receiving = stand.later(0, stand.receive(poll_s=20))
    await stand.world.run_for(seconds=1)
    assert await held(stand) == 1
    began_ms = stand.machine.clock.uptime_ms()
    await stand.send(body=b"paid")
    received = await receiving
    assert ([one.body for one in received.messages], received.attempts) == ([b"paid"], [1])
    assert stand.machine.clock.uptime_ms() - began_ms < 100


@pytest.mark.parametrize("stand", [USUAL | {"pop_dead_letters": True}], indirect=True)
@pytest.mark.parametrize("auto_renew", [False, True])
async def test_a_message_that_no_client_has_received_is_no_dead_letter(stand: GrpcStand, auto_renew: bool) -> None:
    await ready(stand, queues=1, retry_max_times=2)
    await stand.consumer(kind=pb.ClientType.PUSH_CONSUMER)
    await give_up(stand, 4, auto_renew=auto_renew)
    await stand.send(body=b"paid")
    await stand.world.run_for(seconds=6)
    received = await stand.receive(auto_renew=auto_renew)
    assert ([one.body for one in received.messages], received.attempts) == ([b"paid"], [1])
    assert await dead_letters(stand) == []


async def test_a_broker_that_cannot_cancel_loses_nothing(stand: GrpcStand) -> None:
    def unknown(_: Handler) -> Handler:
        return lambda _: refusal(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "")

    stand.cluster.services["broker-a"].dispatcher.precede(RequestCode.CANCEL_POP, unknown)  # As RocketMQ's do.
    await ready(stand, queues=1)
    await give_up(stand, 1)
    await stand.send(body=b"paid")
    received = await stand.receive(poll_s=20)
    assert ([one.body for one in received.messages], received.attempts) == ([b"paid"], [2])
