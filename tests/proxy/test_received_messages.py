"""A stored message as clients get it: by hand the same bytes as protobuf writes, whatever was stored."""

from hashlib import md5
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from staticfire.protocol.compiled import twin
from staticfire.protocol.hosts import host_text
from staticfire.protocol.message_ids import offset_id, offset_id_prefix
from staticfire.protocol.pop_handles import PopHandle
from staticfire.protocol.properties import RESERVED_NAMES, parse_properties
from staticfire.protocol.record import StoredRecord
from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from staticfire.proxy.services import received_messages
from staticfire.proxy.services.message_types import type_of_message
from staticfire.proxy.services.receipts import Popped, Receipt
from staticfire.proxy.services.received_messages import MOMENT_MS_MAX, SHARE_BYTES, MessagePacker
from staticfire.proxy.transport.calls import as_it_travels
from staticfire.proxy.transport.grpc_words import RequestReader

TOPIC, HOST = "orders", bytes((10, 0, 0, 30, 0, 0, 0x2A, 0x9F))
KINDS = {"NORMAL": pb.NORMAL, "FIFO": pb.FIFO, "DELAY": pb.DELAY, "TRANSACTION": pb.TRANSACTION}
NAMES = st.sampled_from(sorted(RESERVED_NAMES | {"__SHARDINGKEY", "TRACE_CONTEXT"})) | st.sampled_from(
    ["TAGS", "KEYS", "UNIQ_KEY", "__BORNHOST", "PGROUP", "region", "größe", "\u2603" * 50]
)
VALUES = st.text(max_size=10) | st.sampled_from(["true", "1764000000123", "17", "a b  c", "x" * 127, "x" * 128])
PROPERTIES = st.lists(st.tuples(NAMES, VALUES), max_size=8).map(
    lambda entries: b"".join([f"{name}\x01{value}\x02".encode("utf-8", "surrogatepass") for name, value in entries])
)
HOSTS = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
NUMBERS = st.sampled_from([0, 1, 127, 128, 16_383, 16_384, 2**31 - 1]) | st.integers(0, 2**31 - 1)
RECEIPTS = st.sampled_from(["", "0 1 60000 4 0 broker-a 2 7 512", "r" * 127, "r" * 128])


@st.composite
def records(draw: st.DrawFn) -> StoredRecord:
    moments = st.integers(0, MOMENT_MS_MAX) | st.sampled_from([0, 999, 1000, 1_764_000_000_123])
    return StoredRecord(
        0, 0, 0, draw(NUMBERS), draw(NUMBERS), draw(NUMBERS), draw(moments), draw(moments | st.just(-1)),
        draw(st.sampled_from([0, 1])), 0, 0, 0, 0, draw(HOSTS), TOPIC,
        draw(PROPERTIES | st.binary(max_size=40)), draw(st.binary(max_size=200)),
    )  # fmt: skip


def by_protobuf(record: StoredRecord, store_host: bytes, attempt: int, receipt: str) -> pb.Message:
    """Return the message as protobuf's own classes make it, field by field."""
    properties = parse_properties(record.properties)
    message = pb.Message(topic=pb.Resource(name=TOPIC), body=record.body)
    message.user_properties.update({name: each for name, each in properties.items() if name not in RESERVED_NAMES})
    system = message.system_properties
    fields: dict[str, Any] = {
        "tag": properties.get("TAGS"),
        "receipt_handle": receipt or None,
        "message_group": properties.get("__SHARDINGKEY"),
        "trace_context": properties.get("TRACE_CONTEXT"),
    }
    for name, value in fields.items():
        if value is not None:
            setattr(system, name, value)
    system.keys.extend(properties.get("KEYS", "").split())
    system.message_id = properties.get("UNIQ_KEY") or offset_id(offset_id_prefix(store_host), record.log_position)
    system.body_digest.type, system.body_digest.checksum = pb.MD5, md5(record.body).hexdigest().upper()
    system.body_encoding = pb.GZIP if record.sys_flag & 1 else pb.IDENTITY
    system.message_type = KINDS[type_of_message(properties)]
    system.born_timestamp.FromMilliseconds(max(record.born_ms, 0))
    system.born_host = properties.get("__BORNHOST") or host_text(record.born_host)
    system.store_timestamp.FromMilliseconds(record.stored_ms)
    system.store_host = host_text(store_host)
    due_ms = due(properties, record.stored_ms)
    if due_ms is not None:
        system.delivery_timestamp.FromMilliseconds(min(due_ms, MOMENT_MS_MAX))
    system.queue_id, system.queue_offset, system.delivery_attempt = record.queue_id, record.queue_offset, attempt
    if "DLQ_ORIGIN_TOPIC" in properties and "DLQ_ORIGIN_MESSAGE_ID" in properties:
        origin = system.dead_letter_queue
        origin.topic, origin.message_id = properties["DLQ_ORIGIN_TOPIC"], properties["DLQ_ORIGIN_MESSAGE_ID"]
    return message


def due(properties: dict[str, str], stored_ms: int) -> int | None:
    for name, of in (("TIMER_DELIVER_MS", int), ("TIMER_DELAY_SEC", lambda text: stored_ms + int(text) * 1000)):
        text = properties.get(name, "")
        if text.isascii() and text.isdecimal() and len(text) <= 18:
            return of(text)
    return None


