"""Acknowledgements of messages that are held for a push consumer: calls that are cancelled, refused, or unanswered.

The client has the first handle of its message, which expired long ago. So the endpoint must have the newest handle for
as long as the client may need it.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from tests.proxy.conftest import USUAL
from tests.proxy.grpc_stand import GROUP, GrpcStand, keep_alive, resource, working
from tests.proxy.test_receives import dead_letters
from tests.proxy.test_silent_servers import refused_at_times

pytestmark = pytest.mark.row("G3", "G5")


async def at_work(stand: GrpcStand) -> pb.Message:
    """Have a push consumer that has worked on a message for longer than its first handle is valid."""
    message = await working(stand)
    await keep_alive(stand, 2, "c1", "c2")
    return message


async def cancelled_after(stand: GrpcStand, after_s: float, call: Coroutine[Any, Any, Any]) -> None:
    """Call, and cancel the call before it has its response."""
    task = asyncio.ensure_future(call)
    await stand.world.run_for(seconds=after_s)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def is_redelivered(stand: GrpcStand) -> bool:
    """Return whether another consumer gets the message, at the latest when no renewal could hold it any more."""
    await stand.call("NotifyClientTermination", group=resource(GROUP))
    await keep_alive(stand, 5, "c2")
    return bool(await stand.bodies(client_id="c2", auto_renew=True))


def forward(stand: GrpcStand, message: pb.Message) -> Coroutine[Any, Any, Any]:
    system = message.system_properties
    return stand.call(
        "ForwardMessageToDeadLetterQueue", topic=message.topic, group=resource(GROUP), message_id=system.message_id,
        receipt_handle=system.receipt_handle,
    )  # fmt: skip


async def test_an_acknowledgement_that_its_client_cancels_is_completed(stand: GrpcStand) -> None:
    message = await at_work(stand)
    stand.world.freeze("broker-a")
    await cancelled_after(stand, 1, stand.ack(message))
    stand.world.thaw("broker-a")
    await stand.world.run_for(seconds=1)
    assert not await is_redelivered(stand)


async def test_a_retry_that_arrives_meanwhile_is_an_acknowledgement_too(stand: GrpcStand) -> None:
    message = await at_work(stand)
    stand.world.freeze("broker-a")
    await cancelled_after(stand, 0.5, stand.ack(message))
    retried = asyncio.ensure_future(stand.ack(message))
    await stand.world.run_for(seconds=0.5)
    stand.world.thaw("broker-a")
    assert (await retried).status.code == pb.Code.OK
    assert not await is_redelivered(stand)


async def test_a_message_whose_broker_stays_silent_is_held_until_the_client_retries(stand: GrpcStand) -> None:
    message = await at_work(stand)
    stand.world.freeze("broker-a")
    await cancelled_after(stand, 1, stand.ack(message))
    await stand.world.run_for(seconds=4)
    stand.world.thaw("broker-a")
    await keep_alive(stand, 8, "c1", "c2")
    assert await stand.bodies(client_id="c2", auto_renew=True) == []
    assert (await stand.ack(message)).status.code == pb.Code.OK
    assert not await is_redelivered(stand)


async def test_a_failure_whose_call_is_cancelled_is_the_brokers_all_the_same(stand: GrpcStand) -> None:
    message = await at_work(stand)
    stand.world.freeze("broker-a")
    await cancelled_after(stand, 1, stand.change(message, 1))
    stand.world.thaw("broker-a")
    await stand.world.run_for(seconds=2)
    assert (await stand.receive(client_id="c2", auto_renew=True)).attempts == [2]


async def test_a_forward_that_its_client_cancels_leaves_one_dead_letter(stand: GrpcStand) -> None:
    message = await at_work(stand)
    stand.world.freeze("broker-a")
    await cancelled_after(stand, 1, forward(stand, message))
    stand.world.thaw("broker-a")
    await stand.world.run_for(seconds=1)
    assert await dead_letters(stand) == [b"long"]
    assert not await is_redelivered(stand)


async def test_a_forward_that_is_repeated_before_the_first_has_ended_leaves_one_dead_letter(stand: GrpcStand) -> None:
    message = await at_work(stand)
    stand.world.freeze("broker-a")
    await cancelled_after(stand, 0.5, forward(stand, message))
    repeated = asyncio.ensure_future(forward(stand, message))
    await stand.world.run_for(seconds=0.5)
    stand.world.thaw("broker-a")
    assert (await repeated).status.code == pb.Code.OK
    assert await dead_letters(stand) == [b"long"]
    assert not await is_redelivered(stand)


async def test_a_forward_whose_acknowledgement_is_refused_leaves_one_dead_letter(stand: GrpcStand) -> None:
    is_refused = refused_at_times(stand, RequestCode.ACK_MESSAGE, ResponseCode.SYSTEM_BUSY)
    message = await at_work(stand)
    is_refused.set()
    for _ in range(2):
        assert (await forward(stand, message)).status.code == pb.Code.INTERNAL_SERVER_ERROR
    is_refused.clear()
    assert (await forward(stand, message)).status.code == pb.Code.OK
    assert await dead_letters(stand) == [b"long"]
    assert not await is_redelivered(stand)


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_BUSY, ResponseCode.SYSTEM_ERROR])
@pytest.mark.parametrize(
    ("what", "request_code"),
    [
        ("ack", RequestCode.ACK_MESSAGE),
        ("change", RequestCode.CHANGE_MESSAGE_INVISIBLETIME),
        ("forward", RequestCode.CONSUMER_SEND_MSG_BACK),
    ],
)
async def test_a_client_may_retry_what_a_broker_has_refused(
    stand: GrpcStand, what: str, request_code: RequestCode, code: ResponseCode
) -> None:
    def call() -> Coroutine[Any, Any, Any]:
        if what == "forward":
            return forward(stand, message)
        return stand.ack(message) if what == "ack" else stand.change(message, 1)

    is_refused = refused_at_times(stand, request_code, code)
    message = await at_work(stand)
    is_refused.set()
    assert (await call()).status.code not in (pb.Code.OK, pb.Code.INVALID_RECEIPT_HANDLE)
    is_refused.clear()
    assert (await call()).status.code == pb.Code.OK


@pytest.mark.parametrize("stand", [USUAL | {"brokers": 2}], indirect=True)
async def test_a_client_may_retry_when_its_broker_is_there_again(stand: GrpcStand) -> None:
    message = await at_work(stand)
    await stand.put_topic(broker="broker-b")
    stand.world.kill("broker-a")
    await keep_alive(stand, 0.5, "c1", "c2")
    refused = (await stand.ack(message)).status
    # Official clients don't retry after INVALID_RECEIPT_HANDLE.
    assert refused.code == pb.Code.INTERNAL_SERVER_ERROR
    assert refused.message == "broker broker-a has no master in the routes"
    await stand.cluster.start_broker("broker-a")
    await keep_alive(stand, 0.5, "c1", "c2")
    assert (await stand.ack(message)).status.code == pb.Code.OK
    assert not await is_redelivered(stand)


async def test_a_goodbye_doesnt_return_a_message_that_is_being_acknowledged(stand: GrpcStand) -> None:
    message = await at_work(stand)
    stand.world.freeze("nameserver")  # The acknowledgement waits for message time.
    acknowledged = asyncio.ensure_future(stand.ack(message))
    await stand.world.run_for(seconds=0.5)
    assert not acknowledged.done()
    await stand.call("NotifyClientTermination", group=resource(GROUP))
    stand.world.thaw("nameserver")
    assert (await acknowledged).status.code == pb.Code.OK
    await keep_alive(stand, 5, "c2")
    assert await stand.bodies(client_id="c2", auto_renew=True) == []
