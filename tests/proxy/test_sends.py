"""Messages from gRPC clients to brokers: checks in RocketMQ's order, what is stored."""

from typing import Any

import pytest

from staticfire.protocol.properties import parse_properties
from staticfire.protocol.record import StoredRecord
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, PullMessage
from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from staticfire.proxy.services.message_groups import bucket_of
from tests.proxy.grpc_stand import TOPIC, GrpcStand, moment, resource, seconds, sent

pytestmark = pytest.mark.row("G3")

DAY_MS = 86_400_000
TRANSACTION = pb.MessageType.TRANSACTION


async def stored(stand: GrpcStand, topic: str = TOPIC, queues: int = 4) -> list[StoredRecord]:
    records: list[StoredRecord] = []
    for queue_id in range(queues):
        pull = PullMessage("readers", topic, queue_id, 0, 32, FLAG_SUBSCRIPTION, 0, 0, "*")
        answer = await stand.cluster.ask(stand.cluster.brokers["broker-a"], pull)
        records += answer.body.records if answer.code == 0 else []
    return records


async def test_a_message_is_stored_with_all_that_it_says(stand: GrpcStand) -> None:
    await stand.put_topic()
    answer = await stand.send(
        body=b"paid", user={"color": "red", "__transactionId__": "mine"}, tag="A", keys=["k1", "k2"],
        message_id="X", born_timestamp=moment(1_700_000_000_123), born_host="me", trace_context="00-1",
        body_digest=pb.Digest(type=pb.DigestType.MD5, checksum="WRONG"), body_encoding=pb.Encoding.GZIP,
        queue_id=3, receipt_handle="none",
    )  # fmt: skip
    assert (answer.status.code, answer.status.message) == (pb.Code.OK, "OK")
    [entry] = answer.entries
    assert (entry.status.code, entry.message_id, entry.transaction_id) == (pb.Code.OK, "X", "X")
    assert (entry.offset, entry.recall_handle) == (0, "")
    [record] = await stored(stand)
    assert (record.body, record.born_ms, record.sys_flag & 1) == (b"paid", 1_700_000_000_123, 1)
    properties = parse_properties(record.properties)
    wanted = {
        "color": "red", "__transactionId__": "mine", "TAGS": "A", "KEYS": "k1 k2", "UNIQ_KEY": "X", "PGROUP": TOPIC,
        "RECONSUME_TIME": "0", "__BORNHOST": "me", "BORN_TIMESTAMP": "1700000000123", "TRACE_CONTEXT": "00-1",
    }  # fmt: skip
    assert {name: properties.get(name) for name in wanted} == wanted


async def test_without_a_born_host_it_is_the_clients_address(stand: GrpcStand) -> None:
    await stand.put_topic()
    await stand.send()
    assert parse_properties((await stored(stand))[0].properties)["__BORNHOST"] == "10.0.0.40:40000"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (sent(""), 40002),
        (sent(body=b""), 41302),
        (sent(body=bytes(4_194_305)), 41301),
        (sent(message_id=""), 40009),
        (sent(message_id="a\x01b"), 40009),
        (sent(tag=" "), 40004),
        (sent(tag="a|b"), 40004),
        (sent(tag="a\x7f"), 40004),
        (sent(keys=["a", " "]), 40005),
        (sent(keys=["a\nb"]), 40005),
        (sent(user={"UNIQ_KEY": "x"}), 40007),
        (sent(user={"a\x01": "x"}), 40007),
        (sent(user={"a": "x\x02"}), 40007),
        (sent(user={f"p{number}": "x" for number in range(129)}), 43101),
        (sent(user={"p": "x" * 16_384}), 43101),
        (sent(user={"p": "x" * 16_000}, tag="t" * 300, keys=["k" * 84]), 43101),
        (sent(message_group=" "), 40006),
        (sent(message_group="g" * 64), 40006),
        (sent(message_group="g\n"), 40006),
        (sent(trace_context="a\x02TAGS\x01b"), 40000),
        (sent(message_type=TRANSACTION, orphaned_transaction_recovery_duration=seconds(3601)), 40000),
        (sent(message_group="g"), 40014),
        (sent(delivery_timestamp=moment(1)), 40014),
        (sent(message_type=TRANSACTION), 40014),
        (sent("fifo"), 40014),
        (sent("transactional"), 40014),
        (sent("unknown"), 40014),
        (sent("read-only"), 40300),
    ],
)
async def test_a_message_is_refused(stand: GrpcStand, message: pb.Message, code: int) -> None:
    await stand.put_topic()
    await stand.put_topic("fifo", "FIFO")
    await stand.put_topic("transactional", "TRANSACTION")
    await stand.put_topic("read-only", perm=4)
    answer = await stand.call("SendMessage", messages=[message])
    assert answer.status.code == code
    assert answer.status.message
    assert not answer.entries
    assert await stored(stand) == []
    assert (await stand.call("QueryRoute", topic=resource("unknown"))).status.code == 40402


