"""Messages from brokers to gRPC clients, and what becomes of them: received, acknowledged, held, given up."""

from hashlib import md5
from typing import Any

import pytest

from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, PullMessage
from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from staticfire.proxy.services.received_messages import SHARE_BYTES
from tests.proxy.grpc_stand import GROUP, TOPIC, GrpcStand, moment, ready, resource, sent

pytestmark = pytest.mark.row("G3")

SQL = pb.FilterType.SQL


def tags(expression: str, kind: int = pb.FilterType.TAG) -> pb.FilterExpression:
    return pb.FilterExpression(type=kind, expression=expression)  # type: ignore[arg-type]


async def dead_letters(stand: GrpcStand) -> list[bytes]:
    pull = PullMessage("readers", f"%DLQ%{GROUP}", 0, 0, 32, FLAG_SUBSCRIPTION, 0, 0, "*")
    answer = await stand.cluster.ask(stand.cluster.brokers["broker-a"], pull)
    return [] if answer.code else [record.body for record in answer.body.records]


# -- what a receive brings -------------------------------------------------------------------------------------------


async def test_a_message_arrives_with_all_that_clients_look_at(stand: GrpcStand) -> None:
    await ready(stand)
    born = moment(stand.machine.clock.wall_ms())
    answer = await stand.send(
        body=b"paid", user={"color": "red"}, tag="A", keys=["k1", "k2"], message_id="X", born_timestamp=born,
        born_host="me", trace_context="00-1", body_digest=pb.Digest(type=pb.DigestType.CRC32, checksum="WRONG"),
    )  # fmt: skip
    received = await stand.receive()
    assert (received.status.code, received.status.message) == (pb.Code.OK, "OK")
    [message] = received.messages
    system = message.system_properties
    assert (message.topic.name, message.body) == (TOPIC, b"paid")
    assert dict(message.user_properties) == {"color": "red", "TRACE_CONTEXT": "00-1"}
    assert (system.tag, list(system.keys), system.message_id) == ("A", ["k1", "k2"], "X")
    assert (system.body_digest.type, system.body_digest.checksum) == (
        pb.DigestType.MD5,
        md5(b"paid").hexdigest().upper(),
    )
    assert (system.body_encoding, system.message_type) == (pb.Encoding.IDENTITY, pb.MessageType.NORMAL)
    assert (system.born_timestamp, system.born_host, system.store_host) == (born, "me", "10.0.0.2:10911")
    assert (system.queue_offset, system.delivery_attempt, system.trace_context) == (answer.entries[0].offset, 1, "00-1")
    assert not system.HasField("invisible_duration")
    assert not system.HasField("message_group")
    handle = system.receipt_handle.split(" ")
    assert len(handle) == 9
    assert handle[5:8] == ["broker-a", str(system.queue_id), str(system.queue_offset)]


async def test_an_empty_receive_ends_with_its_poll(stand: GrpcStand) -> None:
    await ready(stand)
    began_ms = stand.machine.clock.uptime_ms()
    received = await stand.receive(poll_s=1)  # less than 5 s is 5 s
    assert (received.status.code, received.status.message) == (40401, "no new message")
    assert 4_900 <= stand.machine.clock.uptime_ms() - began_ms <= 5_200


async def test_a_held_receive_is_answered_as_soon_as_a_message_comes(stand: GrpcStand) -> None:
    await ready(stand)
    began_ms = stand.machine.clock.uptime_ms()
    stand.later(2, stand.send(body=b"new"))
    assert await stand.bodies(poll_s=15) == [b"new"]
    assert stand.machine.clock.uptime_ms() - began_ms < 2_100


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"client_id": "unknown"}, 50001),
        ({"client_id": ""}, 40017),
        ({"timeout_ms": 4_000}, 40018),
        ({"timeout_ms": None}, 50001),
        ({"topic": ""}, 40002),
        ({"group": resource("")}, 40003),
        ({"invisible_s": 9}, 40011),
        ({"invisible_s": 0}, 40011),
        ({"invisible_s": 43_201}, 40011),
        ({"filter_expression": tags("||")}, 40010),
        ({"filter_expression": tags("a ===", SQL)}, 50001),
        ({"topic": "unknown"}, 40402),
        ({"topic": "write-only"}, 40300),
    ],
)
async def test_a_receive_is_refused(stand: GrpcStand, fields: dict[str, Any], code: int) -> None:
    await ready(stand)
    await stand.put_topic("write-only", perm=2)
    received = await stand.receive(**fields)
    assert received.status.code == code
    assert received.messages == []


