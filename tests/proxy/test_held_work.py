"""Messages that nobody else gets: those of a queue in order, and those that a push consumer works on."""

from itertools import cycle

import pytest

from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import refusal
from staticfire.protocol.requests.group_state import GetGroupState
from staticfire.protocol.requests.groups import CustomizedRetryPolicy, GroupRetryPolicy
from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from staticfire.proxy.services import receipt_work
from staticfire.proxy.services.held_messages import WORK_MS_MAX
from staticfire.proxy.services.service import STOP_MS_MAX
from staticfire.runtime.dispatcher import Handler
from tests.proxy.grpc_stand import GROUP, TOPIC, GrpcStand, keep_alive, ready, resource, working
from tests.scenarios.logged import LogLine

pytestmark = pytest.mark.row("G3", "G5")

# -- order -----------------------------------------------------------------------------------------------------------


async def in_order(stand: GrpcStand, count: int) -> None:
    await stand.put_topic(TOPIC, "FIFO", 1)
    await stand.put_group(consume_message_orderly=True)
    await stand.consumer()
    for number in range(count):
        await stand.send(body=b"%d" % number, message_group="g")


async def test_a_queue_in_order_waits_until_all_is_acknowledged(stand: GrpcStand) -> None:
    await in_order(stand, 6)
    received = await stand.receive()
    assert [message.body for message in received.messages] == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert received.messages[0].system_properties.message_group == "g"
    await stand.send(body=b"6", message_group="g")
    assert await stand.bodies() == []
    for message in received.messages:
        assert (await stand.ack(message)).status.code == pb.Code.OK
    assert await stand.bodies() == [b"6"]


async def test_a_repeated_attempt_gets_the_same_messages(stand: GrpcStand) -> None:
    await in_order(stand, 1)
    assert await stand.bodies(attempt_id="one") == [b"0"]
    again = await stand.receive(attempt_id="one")
    assert (again.messages[0].body, again.attempts) == (b"0", [1])
    assert await stand.bodies(attempt_id="two") == []


async def test_a_failure_holds_up_what_is_behind_it(stand: GrpcStand) -> None:
    await in_order(stand, 1)
    received = await stand.receive()
    await stand.send(body=b"1", message_group="g")
    await stand.change(received.messages[0], 1)
    await stand.world.run_for(seconds=1.2)
    again = await stand.receive(batch_size=1)
    assert ([message.body for message in again.messages], again.attempts) == ([b"0"], [2])
    await stand.ack(again.messages[0])
    assert await stand.bodies() == [b"1"]


# -- messages that are held while a client works ---------------------------------------------------------------------


async def failed(stand: GrpcStand) -> list[bool]:
    """Return of each message in flight whether its client has failed with it."""
    answer = await stand.cluster.ask(stand.cluster.brokers["broker-a"], GetGroupState(GROUP))
    return [one.failed for one in answer.body.popped]


async def test_what_a_push_consumer_puts_off_has_failed_and_what_is_renewed_for_it_has_not(stand: GrpcStand) -> None:
    message = await working(stand)
    await keep_alive(stand, 3, "c1", "c2")
    assert await failed(stand) == [False]
    await stand.change(message, 10)
    assert await failed(stand) == [True]


async def test_what_a_simple_consumer_puts_off_is_still_its_own(stand: GrpcStand) -> None:
    await ready(stand, b"long")
    await stand.consumer()
    [message] = (await stand.receive()).messages
    await stand.change(message, 10)
    assert await failed(stand) == [False]


async def test_no_other_client_gets_a_message_that_one_works_on(stand: GrpcStand) -> None:
    message = await working(stand)
    await keep_alive(stand, 10, "c1", "c2")
    assert await stand.bodies(client_id="c2", auto_renew=True) == []
    assert (await stand.ack(message)).status.code == pb.Code.OK  # The handle of ten minutes ago.
    await keep_alive(stand, 30, "c2")
    assert await stand.bodies(client_id="c2", auto_renew=True) == []


async def test_messages_of_two_topics_at_the_same_queue_and_offset_are_both_held(stand: GrpcStand) -> None:
    topics = ("orders", "refunds")
    for topic in topics:
        await stand.put_topic(topic, queues=1)
    for client_id in ("c1", "c2"):
        await stand.consumer(client_id, kind=pb.ClientType.PUSH_CONSUMER)
    for topic in topics:
        await stand.send(topic, message_id=f"m-{topic}")
    messages = [message for topic in topics for message in (await stand.receive(topic, auto_renew=True)).messages]
    await keep_alive(stand, 2, "c1", "c2")
    assert [await stand.bodies(topic, client_id="c2", auto_renew=True) for topic in topics] == [[], []]
    assert [(await stand.ack(message)).status.code for message in messages] == [pb.Code.OK, pb.Code.OK]