@pytest.mark.parametrize(
    ("topic", "kind", "system"),
    [
        ("fifo", "FIFO", {"message_group": "g" * 63}),
        ("plain", "NORMAL", {"message_type": pb.MessageType.FIFO}),
        ("plain", "NORMAL", {"body_encoding": 99}),
        ("late", "DELAY", {"message_group": "g", "delivery_timestamp": moment(1)}),
        ("plain", "NORMAL", {"user": {f"p{number}": "x" for number in range(128)}}),
    ],
)
async def test_the_type_of_a_message_is_what_its_properties_make_it(
    stand: GrpcStand, topic: str, kind: str, system: dict[str, Any]
) -> None:
    await stand.put_topic(topic, kind)
    assert (await stand.send(topic, **system)).status.code == pb.Code.OK


async def test_of_several_faults_the_first_in_rocketmqs_order_is_reported(stand: GrpcStand) -> None:
    both = [sent(TOPIC), sent("other", b"")]
    assert (await stand.call("SendMessage", messages=both)).status.code == 40016
    assert (await stand.call("SendMessage")).status.code == 40016
    worst = sent(body=b"", user={"UNIQ_KEY": "x"}, message_id="", tag="|")
    assert (await stand.call("SendMessage", messages=[worst])).status.code == 41302


async def test_bodies_of_exactly_4_mib_pass(stand: GrpcStand) -> None:
    await stand.put_topic()
    assert (await stand.send(body=bytes(4_194_304))).status.code == pb.Code.OK


async def test_a_batch_is_one_entry_in_one_queue(stand: GrpcStand) -> None:
    await stand.put_topic()
    messages = [sent(body=b"%d" % number, message_id=f"m{number}", tag=f"t{number}") for number in range(3)]
    answer = await stand.call("SendMessage", messages=messages)
    assert answer.status.code == pb.Code.OK
    [entry] = answer.entries
    assert entry.message_id == "m0,m1,m2"
    records = await stored(stand)
    assert [record.body for record in records] == [b"0", b"1", b"2"]
    assert len({record.queue_id for record in records}) == 1
    assert [parse_properties(record.properties)["UNIQ_KEY"] for record in records] == ["m0", "m1", "m2"]


async def test_a_compressed_message_is_no_part_of_a_batch(stand: GrpcStand) -> None:
    await stand.put_topic()
    compressed, other = sent(body=b"1", body_encoding=pb.Encoding.GZIP), sent(body=b"2")
    for messages in ([compressed, compressed], [other, compressed]):
        answer = await stand.call("SendMessage", messages=messages)
        assert (answer.status.code, "separate call" in answer.status.message) == (50001, True)
    assert await stored(stand) == []


async def test_a_batch_that_is_too_large_is_the_brokers_refusal(stand: GrpcStand) -> None:
    await stand.put_topic()
    small = [sent(body=bytes(100_000), message_id=f"m{number}") for number in range(33)]
    assert (await stand.call("SendMessage", messages=small)).status.code == pb.Code.OK
    large = [sent(body=bytes(100_000), message_id=f"m{number}") for number in range(45)]
    answer = await stand.call("SendMessage", messages=large)
    assert answer.status.code == 50001
    assert "message" in answer.status.message


async def test_two_half_messages_do_not_travel_together(stand: GrpcStand) -> None:
    await stand.put_topic(TOPIC, "TRANSACTION")
    halves = [sent(body=b"%d" % number, message_type=TRANSACTION) for number in range(2)]
    assert (await stand.call("SendMessage", messages=halves)).status.code == 50001