async def test_a_receive_may_come_before_its_clients_settings(stand: GrpcStand) -> None:
    await stand.put_topic()
    await stand.send(body=b"early")
    early = stand.later(0, stand.bodies(client_id="new"))
    await stand.world.run_for(ms=100)
    await stand.consumer("new")
    assert await early == [b"early"]


async def test_a_client_that_never_says_who_it_is_receives_nothing_and_may_send(stand: GrpcStand) -> None:
    await ready(stand)
    received = await stand.receive(client_id="nobody")
    assert (received.status.code, "must send them over Telemetry" in received.status.message) == (50001, True)
    sent_by_nobody = await stand.call("SendMessage", client_id="nobody", messages=[sent(TOPIC, b"x")])
    assert sent_by_nobody.status.code == 20000


async def test_clients_older_than_the_code_get_another(stand: GrpcStand) -> None:
    await ready(stand)
    received = await stand.receive(timeout_ms=4_000, version="5.0.2")
    assert received.status.code == pb.Code.BAD_REQUEST


@pytest.mark.parametrize(
    ("expression", "kind", "wanted"),
    [
        ("A||B", pb.FilterType.TAG, {b"A", b"B"}),
        ("*", pb.FilterType.TAG, {b"A", b"B", b"C", b"none"}),
        ("", pb.FilterType.TAG, {b"A", b"B", b"C", b"none"}),
        ("number >= 2 AND TAGS IS NOT NULL", SQL, {b"B", b"C"}),
    ],
)
async def test_a_filter_lets_through_what_is_wanted(
    stand: GrpcStand, expression: str, kind: int, wanted: set[bytes]
) -> None:
    await ready(stand, queues=1)
    for number, tag in enumerate(["A", "B", "C", None], 1):
        body = (tag or "none").encode()
        system = {} if tag is None else {"tag": tag}
        await stand.send(body=body, user={"number": str(number)}, **system)
    assert set(await stand.bodies(filter_expression=tags(expression, kind))) == wanted


async def test_a_batch_is_as_long_as_requested(stand: GrpcStand) -> None:
    await ready(stand, *[b"%d" % number for number in range(40)], queues=1)
    assert len(await stand.bodies(batch_size=3)) == 3
    assert len(await stand.bodies(batch_size=1_000)) == 32


async def test_both_of_two_brokers_are_queried(world: Any) -> None:
    stand = await GrpcStand(world, brokers=2).start()
    for broker in stand.cluster.brokers:
        await stand.put_topic(queues=1, broker=broker)
    await world.run_for(seconds=1)
    await stand.consumer()
    for number in range(4):
        await stand.send(body=b"%d" % number)
    bodies = [*await stand.bodies(), *await stand.bodies()]
    assert sorted(bodies) == [b"0", b"1", b"2", b"3"]
    await stand.close()


# -- acknowledgements ------------------------------------------------------------------------------------------------


async def test_what_is_acknowledged_never_comes_again_and_twice_is_fine(stand: GrpcStand) -> None:
    await ready(stand, b"a", b"b", queues=1)
    first, second = (await stand.receive()).messages
    for _ in range(2):
        answer = await stand.ack(first)
        assert (answer.status.code, answer.entries[0].status.code) == (pb.Code.OK, pb.Code.OK)
    await stand.world.run_for(seconds=35)
    again = await stand.receive()
    assert [message.body for message in again.messages] == [b"b"]
    assert again.attempts == [2]
    assert again.messages[0].system_properties.message_id == second.system_properties.message_id
    assert again.messages[0].topic.name == TOPIC


