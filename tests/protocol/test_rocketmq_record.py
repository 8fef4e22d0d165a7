"""RocketMQ's records and batches: bytes of real brokers, round trips, and bytes that are neither."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, strategies as st

from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.limits import BATCH_MESSAGES_MAX
from staticfire.protocol.record import StoredRecord, check_record, decode_record, pack_record, pack_stored, pack_topic
from staticfire.protocol.rocketmq_record import (
    MAGIC_V1,
    MAGIC_V2,
    BatchMessage,
    decode_batch,
    encode_batch,
    from_rocketmq,
    rocketmq_records,
    to_rocketmq,
)
from tests.protocol.rocketmq_answers import split_rocketmq

GOLDEN = Path(__file__).parent / "golden"
I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
POSITIONS = st.integers(0, 2**63 - 1)
HOSTS = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
TEXT = st.characters(exclude_categories=["Cs"])
NOT_HOST_BITS = ~0x30

V4_HOST = bytes([127, 0, 0, 1, 0, 0, 0x30, 0x39])
V6_HOST = bytes(15) + b"\x01" + bytes([0, 0, 0x30, 0x39])

USUAL = bytes.fromhex(
    "0000006a"  # record_bytes
    "daa320a7"  # magic
    "58932aac"  # body_crc
    "00000003"  # queue_id
    "00000005"  # flag
    "0000000000000007"  # queue_offset
    "00000000000003e8"  # log_position
    "00000000"  # sys_flag
    "0000018bcfe56800"  # born_ms
    "7f000001" "00003039"  # born host
    "0000018bcfe56801"  # stored_ms
    "7f000001" "00002a9f"  # store host
    "00000001"  # reconsume_times
    "0000000000000000"  # prepared_position
    "00000002" "6869"  # body
    "06" "6f7264657273"  # topic
    "0007" "54414753016102"  # properties
)  # fmt: skip


@st.composite
def stored_records(draw: st.DrawFn) -> StoredRecord:
    return decode_record(
        pack_record(
            draw(I64), draw(I32), draw(I64), draw(I64), draw(I64), draw(I32) & NOT_HOST_BITS, draw(I32), draw(I32),
            draw(POSITIONS), draw(HOSTS), pack_topic(draw(st.text(TEXT, max_size=200))),
            draw(st.binary(max_size=100)), draw(st.binary(max_size=100)),
        )
    )  # fmt: skip


def usual(topic: str = "orders", properties: bytes = b"TAGS\x01a\x02", born_host: bytes = V4_HOST) -> bytes:
    return pack_record(
        1000, 3, 7, 1_700_000_000_001, 1_700_000_000_000, 0, 5, 1, 0, born_host, pack_topic(topic), properties, b"hi"
    )


def test_a_usual_record_has_these_bytes() -> None:
    store_host = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
    assert to_rocketmq(usual(), store_host).hex(" ") == USUAL.hex(" ")
    record, found_host, size = from_rocketmq(USUAL)
    assert (pack_stored(record), found_host, size) == (usual(), store_host, len(USUAL))


@pytest.mark.parametrize(("log", "count"), [("rocketmq-5.3.3-ipv4.bin", 13), ("rocketmq-5.3.3-ipv6.bin", 11)])
def test_the_log_of_a_real_broker_is_stored_and_comes_back_byte_for_byte(log: str, count: int) -> None:
    data = (GOLDEN / log).read_bytes()
    at = 0
    records = split_rocketmq(data)
    for record, store_host in records:
        assert record.log_position == at
        stored = pack_stored(record)
        assert len(stored) == record.record_bytes
        assert not check_record(stored, 0, at).reason
        again = to_rocketmq(stored, store_host)
        assert again == data[at : at + len(again)]
        at += len(again)
    assert at == len(data)
    assert len(records) == count


def test_the_logs_of_real_brokers_have_both_versions_and_all_pairs_of_hosts() -> None:
    seen = set()
    for log in GOLDEN.glob("*.bin"):
        for record, store_host in split_rocketmq(log.read_bytes()):
            seen.add((len(record.topic) > 127, len(record.born_host), len(store_host)))
    assert seen == {(False, 8, 8), (False, 20, 8), (True, 8, 8), (False, 8, 20), (False, 20, 20), (True, 8, 20)}


@given(stored_records(), HOSTS)
def test_a_stored_record_survives_the_way_through_rocketmqs(record: StoredRecord, store_host: bytes) -> None:
    born_host_bit = 0x10 if len(record.born_host) == 20 else 0
    stored = pack_stored(record)
    data = to_rocketmq(memoryview(b"before" + stored + b"behind"), store_host, at=6)
    again, found_host, size = from_rocketmq(b"before" + data, at=6)
    assert (found_host, size) == (store_host, len(data))
    assert again.record_bytes == len(stored)
    assert again.sys_flag == record.sys_flag | born_host_bit
    assert pack_stored(again)[69:] == stored[69:]
    assert to_rocketmq(pack_stored(again), store_host) == data


@pytest.mark.parametrize(("topic_bytes", "magic"), [(0, MAGIC_V1), (127, MAGIC_V1), (128, MAGIC_V2), (255, MAGIC_V2)])
def test_a_topic_longer_than_127_bytes_makes_a_record_v2(topic_bytes: int, magic: int) -> None:
    data = to_rocketmq(usual("t" * topic_bytes), V4_HOST)
    assert int.from_bytes(data[4:8]) == magic
    assert from_rocketmq(data)[0].topic == "t" * topic_bytes


@pytest.mark.parametrize("born", [V4_HOST, V6_HOST])
@pytest.mark.parametrize("store", [V4_HOST, V6_HOST])
def test_sys_flag_says_which_hosts_are_ipv6(born: bytes, store: bytes) -> None:
    data = to_rocketmq(usual(born_host=born), store)
    assert int.from_bytes(data[36:40]) == (0x10 if born is V6_HOST else 0) | (0x20 if store is V6_HOST else 0)


@pytest.mark.parametrize("born", [V4_HOST, V6_HOST])
def test_a_mark_of_the_broker_is_hidden(born: bytes) -> None:
    stored = pack_stored(msgspec.structs.replace(decode_record(usual(born_host=born)), prepared_position=-5))
    assert to_rocketmq(stored, V4_HOST) == to_rocketmq(usual(born_host=born), V4_HOST)


@pytest.mark.parametrize("store_host", [b"", bytes(4), bytes(16)])
def test_a_store_host_of_another_length_is_refused(store_host: bytes) -> None:
    with pytest.raises(ProtocolError, match="hosts of 8 and"):
        to_rocketmq(usual(), store_host)


@pytest.mark.parametrize("born_host", [V4_HOST, V6_HOST])
def test_properties_that_java_could_not_read_back_are_refused(born_host: bytes) -> None:
    assert from_rocketmq(to_rocketmq(usual(properties=bytes(32_767), born_host=born_host), V4_HOST))
    with pytest.raises(ProtocolError, match="32768"):
        to_rocketmq(usual(properties=bytes(32_768), born_host=born_host), V4_HOST)


def test_a_pulls_answer_is_one_record_behind_the_other() -> None:
    answer = b"".join(rocketmq_records([usual(), usual("t" * 130)], V4_HOST))
    assert answer == to_rocketmq(usual(), V4_HOST) + to_rocketmq(usual("t" * 130), V4_HOST)
    assert [record.topic for record, _ in split_rocketmq(answer)] == ["orders", "t" * 130]
    assert split_rocketmq(b"") == []


def test_a_body_that_does_not_match_its_crc_is_an_error_unless_checking_is_off() -> None:
    damaged = USUAL.replace(b"hi", b"ho")
    with pytest.raises(ProtocolError, match="CRC"):
        from_rocketmq(damaged)
    assert from_rocketmq(damaged, check_body=False)[0].body == b"ho"


@given(st.data())
def test_a_damaged_record_is_a_protocol_error_or_another_record(data: st.DataObject) -> None:
    damaged = bytearray(to_rocketmq(pack_stored(data.draw(stored_records())), data.draw(HOSTS)))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    del damaged[data.draw(st.integers(0, len(damaged))) :]
    try:
        record, store_host, size = from_rocketmq(bytes(damaged), check_body=data.draw(st.booleans()))
    except ProtocolError:
        return
    assert size <= len(damaged)
    assert len(pack_stored(record)) == record.record_bytes
    assert len(to_rocketmq(pack_stored(record), store_host)) in (size, size - 1)  # a short topic may have been V2


@given(st.binary(max_size=300))
@example(bytes(100))
@example(b"\xff" * 200)
def test_bytes_that_are_no_record_are_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        from_rocketmq(data)


MESSAGES = st.builds(BatchMessage, I32, st.binary(max_size=50), st.binary(max_size=50))


def test_a_batch_has_these_bytes() -> None:
    batch = encode_batch([BatchMessage(1, b"one", b"TAGS\x01a\x02"), BatchMessage(0, b"two", b"")])
    assert batch.hex() == (
        "00000020" "00000000" "00000000" "00000001" "00000003" "6f6e65" "0007" "54414753016102"
        "00000019" "00000000" "00000000" "00000000" "00000003" "74776f" "0000"
    )  # fmt: skip


@given(st.lists(MESSAGES, max_size=5))
def test_a_batch_comes_back(messages: list[BatchMessage]) -> None:
    assert decode_batch(encode_batch(messages)) == messages


def test_a_batch_is_read_by_its_lengths_alone() -> None:
    batch = b"\xff" * 12 + encode_batch([BatchMessage(1, b"one", b"")])[12:]
    assert decode_batch(batch) == [BatchMessage(1, b"one", b"")]


@given(st.lists(MESSAGES, min_size=1, max_size=3), st.data())
def test_a_damaged_batch_is_a_protocol_error_or_other_messages(
    messages: list[BatchMessage], data: st.DataObject
) -> None:
    damaged = bytearray(encode_batch(messages))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    del damaged[data.draw(st.integers(1, len(damaged))) :]
    try:
        assert len(encode_batch(decode_batch(bytes(damaged)))) == len(damaged)
    except ProtocolError:
        pass


def test_a_batch_has_a_number_of_messages_at_most() -> None:
    one = BatchMessage(0, b"x", b"")
    assert len(decode_batch(encode_batch([one] * BATCH_MESSAGES_MAX))) == BATCH_MESSAGES_MAX
    with pytest.raises(ProtocolError, match=f"more than {BATCH_MESSAGES_MAX} messages"):
        decode_batch(encode_batch([one] * (BATCH_MESSAGES_MAX + 1)))


@given(st.lists(MESSAGES, min_size=1, max_size=3), st.integers(1, 21))
def test_a_batch_that_breaks_off_is_a_protocol_error(messages: list[BatchMessage], missing: int) -> None:
    with pytest.raises(ProtocolError):
        decode_batch(encode_batch(messages)[:-missing])


def test_a_message_that_does_not_fit_into_a_batch_is_refused() -> None:
    with pytest.raises(ProtocolError, match="batch"):
        encode_batch([BatchMessage(2**31, b"", b"")])
    with pytest.raises(ProtocolError, match="batch"):
        encode_batch([BatchMessage(0, b"", bytes(32_768))])


@given(st.lists(stored_records(), max_size=5), HOSTS, st.booleans())
def test_records_of_slices_are_the_records_one_by_one(
    records: list[StoredRecord], store_host: bytes, is_one_slice: bool
) -> None:
    stored = [pack_stored(record) for record in records]
    slices = [b"".join(stored)] if is_one_slice else stored
    assert rocketmq_records(slices, store_host) == [to_rocketmq(one, store_host) for one in stored]


@given(st.lists(st.tuples(st.binary(max_size=50), st.binary(max_size=50)), max_size=5), I32)
def test_plain_records_of_slices_are_the_records_one_by_one(bodies: list[tuple[bytes, bytes]], queue_id: int) -> None:
    host = bytes(range(8))
    stored = [
        pack_record(number, queue_id, number, 3, 2, 0, 0, 0, 0, host, pack_topic("orders"), properties, body)
        for number, (properties, body) in enumerate(bodies)
    ]
    records = rocketmq_records([b"".join(stored[:2]), *stored[2:]], V4_HOST)
    assert records == [to_rocketmq(one, V4_HOST) for one in stored]


def test_a_plain_record_with_properties_that_no_client_can_read_is_a_protocol_error() -> None:
    stored = pack_record(0, 0, 0, 0, 0, 0, 0, 0, 0, bytes(8), pack_topic("orders"), bytes(32_768), b"")
    with pytest.raises(ProtocolError, match="32768"):
        rocketmq_records([stored], V4_HOST)
