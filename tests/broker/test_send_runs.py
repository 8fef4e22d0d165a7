"""What the compiled twin makes of sends is what the handlers make of them, one by one: log, queues and answers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from staticfire.broker.handlers.send_runs import answers_in
from staticfire.protocol import compiled
from staticfire.protocol.codecs import JSON, NATIVE, codec_for
from staticfire.protocol.command import Request
from staticfire.protocol.errors import StorageError
from staticfire.protocol.limits import PROPERTIES_BYTES_MAX
from staticfire.protocol.requests.offsets import GetMaxOffset
from staticfire.protocol.requests.send import SendBatch, SendMany, SendMessage, SendMessageV2
from staticfire.protocol.requests.topics import TopicConfig
from tests.broker.two_brokers import (
    BODY_BYTES_MAX,
    IPV4,
    IPV6,
    PLAIN,
    RETRY_TOPIC,
    SEGMENT_BYTES,
    TOPICS,
    UNIQUE_ID,
    Both,
    Side,
    many,
    one_of_many,
    sent,
)  # fmt: skip

pytestmark = pytest.mark.skipif(
    compiled.twin is None, reason="built without a compiler, or STATICFIRE_PURE_PYTHON is set"
)


@pytest.fixture
def both(tmp_path: Path) -> Both:
    return Both(tmp_path)


# -- anything at all ---------------------------------------------------------------------------------------------------

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = ["UNIQ_KEY", "TAGS", "XTAGS", "KEYS", "DELAY", "CLUSTER", "MSG_REGION", "POP_CK", "TRAN_MSG", "WAIT", "ä", ""]
VALUES = ["a", "paid", "", UNIQUE_ID, "x\x01y", 'qu"ote', "back\\slash", "sl/ash", "\x1f", "\x7f", "true", "3"]
entries = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)), max_size=4)
properties = st.one_of(
    st.just(PLAIN),
    entries.map(lambda pairs: PLAIN + "".join(f"{name}\x01{value}\x02" for name, value in pairs)),
    entries.map(lambda pairs: "\x02".join(f"{name}\x01{value}" for name, value in pairs)),
    st.lists(st.sampled_from([*NAMES, "\x01", "\x02", UNIQUE_ID])).map("".join),
)
bodies = st.binary(min_size=1, max_size=40) | st.sampled_from([b"", bytes(900), bytes(BODY_BYTES_MAX + 1)])
topics = st.sampled_from([*TOPICS, "orders", "orders", "unknown", RETRY_TOPIC, ""])
usually = {
    "topic": topics, "queue_id": st.integers(-1, 5), "sys_flag": st.just(0) | st.sampled_from([0, 1, 2, 4]),
    "flag": st.just(0) | INT32, "born_timestamp": INT64, "properties": properties, "body": bodies,
}  # fmt: skip
singles = st.builds(
    sent,
    st.sampled_from([SendMessage, SendMessageV2, SendBatch]),
    reconsume_times=st.sampled_from([None, 0, 0, 1]),
    unit_mode=st.sampled_from([None, False, True]),
    max_reconsume_times=st.none() | INT32,
    batch=st.sampled_from([None, False, False, True]),
    bname=st.sampled_from([None, "broker-a", "größer"]),
    **usually,
)
plain = st.builds(sent, body=st.binary(min_size=1, max_size=1_000), queue_id=st.integers(0, 3), born_timestamp=INT64)
ones_of_many = st.builds(one_of_many, **usually | {"properties": properties.map(str.encode)})
requests = st.one_of(
    plain,
    plain,
    singles,
    st.lists(ones_of_many | st.builds(one_of_many, body=bodies), max_size=4).map(lambda each: many(*each)),
    st.just(GetMaxOffset("orders", 1)),
)
frames = st.builds(
    lambda request, codec, opaque, oneway: codec_for(NATIVE if isinstance(request, SendMany) else codec).encode_request(
        request, opaque, oneway
    ),
    requests,
    st.sampled_from([NATIVE, JSON]),
    st.integers(0, 2**31 - 1),
    st.sampled_from([False, False, False, True]),
)


@pytest.fixture(scope="module")
def everlasting(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return Both(tmp_path_factory.mktemp("runs"), mapped_file_size_commit_log=4 * SEGMENT_BYTES)


@given(st.lists(frames, min_size=1, max_size=12), st.integers(1, 20_000))
@settings(max_examples=100)
def test_any_sends_end_as_one_by_one(everlasting: Both, reads: list[bytes], bytes_wanted: int) -> None:
    everlasting.take(b"".join(reads), bytes_wanted)


@given(st.lists(frames, min_size=1, max_size=3), st.data())
@settings(max_examples=120)
def test_so_do_damaged_ones(everlasting: Both, reads: list[bytes], data: st.DataObject) -> None:
    read = bytearray(b"".join(reads))
    for _ in range(data.draw(st.integers(1, 3))):
        read[data.draw(st.integers(8, len(read) - 1))] = data.draw(st.integers(0, 255) | st.sampled_from(b'"\\{},:01'))
    everlasting.take(bytes(read))
    for side in (everlasting.quick, everlasting.slow):
        side.reader.clear()


# -- what is plain -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [NATIVE, JSON])
@pytest.mark.parametrize("kind", [SendMessage, SendMessageV2])
def test_plain_sends_need_no_call(both: Both, codec: int, kind: type[SendMessage]) -> None:
    frame = codec_for(codec).encode_request(sent(kind), 7, False)
    both.take(frame)
    assert both.calls_of(frame * 5) == 0
    assert both.calls_of(frame * 3 + frame[:40]) == 0
    assert both.quick.reader.unread_bytes == 40


def test_neither_do_many(tmp_path: Path) -> None:
    both = Both(tmp_path, mapped_file_size_commit_log=16 * SEGMENT_BYTES)
    request = many(*[one_of_many(queue_id=number % 4, body=bytes(number + 1)) for number in range(40)])
    frame = codec_for(NATIVE).encode_request(request, 7, False)
    (answer,) = both.take(frame)
    ((_, envelope, body),) = answers_in(answer)
    assert envelope.opaque == 7
    assert len(msgspec.msgpack.decode(body)) == 40
    assert both.calls_of(frame) == 0


def test_of_many_nothing_is_stored_twice_when_one_is_not_plain(both: Both) -> None:
    whole = many(one_of_many(), one_of_many(queue_id=3), one_of_many(sys_flag=1), one_of_many())
    frames = [codec_for(NATIVE).encode_request(request, 7, False) for request in (many(one_of_many()), whole)]
    for read in (frames[1], frames[0] + frames[1], frames[1] + frames[0]):
        both.take(read)


def test_many_queues_in_one_request(tmp_path: Path) -> None:
    both = Both(tmp_path, mapped_file_size_commit_log=16 * SEGMENT_BYTES)
    topics = [f"topic-{number}" for number in range(200)]
    for side in (both.quick, both.slow):
        side.tables.topics.topics.update({name: TopicConfig(name, 4, 4) for name in topics})
    request = many(*[one_of_many(topic=name, queue_id=number % 4) for number, name in enumerate(topics * 3)])
    frame = codec_for(NATIVE).encode_request(request, 7, False)
    both.take(frame)
    both.take(frame)
    assert both.calls_of(frame) == 0


def test_a_run_ends_where_its_segment_does(both: Both) -> None:
    frame = codec_for(NATIVE).encode_request(sent(body=bytes(1_500)), 7, False)
    for _ in range(8):
        both.take(frame * 5)
    assert both.slow.state.store.max_position > 3 * SEGMENT_BYTES


def test_a_store_that_refuses_refuses_as_one_by_one(both: Both) -> None:
    for side in (both.quick, both.slow):
        side.state.store.refuse(StorageError("full"))
    frame = codec_for(NATIVE).encode_request(sent(), 7, False)
    assert all(b"full" in answer for answer in both.take(frame * 3))


@pytest.mark.parametrize("hosts", [(IPV6[0], IPV4[1]), (IPV4[0], IPV6[1]), IPV6])
def test_ipv6_ends_as_one_by_one(tmp_path: Path, hosts: tuple[bytes, bytes]) -> None:
    both = Both(tmp_path, hosts)
    both.take(b"".join(codec_for(codec).encode_request(sent(), 7, False) for codec in (NATIVE, NATIVE, JSON, JSON)))
    both.take(codec_for(NATIVE).encode_request(many(one_of_many(), one_of_many()), 7, False))


@pytest.mark.parametrize("settings", [{"region_id": 'a"ö%d'}, {"trace_on": False}, {"broker_cluster_name": "größer"}])
def test_settings_are_returned_and_stored(tmp_path: Path, settings: dict[str, Any]) -> None:
    both = Both(tmp_path, **settings)
    for codec in (NATIVE, JSON):
        both.take(codec_for(codec).encode_request(sent(), 7, False) * 3)


def test_new_settings_count_at_once(both: Both) -> None:
    frames = [codec_for(codec).encode_request(sent(body=bytes(500)), 7, False) * 3 for codec in (NATIVE, JSON)]
    for fields in ({"region_id": "elsewhere"}, {"max_message_size": 499}, {"max_message_size": 500}):
        for side in (both.quick, both.slow):
            side.state.use(replace(side.state.settings, **fields))
        for frame in frames:
            both.take(frame)


def test_properties_up_to_the_limit(both: Both) -> None:
    added = len(b"MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02")
    for more in (-1, 0, 1):
        text = PLAIN + "k\x01" + "v" * (PROPERTIES_BYTES_MAX - added - len(PLAIN) - 3 + more) + "\x02"
        assert len(text) + added == PROPERTIES_BYTES_MAX + more
        for codec in (NATIVE, JSON):
            both.take(codec_for(codec).encode_request(sent(properties=text, body=b"b"), 7, False) * 2)


# -- what isn't stored -------------------------------------------------------------------------------------------------


def mixed() -> bytes:
    """Sends of both codecs, and many, in one read."""
    requests: list[tuple[int, Request]] = [
        (NATIVE, sent(queue_id=0)), (NATIVE, sent()), (NATIVE, many(one_of_many(), one_of_many(queue_id=3))),
        (JSON, sent()), (JSON, sent(queue_id=2)), (JSON, sent(SendMessage)), (NATIVE, sent(sys_flag=1)),
    ]  # fmt: skip
    return b"".join(codec_for(codec).encode_request(each, 50 + n, False) for n, (codec, each) in enumerate(requests))


def test_what_the_disk_refuses_is_refused_as_one_by_one(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    before = both.take(mixed())
    with monkeypatch.context() as patch:
        for side in (both.quick, both.slow):
            patch.setattr(side.state.store.log, "write", fail)
        assert all(b"No space left" in answer for answer in both.take(mixed(), 400))
    assert len(both.take(mixed())) == len(before) == 7


def test_what_the_disk_does_not_confirm_is_answered_as_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    both = Both(tmp_path, flush_disk_type="SYNC_FLUSH")
    both.take(mixed())
    for side in (both.quick, both.slow):
        monkeypatch.setattr(side.state.store.log, "sync", fail)
    answers = both.take(mixed())
    assert {next(answers_in(answer)).envelope.code for answer in answers} == {10, 0}  # A SEND_MANY has codes within.


def test_no_answer_to_a_connection_that_is_gone(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Side, "outgoing", lambda _: None)
    frame = codec_for(NATIVE).encode_request(sent(), 7, False)
    assert both.take(frame * 3) == []


def test_a_queue_that_was_deleted_gets_nothing(both: Both) -> None:
    frame = codec_for(NATIVE).encode_request(sent(), 7, False)
    both.take(frame)
    for side in (both.quick, both.slow):
        side.state.store.delete_queues("orders")
    both.take(frame * 3)