@pytest.mark.parametrize(
    ("forge", "code"),
    [
        (lambda _: "garbage", 50001),
        (lambda _: "", 50001),
        (lambda handle: " ".join(handle.split(" ")[:7]), 50001),
        (lambda handle: handle.replace("broker-a", "broker-x"), 40013),
        (lambda handle: " ".join([handle.split(" ")[0], "1000", *handle.split(" ")[2:]]), 40013),
        (lambda handle: "x" + handle, 50001),
        (lambda handle: handle + "9" * 40, 50001),
    ],
)
async def test_a_forged_handle_is_refused_by_itself(stand: GrpcStand, forge: Any, code: int) -> None:
    await ready(stand, b"a")
    [message] = (await stand.receive()).messages
    handle = message.system_properties.receipt_handle
    entries = [pb.AckMessageEntry(message_id="m", receipt_handle=each) for each in (handle, forge(handle))]
    fields: dict[str, Any] = {"topic": resource(TOPIC), "group": resource(GROUP)}
    answer = await stand.call("AckMessage", entries=entries, **fields)
    assert answer.status.code == pb.Code.MULTIPLE_RESULTS
    assert [entry.status.code for entry in answer.entries] == [pb.Code.OK, code]
    assert (await stand.call("AckMessage", entries=entries[1:], **fields)).status.code == code
    assert (await stand.call("AckMessage", **fields)).status.code == 50001


async def test_a_handle_that_has_expired_is_refused(stand: GrpcStand) -> None:
    await ready(stand, b"a")
    [message] = (await stand.receive()).messages
    await stand.world.run_for(seconds=31)
    answer = await stand.ack(message)
    assert (answer.status.code, "expired" in answer.status.message) == (40013, True)
    assert (await stand.change(message, 10)).status.code == 40013


async def test_a_handle_does_nothing_for_another_group(stand: GrpcStand) -> None:
    await ready(stand, b"a")
    [message] = (await stand.receive()).messages
    await stand.ack(message, group="other")
    await stand.world.run_for(seconds=35)
    assert await stand.bodies() == [b"a"]


async def test_while_message_time_stands_nothing_expires(stand: GrpcStand) -> None:
    await ready(stand, b"a")
    await stand.cluster.clock("freeze")
    [message] = (await stand.receive()).messages
    await stand.world.run_for(seconds=50)
    assert (await stand.ack(message)).status.code == pb.Code.OK


async def test_an_advance_past_the_invisible_time_expires_it(stand: GrpcStand) -> None:
    await ready(stand, b"a")
    [message] = (await stand.receive()).messages
    await stand.cluster.clock("advance", by_ms=31_000)
    assert (await stand.ack(message)).status.code == 40013
    assert (await stand.change(message, 10)).status.code == 40013
    assert (await stand.receive()).attempts == [2]


async def test_a_handle_outlives_the_proxy_that_gave_it(stand: GrpcStand) -> None:
    await ready(stand, b"a", b"b", queues=1)
    first, second = (await stand.receive()).messages
    await stand.stop_proxy()
    await stand.start_proxy()
    assert (await stand.ack(first)).status.code == pb.Code.OK
    assert (await stand.change(second, 10)).status.code == 50001  # It has to send its settings again first.
    await stand.consumer()
    assert (await stand.change(second, 10)).status.code == pb.Code.OK
    await stand.world.run_for(seconds=12)
    assert await stand.bodies() == [b"b"]


@pytest.mark.parametrize(("invisible_s", "code"), [(43_201, 40011), (-1, 40011), (0, pb.Code.OK), (10, pb.Code.OK)])
async def test_the_invisible_time_can_be_changed(stand: GrpcStand, invisible_s: int, code: int) -> None:
    await ready(stand, b"a")
    [message] = (await stand.receive()).messages
    answer = await stand.change(message, invisible_s)
    assert answer.status.code == code
    if code != pb.Code.OK:
        return
    old, new = message.system_properties.receipt_handle.split(" "), answer.receipt_handle.split(" ")
    assert (new[2], new[5:]) == (str(invisible_s * 1000), old[5:])
    await stand.world.run_for(seconds=invisible_s)
    assert (await stand.receive(poll_s=5)).attempts == [2]


@pytest.mark.row("G5")
async def test_a_returning_message_wakes_a_held_receive(stand: GrpcStand) -> None:
    await ready(stand, b"a")
    [message] = (await stand.receive()).messages
    await stand.change(message, 1)
    began_ms = stand.machine.clock.uptime_ms()
    assert (await stand.receive(poll_s=20)).attempts == [2]
    assert stand.machine.clock.uptime_ms() - began_ms < 1_300


# -- messages that can't be delivered --------------------------------------------------------------------------------