async def test_a_group_of_messages_has_its_queue_and_others_go_round(stand: GrpcStand) -> None:
    await stand.put_topic("fifo", "FIFO")
    await stand.put_topic()
    for number in range(8):
        await stand.send("fifo", b"f%d" % number, message_group="g1")
        await stand.send(body=b"n%d" % number)
    in_order = await stored(stand, "fifo")
    assert [record.body for record in in_order] == [b"f%d" % number for number in range(8)]
    assert len({record.queue_id for record in in_order}) == 1
    assert sorted(record.queue_id for record in await stored(stand)) == [0, 0, 1, 1, 2, 2, 3, 3]


GUAVA_OF_100 = [0, 55, 62, 8, 45, 59, 86, 97, 82, 59, 73, 37, 17, 56, 86, 21, 90, 37, 38, 83]
"""Of 0 to 19: the values that Guava's own test has."""


def test_buckets_are_those_of_guava() -> None:
    assert [bucket_of(number, 100) for number in range(20)] == GUAVA_OF_100
    assert (bucket_of(10_863_919_174_838_991, 11), bucket_of(2, 100_001)) == (6, 80_343)


def test_few_numbers_move_when_there_is_one_bucket_more() -> None:
    moved = [number for number in range(1000) if bucket_of(number, 8) != bucket_of(number, 9)]
    assert all(bucket_of(number, 9) == 8 for number in moved)
    assert 60 <= len(moved) <= 160


async def test_delivery_times(stand: GrpcStand) -> None:
    await stand.put_topic("late", "DELAY")
    now_ms = stand.machine.clock.wall_ms()
    answer = await stand.send("late", b"far", delivery_timestamp=moment(now_ms + DAY_MS + 60_000))
    assert answer.status.code == 40012
    answer = await stand.send("late", b"past", delivery_timestamp=moment(now_ms - 5_000))
    assert (answer.status.code, answer.entries[0].recall_handle) == (pb.Code.OK, "")
    answer = await stand.send("late", b"soon", delivery_timestamp=moment(now_ms + 5_000))
    assert answer.status.code == pb.Code.OK
    assert answer.entries[0].recall_handle


async def test_what_is_far_is_measured_in_message_time(stand: GrpcStand) -> None:
    await stand.put_topic("late", "DELAY")
    now_ms = stand.machine.clock.wall_ms()
    assert (await stand.send("late", b"now", delivery_timestamp=moment(now_ms))).status.code == pb.Code.OK
    await stand.cluster.clock("advance", by_ms=10 * DAY_MS)
    answer = await stand.send("late", b"x", delivery_timestamp=moment(now_ms + 10 * DAY_MS + 5_000))
    assert answer.status.code == pb.Code.OK
    assert answer.entries[0].recall_handle


async def test_a_topic_that_changes_its_type_accepts_messages_of_that_type_at_once(stand: GrpcStand) -> None:
    await stand.put_topic()
    assert (await stand.send(message_group="g")).status.code == 40014
    await stand.put_topic(TOPIC, "FIFO")
    assert (await stand.send(message_group="g")).status.code == pb.Code.OK
    await stand.world.run_for(seconds=1.1)
    assert (await stand.send()).status.code == 40014


async def test_a_broker_that_is_gone_is_reported_and_so_is_its_return(stand: GrpcStand) -> None:
    await stand.put_topic()
    assert (await stand.send()).status.code == pb.Code.OK
    stand.world.kill("broker-a")
    await stand.world.run_for(seconds=0.1)
    answer = await stand.send()
    assert answer.status.code == 50001
    assert "10.0.0.2:10911" in answer.status.message
    await stand.cluster.start_broker("broker-a")
    await stand.world.run_for(seconds=2)
    assert (await stand.send()).status.code == pb.Code.OK


async def test_times_beyond_all_clocks_are_taken(stand: GrpcStand) -> None:
    await stand.put_topic()
    await stand.consumer()
    far = pb.Timestamp(seconds=2**63 - 1)
    assert (await stand.send(born_timestamp=far)).status.code == pb.Code.OK
    [message] = (await stand.receive()).messages
    assert message.system_properties.born_timestamp.seconds == 253_402_300_799  # The last second of 9999.
