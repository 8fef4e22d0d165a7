"""Questions of administrators to consumers behind the endpoint, by way of brokers and Telemetry."""

import asyncio
from typing import Any

import pytest
import pytest_asyncio

from staticfire.protocol.message_ids import offset_id, offset_id_prefix
from staticfire.protocol.requests.connections import ConsumeDirectly, GetConsumerRunningInfo
from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from tests.proxy.grpc_stand import GROUP, TOPIC, GrpcStand

pytestmark = pytest.mark.row("G3")
STACKS = "main\n  at Orders.pay(Orders.java:7)"


@pytest_asyncio.fixture(autouse=True)
async def topic(stand: GrpcStand) -> None:
    await stand.put_topic()


async def ask_broker(stand: GrpcStand, request: Any) -> Any:
    return await stand.cluster.ask(stand.cluster.brokers["broker-a"], request, 12_000)


async def test_a_client_is_queried_for_its_stacks(stand: GrpcStand) -> None:
    stream = await stand.consumer()
    await stand.world.run_for(seconds=1)
    plain = await ask_broker(stand, GetConsumerRunningInfo(GROUP, "c1"))
    assert plain.code == 0, plain.remark
    assert [each.topic for each in plain.body.subscription_set] == [TOPIC]
    assert plain.body.jstack is None
    requested = asyncio.create_task(ask_broker(stand, GetConsumerRunningInfo(GROUP, "c1", True)))
    nonce = (await stream.heard()).print_thread_stack_trace_command.nonce
    stream.say(thread_stack_trace=pb.ThreadStackTrace(nonce="another", thread_stack_trace="no"))
    stream.say(thread_stack_trace=pb.ThreadStackTrace(nonce=nonce, thread_stack_trace=STACKS))
    assert (await requested).body.jstack == STACKS


@pytest.mark.parametrize(
    ("code", "result"),
    [
        (pb.Code.OK, "CR_SUCCESS"),
        (pb.Code.FAILED_TO_CONSUME_MESSAGE, "CR_LATER"),
        (pb.Code.MESSAGE_CORRUPTED, "CR_RETURN_NULL"),
    ],
)
async def test_a_client_consumes_a_message_that_it_is_given(stand: GrpcStand, code: Any, result: str) -> None:
    await stand.send(body=b"just for you")
    stream = await stand.consumer()
    await stand.world.run_for(seconds=1)
    message_id = offset_id(offset_id_prefix(bytes(8)), 0)
    request = ConsumeDirectly(GROUP, "c1", message_id, "broker-a", TOPIC)
    requested = asyncio.create_task(ask_broker(stand, request))
    command = (await stream.heard()).verify_message_command
    assert (command.message.body, command.message.topic.name) == (b"just for you", TOPIC)
    status = pb.Status(code=code, message="so it went")
    stream.say(status=status, verify_message_result=pb.VerifyMessageResult(nonce=command.nonce))
    answer = (await requested).body
    assert (answer.consume_result, answer.remark) == (result, "so it went")


async def test_a_client_that_says_nothing_is_busy(stand: GrpcStand) -> None:
    await stand.consumer()
    await stand.world.run_for(seconds=1)
    requested = stand.later(0, ask_broker(stand, GetConsumerRunningInfo(GROUP, "c1", True)))
    await stand.world.run_for(seconds=6)
    answer = await requested
    assert (answer.code, "call remote timeout" in answer.remark) == (2, True)


@pytest.mark.parametrize(("group", "client_id"), [(GROUP, "c2"), ("others", "c1"), (GROUP, "")])
async def test_no_check_goes_to_a_client_that_is_gone(stand: GrpcStand, group: str, client_id: str) -> None:
    await stand.consumer()
    await stand.world.run_for(seconds=1)
    answer = await ask_broker(stand, GetConsumerRunningInfo(group, client_id, True))
    assert (answer.code, answer.remark) == (1, f"The Consumer <{group}> <{client_id}> not online")