async def test_a_stream_that_ends_in_the_middle_gives_all_back(stand: GrpcStand) -> None:
    bodies = [b"%d" % number * SHARE_BYTES for number in range(5)]  # Each is a share by itself.
    await ready(stand, *bodies, queues=1)
    stream = stand.receiving()
    taken = []
    async for answers in stream:
        if isinstance(answers, bytes):
            taken.append(answers)
        if len(taken) == 2:
            break
    await stream.aclose()  # type: ignore[attr-defined]
    assert [share.endswith(body) for share, body in zip(taken, bodies, strict=False)] == [True, True]
    await stand.world.run_for(seconds=2)
    assert sorted(await stand.bodies()) == bodies  # RocketMQ's clients drop an incomplete response.


async def test_a_receive_that_is_cancelled_while_held_loses_nothing(stand: GrpcStand) -> None:
    await ready(stand)
    held = stand.later(0, stand.receive(poll_s=20))
    await stand.world.run_for(seconds=1)
    held.cancel()
    await stand.world.run_for(seconds=1)
    await stand.send(body=b"late")
    await stand.world.run_for(seconds=2)
    assert await stand.bodies() == [b"late"]


@pytest.mark.parametrize(
    ("stand", "words"),
    [({"pop_dead_letters": False}, "no match message"), ({"pop_dead_letters": True}, "no new message")],
    indirect=["stand"],
    ids=["by the proxy", "by the broker"],
)
async def test_what_was_given_too_often_goes_to_the_dead_letters(stand: GrpcStand, words: str) -> None:
    await ready(stand, b"poison", retry_max_times=1)
    for attempt in (1, 2):
        received = await stand.receive()
        assert received.attempts == [attempt]
        await stand.change(received.messages[0], 1)
        await stand.world.run_for(seconds=1.5)
    received = await stand.receive()
    assert (received.status.code, received.status.message) == (40401, words)
    await stand.world.run_for(seconds=1)
    assert await dead_letters(stand) == [b"poison"]
    await stand.world.run_for(seconds=60)
    assert (await stand.receive()).status.message == "no new message"


async def test_a_client_gives_a_message_up(stand: GrpcStand) -> None:
    await ready(stand, b"poison")
    [message] = (await stand.receive()).messages
    handle = message.system_properties.receipt_handle
    fields: dict[str, Any] = {"topic": resource(TOPIC), "group": resource(GROUP), "message_id": "id-poison"}
    cut = await stand.call("ForwardMessageToDeadLetterQueue", receipt_handle=handle.rpartition(" ")[0], **fields)
    assert cut.status.code == 40013
    answer = await stand.call("ForwardMessageToDeadLetterQueue", receipt_handle=handle, **fields)
    assert (answer.status.code, answer.status.message) == (pb.Code.OK, "0")
    assert await dead_letters(stand) == [b"poison"]
    await stand.world.run_for(seconds=35)
    assert await stand.bodies() == []


# -- bodies and times ----------------------------------------------------------------------------------------------


async def test_delayed_messages_arrive_with_their_time(stand: GrpcStand) -> None:
    await ready(stand, kind="DELAY")
    deliver = moment(stand.machine.clock.wall_ms() + 3_000)
    began_ms = stand.machine.clock.uptime_ms()
    await stand.send(body=b"late", delivery_timestamp=deliver)
    [message] = (await stand.receive()).messages
    assert 2_900 <= stand.machine.clock.uptime_ms() - began_ms <= 4_200
    assert message.system_properties.delivery_timestamp == deliver
    assert message.system_properties.message_type == pb.MessageType.DELAY


async def test_a_body_of_4_mib_goes_through(stand: GrpcStand) -> None:
    await ready(stand)
    body = bytes(range(256)) * 16_384
    assert (await stand.call("SendMessage", messages=[sent(body=body)])).status.code == pb.Code.OK
    assert await stand.bodies() == [body]


async def test_a_changed_receipt_keeps_the_message_away_for_as_long(stand: GrpcStand) -> None:
    await ready(stand, b"a")
    [message] = (await stand.receive()).messages
    changed = await stand.change(message, 120)
    await stand.world.run_for(seconds=60)
    assert await stand.bodies() == []
    message.system_properties.receipt_handle = changed.receipt_handle
    assert (await stand.ack(message)).status.code == pb.Code.OK
    await stand.world.run_for(seconds=90)
    assert await stand.bodies() == []