async def test_a_client_may_fail_after_long_work(stand: GrpcStand) -> None:
    message = await working(stand)
    await keep_alive(stand, 5, "c1", "c2")
    assert (await stand.change(message, 1)).status.code == pb.Code.OK
    assert (await stand.receive(client_id="c2", auto_renew=True)).attempts == [2]


@pytest.mark.parametrize("how", ["goodbye", "silence", "freeze"])
async def test_the_work_of_a_client_that_has_gone_is_anothers(stand: GrpcStand, how: str) -> None:
    await working(stand)
    if how == "goodbye":
        await stand.call("NotifyClientTermination", group=resource(GROUP))
    elif how == "silence":
        await keep_alive(stand, 2.5, "c2")
    else:
        await stand.stop_proxy()  # Nobody renews, nobody says goodbye.
        await stand.start_proxy()
        await stand.consumer("c2")
        await stand.world.run_for(seconds=60)
    assert (await stand.receive(client_id="c2", auto_renew=True)).attempts == [2]


async def restart_proxy(stand: GrpcStand) -> None:
    """Restart the endpoint; its clients send their settings again."""
    await stand.stop_proxy()
    await stand.start_proxy()
    for client_id in ("c1", "c2"):
        await stand.consumer(client_id, kind=pb.ClientType.PUSH_CONSUMER)


async def test_a_stop_of_the_endpoint_returns_what_it_has_renewed(stand: GrpcStand) -> None:
    message = await working(stand)
    await keep_alive(stand, 22, "c1", "c2")
    await restart_proxy(stand)
    assert (await stand.ack(message)).status.code == 40013  # No endpoint has the newest handle.
    assert (await stand.receive(client_id="c2", auto_renew=True)).attempts == [2]


async def test_a_stop_of_the_endpoint_leaves_short_work_to_its_client(stand: GrpcStand) -> None:
    message = await working(stand)
    await restart_proxy(stand)
    assert await stand.bodies(client_id="c2", auto_renew=True) == []
    assert (await stand.ack(message)).status.code == pb.Code.OK


async def test_a_stop_waits_for_silent_brokers_for_a_second_at_most(stand: GrpcStand) -> None:
    await working(stand)
    await keep_alive(stand, 3, "c1", "c2")
    stand.world.freeze("broker-a")
    began_ms = stand.machine.clock.uptime_ms()
    await stand.service.__aexit__()
    assert stand.machine.clock.uptime_ms() - began_ms <= STOP_MS_MAX
    stand.world.thaw("broker-a")


async def test_work_without_end_ends_after_three_hours(stand: GrpcStand, monkeypatch: pytest.MonkeyPatch) -> None:
    assert WORK_MS_MAX == 3 * 3_600_000
    monkeypatch.setattr(receipt_work, "WORK_MS_MAX", 1_800_000)
    await working(stand)
    await keep_alive(stand, 35, "c1", "c2", every_s=100)
    await keep_alive(stand, 65, "c1", "c2", every_s=100)
    assert (await stand.receive(client_id="c2", auto_renew=True)).attempts == [2]


async def test_renewals_that_fail_now_and_then_change_nothing(stand: GrpcStand) -> None:
    """Three in a row end the work; one of two doesn't, however long it takes."""
    is_refused = cycle([True, False])

    def every_other(handler: Handler) -> Handler:
        return lambda call: refusal(ResponseCode.SYSTEM_ERROR, "") if next(is_refused) else handler(call)

    message = await working(stand)
    stand.cluster.services["broker-a"].dispatcher.precede(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, every_other)
    await keep_alive(stand, 15, "c1", "c2")
    assert await stand.bodies(client_id="c2", auto_renew=True) == []
    assert (await stand.ack(message)).status.code == pb.Code.OK


async def test_work_that_is_given_up_is_tried_again_after_the_delay_of_its_group(
    stand: GrpcStand, logged: list[LogLine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipt_work, "WORK_MS_MAX", 600_000)
    await stand.put_topic()
    table = CustomizedRetryPolicy((1_000, 2_000, 300_000))
    await stand.put_group(group_retry_policy=GroupRetryPolicy("CUSTOMIZED", customized_retry_policy=table))
    await working(stand)
    while not any(line.event == "receipt_given_up" for line in logged):
        await keep_alive(stand, 1, "c1", "c2", every_s=60)
    await keep_alive(stand, 3.5, "c2")
    assert await stand.bodies(client_id="c2", auto_renew=True) == []
    await keep_alive(stand, 1.5, "c2")
    assert (await stand.receive(client_id="c2", auto_renew=True)).attempts == [2]


async def test_a_brokers_unknown_code_without_a_remark_is_passed_on(stand: GrpcStand) -> None:
    await stand.put_topic()
    await stand.consumer()
    await stand.send()
    (message,) = (await stand.receive()).messages
    dispatcher = stand.cluster.services["broker-a"].dispatcher
    dispatcher.precede(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, lambda _: lambda _: refusal(4_321, ""))
    status = (await stand.change(message, 10)).status
    assert (status.code, status.message) == (50001, "unknown response code 4321")