def without_twin(packer: MessagePacker, *what: Any) -> bytes:
    """Return what Python makes of a message."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(received_messages, "received_head", None)
        return packer.before_body(*what)


@given(records(), HOSTS, NUMBERS, RECEIPTS)
@example(StoredRecord(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, bytes(8), TOPIC, b"", b""), bytes(8), 1, "")
def test_bytes_packed_by_hand_are_those_of_protobuf(
    record: StoredRecord, store_host: bytes, attempt: int, receipt: str
) -> None:
    expected = by_protobuf(record, store_host, attempt, receipt)
    packer = MessagePacker(TOPIC, store_host)
    packed = packer.message(record, attempt, receipt)
    assert pb.Message.FromString(packed) == expected
    answer = without_twin(packer, record, attempt, receipt) + record.body
    assert RequestReader(1 << 30).feed(answer) == [pb.ReceiveMessageResponse(message=expected).SerializeToString()] or (
        len(expected.user_properties) > 1 and answer.endswith(packed)
    )
    assert packer.before_body(record, attempt, receipt) + record.body == answer
    if len(expected.user_properties) < 2:  # A map has no order; protobuf writes it in that of its table.
        assert packed == expected.SerializeToString()
    else:
        assert len(packed) == len(expected.SerializeToString())


PLAIN = (
    b"UNIQ_KEY\x010102FC000000013B460B14A60A00000000\x02KEYS\x01order-1 order-2\x02TAGS\x01paid\x02WAIT\x01true\x02"
    b"__BORNHOST\x0110.0.0.40:40000\x02region\x01north\x02size\x01\x02"
)


@pytest.mark.skipif(
    received_messages.received_head is None, reason="built without a compiler, or a twin of older source"
)
@pytest.mark.parametrize(
    ("properties", "is_plain"),
    [
        (PLAIN, True),
        (PLAIN[:-1], True),
        (PLAIN + b"other\x01\x01\x02", True),
        (PLAIN.replace(b"UNIQ_KEY", b"UNIQUE"), False),
        (PLAIN + b"TAGS\x01other\x02UNIQ_KEY\x01of-its-batch", True),
        (PLAIN + b"region\x01south", False),
        (PLAIN + "größe\x01m".encode(), False),
        (PLAIN + b"TRAN_MSG\x01true\x02", False),
        (PLAIN + b"DELAY\x013\x02", False),
        (PLAIN + b"__SHARDINGKEY\x01a\x02", False),
        (PLAIN + b"".join([b"u%d\x01v\x02" % number for number in range(31)]), True),
        (PLAIN + b"".join([b"u%d\x01v\x02" % number for number in range(32)]), False),
    ],
)
def test_usual_messages_are_packed_by_the_twin_and_others_are_left_to_python(properties: bytes, is_plain: bool) -> None:
    seen = []

    def noted(*arguments: Any) -> bytes | None:
        assert twin is not None
        seen.append(twin.received_head(*arguments))
        return seen[-1]

    record = StoredRecord(0, 0, 0, 9, 2, 7, 1, 1, 0, 0, 0, 0, 0, bytes(8), TOPIC, properties, b"body")
    packer = MessagePacker(TOPIC, HOST)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(received_messages, "received_head", noted)
        answer = packer.before_body(record, 1, "handle")
    assert (seen != [None]) == is_plain
    assert answer == without_twin(packer, record, 1, "handle")


@pytest.mark.parametrize("sizes", [[], [1], [SHARE_BYTES - 1] * 3, [SHARE_BYTES * 3, 1, 1], [1000] * 200])
def test_answers_are_packed_in_order_and_none_is_left_out(sizes: list[int]) -> None:
    messages = []
    for number, size in enumerate(sizes):
        pop = PopHandle(0, 1_764_000_000_000, 60_000, 4, 0, "broker-a", 2, number)
        record = StoredRecord(0, 0, 0, 9, 2, number, 0, 0, 0, 0, 0, 0, 0, bytes(8), TOPIC, b"", bytes(size))
        messages.append(Popped(record, Receipt(pop, 9), 3))
    first = as_it_travels(pb.ReceiveMessageResponse(status=pb.Status(code=pb.OK)))
    last = as_it_travels(pb.ReceiveMessageResponse(delivery_timestamp=pb.Timestamp(seconds=5)))
    answers = []
    for share in MessagePacker(TOPIC, HOST).shares(first, messages, last):
        read = [pb.ReceiveMessageResponse.FromString(each) for each in RequestReader(1 << 30).feed(share)]
        answers += read
        held = [len(answer.message.body) for answer in read[:-1]]
        assert sum(held) < SHARE_BYTES, "what follows a full share waits unpacked"
    assert answers.pop(0).status.code == pb.OK
    assert answers.pop().delivery_timestamp.seconds == 5
    assert [answer.message.system_properties.queue_offset for answer in answers] == list(range(len(sizes)))
    assert [len(answer.message.body) for answer in answers] == sizes
    assert all(answer.message.system_properties.delivery_attempt == 4 for answer in answers)
    assert [answer.message.system_properties.receipt_handle for answer in answers] == [
        str(message.receipt) for message in messages
    ]
