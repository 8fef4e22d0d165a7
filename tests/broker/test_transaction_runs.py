"""What the compiled twin makes of half messages and their ends is what the handlers make of them, one by one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from staticfire.broker.handlers.send_runs import answers_in
from staticfire.broker.transactions import ending
from staticfire.broker.transactions.open_halves import RECENT_MAX
from staticfire.protocol import compiled
from staticfire.protocol.codecs import JSON, NATIVE, codec_for
from staticfire.protocol.command import answer_shape
from staticfire.protocol.message_ids import parse_offset_id
from staticfire.protocol.names import OP_HALF_TOPIC
from staticfire.protocol.requests.send import SendAnswer
from staticfire.protocol.requests.transactions import EndTransaction
from tests.broker.two_brokers import IPV6, PLAIN, SEGMENT_BYTES, UNIQUE_ID, Both, Side, many, one_of_many, sent

pytestmark = pytest.mark.skipif(
    compiled.twin is None, reason="built without a compiler, or STATICFIRE_PURE_PYTHON is set"
)

HALF = PLAIN + "TRAN_MSG\x01true\x02PGROUP\x01shop\x02"
COMMIT, ROLLBACK = 8, 12


class BothWithHalves(Both):
    """Two brokers that also have to know of the same transactions."""

    def take(self, read: bytes, bytes_wanted: int = 1 << 62) -> list[bytes]:
        answers = super().take(read, bytes_wanted)
        assert _known(self.quick) == _known(self.slow)
        return answers

    def begin(self, codec: int = NATIVE, **fields: Any) -> EndTransaction:
        """Have both store a half message; return what commits it."""
        (frame,) = answers_in(self.take(half(codec, **fields))[0])
        assert frame.envelope.code == 0
        answer = frame.codec.decode_answer(answer_shape(SendAnswer), frame.envelope, frame.body)
        assert isinstance(answer, SendAnswer)
        position = parse_offset_id(answer.msg_id or "")[1]
        return EndTransaction("shop", answer.queue_offset or 0, position, COMMIT, False, UNIQUE_ID, UNIQUE_ID, "orders")


def _known(side: Side) -> tuple[object, ...]:
    """Return the open half messages, those that are being ended, those that are kept, and when somebody is asked."""
    service = side.broker.transactions
    return (
        service._open.halves,  # house: the compiled path keeps exactly what the other one keeps
        service._ending.offsets,  # house: the same
        list(service._recent.by_position),  # house: the same
        service.next_due_ms(),
    )


def half(codec: int = NATIVE, opaque: int = 7, **fields: Any) -> bytes:
    return codec_for(codec).encode_request(sent(**{"properties": HALF} | fields), opaque, False)


def end(request: EndTransaction, codec: int = NATIVE, oneway: bool = False, opaque: int = 8) -> bytes:
    return codec_for(codec).encode_request(request, opaque, oneway)


@pytest.fixture
def both(tmp_path: Path) -> BothWithHalves:
    return BothWithHalves(tmp_path)


# -- anything at all ---------------------------------------------------------------------------------------------------

entries = st.tuples(
    st.sampled_from(["TRAN_MSG", "PGROUP", "TAGS", "REAL_TOPIC", "XREAL_QID", "CHECK_IMMUNITY_TIME_IN_SECONDS", "DELAY",
                     "__transactionId__", "XTRAN_MSG", "KEYS"]),
    st.sampled_from(["true", "TRUE", "false", "", "3", "shop", "other", "größer"]),
)  # fmt: skip
texts = st.lists(entries, max_size=3).map(lambda pairs: "".join(f"{name}\x01{value}\x02" for name, value in pairs))
halves = st.fixed_dictionaries(
    {
        "properties": st.just(HALF) | texts.map(lambda text: HALF + text) | texts.map(lambda text: text + HALF),
        "queue_id": st.integers(-1, 5),
        "topic": st.sampled_from(["orders", "orders", "größer", "many", "x" * 127, "unknown"]),
        "sys_flag": st.sampled_from([0, 4, 4, 4, 8, 1]),
        "body": st.binary(min_size=1, max_size=60),
    }
)  # fmt: skip
ends = st.fixed_dictionaries(
    {},
    optional={
        "producer_group": st.sampled_from(["other", "größer", ""]),
        "tran_state_table_offset": st.integers(-2, 3) | st.just(1 << 40),
        "commit_log_offset": st.integers(-2, 5_000),
        "commit_or_rollback": st.sampled_from([COMMIT, ROLLBACK, ROLLBACK, 0, 4]),
        "from_transaction_check": st.sampled_from([None, True]),
        "msg_id": st.sampled_from(["", "größer"]),
        "transaction_id": st.none(),
        "topic": st.none(),
        "remark": st.sampled_from(["", "why"]),
    },
)
codecs = st.sampled_from([NATIVE, JSON])


@pytest.fixture(scope="module")
def everlasting(tmp_path_factory: pytest.TempPathFactory) -> BothWithHalves:
    return BothWithHalves(tmp_path_factory.mktemp("runs"))


@given(
    st.lists(st.tuples(codecs, halves), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), ends | st.just({}), codecs, st.booleans()), max_size=8),
    st.integers(1, 3_000),
)
@settings(max_examples=60)
def test_any_transactions_end_as_one_by_one(
    everlasting: BothWithHalves,
    begun: list[tuple[int, dict[str, Any]]],
    ended: list[tuple[int, dict[str, Any], int, bool]],
    bytes_wanted: int,
) -> None:
    answers = everlasting.take(b"".join(half(codec, **fields) for codec, fields in begun), bytes_wanted)
    places = []
    for answer in answers:
        ((answered, envelope, body),) = answers_in(answer)
        if envelope.code == 0:
            shown = answered.decode_answer(answer_shape(SendAnswer), envelope, body)
            assert isinstance(shown, SendAnswer)
            places.append((shown.queue_offset or 0, parse_offset_id(shown.msg_id or "")[1]))
    frames = [half()]
    for number, fields, codec, oneway in ended:
        if places:
            request = EndTransaction("shop", *places[number % len(places)], COMMIT)
            for name, value in fields.items():
                setattr(request, name, value)
            frames.append(end(request, codec, oneway))
    everlasting.take(b"".join(frames), bytes_wanted)


@given(st.data())
@settings(max_examples=40)
def test_so_do_damaged_ones(everlasting: BothWithHalves, data: st.DataObject) -> None:
    request = everlasting.begin()
    codec = data.draw(codecs)
    read = bytearray(half(codec) + end(request, codec) + half(codec))
    for _ in range(data.draw(st.integers(1, 3))):
        read[8 + data.draw(st.integers(0, 1 << 16)) % (len(read) - 8)] = data.draw(
            st.integers(0, 255) | st.sampled_from(b'"\\{},:01')
        )
    everlasting.take(bytes(read))
    for side in (everlasting.quick, everlasting.slow):
        side.reader.clear()
        side.reader._ended_by = ""  # house: a length may have been damaged; the next example begins anew


# -- what is plain -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("oneway", [False, True])
@pytest.mark.parametrize("codec", [NATIVE, JSON])
def test_a_transaction_needs_no_call(both: BothWithHalves, codec: int, oneway: bool) -> None:
    both.take(half(codec, sys_flag=4))
    requests = [both.begin(codec, topic=topic, sys_flag=4) for topic in ("orders", "orders", "orders")]
    requests[1].commit_or_rollback = ROLLBACK
    whole = half(codec) + b"".join(end(request, codec, oneway) for request in requests) + half(codec)
    assert both.calls_of(whole) == 0
    both.slow.take(whole)
    assert _known(both.quick) == _known(both.slow)
    assert both.quick.stored(0) == both.slow.stored(0)
    assert sorted(both.quick.answers()) == sorted(both.slow.answers())


def test_what_python_has_stored_is_left_to_it(both: BothWithHalves) -> None:
    request = both.begin(properties=HALF.replace("true", "TRUE"))
    assert both.calls_of(end(request)) == 1


def test_of_many_none_is_a_half(both: BothWithHalves) -> None:
    both.take(codec_for(NATIVE).encode_request(many(one_of_many(properties=HALF.encode())), 7, False))


def test_nothing_ends_twice(both: BothWithHalves) -> None:
    request = both.begin()
    both.take(end(request) * 2)
    both.take(end(request) + end(request, JSON))
    assert both.slow.state.store.queue("orders", 1).next_offset == 3


@pytest.mark.parametrize(
    "kinds", [(COMMIT, COMMIT, COMMIT), (ROLLBACK, ROLLBACK, ROLLBACK), (COMMIT, ROLLBACK, COMMIT)]
)
def test_one_record_says_what_a_burst_has_ended(
    both: BothWithHalves, monkeypatch: pytest.MonkeyPatch, kinds: list[int]
) -> None:
    monkeypatch.setattr(ending, "OFFSETS_MAX", 4)
    requests = [both.begin() for _ in range(6)]
    for number, request in enumerate(requests):
        request.commit_or_rollback = kinds[number % 3]
    both.take(b"".join(map(end, requests[:3])))
    ends = both.slow.state.store.queue(OP_HALF_TOPIC, 0)
    assert ends.next_offset == 1
    both.take(b"".join(map(end, [*requests[3:], both.begin(), both.begin()])))
    assert ends.next_offset == 3
    assert _known(both.slow)[:2] == ({}, set())


@pytest.mark.parametrize("kind", [COMMIT, ROLLBACK])
def test_an_end_that_is_not_stored_is_not_acknowledged(
    both: BothWithHalves, monkeypatch: pytest.MonkeyPatch, kind: int
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    request = both.begin()
    request.commit_or_rollback = kind
    with monkeypatch.context() as patch:
        for side in (both.quick, both.slow):
            patch.setattr(side.state.store.log, "write", fail)
        (answer,) = both.take(end(request))
        assert b"the end of the transaction could not be stored" in answer
    assert len(both.slow.broker.transactions) == 1
    (answer,) = both.take(end(request))
    assert next(answers_in(answer)).envelope.code == 0
    assert len(both.slow.broker.transactions) == 0


def test_a_second_commit_is_repeated_where_a_setting_says_so(tmp_path: Path) -> None:
    both = BothWithHalves(tmp_path, repeat_ended_commits=True)
    request = both.begin()
    both.take(end(request) * 3)


@pytest.mark.parametrize("hosts", [IPV6])
def test_ipv6_ends_as_one_by_one(tmp_path: Path, hosts: tuple[bytes, bytes]) -> None:
    both = BothWithHalves(tmp_path, hosts)
    answers = both.take(half(JSON) * 2)
    assert len(answers) == 2
    for position in range(both.slow.state.store.max_position):
        if both.slow.state.store.record_at(position) is not None and position > 2_000:
            both.take(end(EndTransaction("shop", 0, position, COMMIT), JSON))


def test_a_transaction_at_the_end_of_a_segment(both: BothWithHalves) -> None:
    for _ in range(12):
        both.take(end(both.begin(body=bytes(1_700))) + half(body=bytes(300)))
    assert both.slow.state.store.max_position > 3 * SEGMENT_BYTES


def test_more_are_open_than_are_kept(tmp_path: Path) -> None:
    both = BothWithHalves(tmp_path, mapped_file_size_commit_log=1 << 24)
    first, second = both.begin(), both.begin()
    both.take(half(body=b"x") * (RECENT_MAX - 1))
    assert both.calls_of(end(first)) == 1
    assert both.calls_of(end(second)) == 0


def test_large_bodies_are_read_again(tmp_path: Path) -> None:
    both = BothWithHalves(tmp_path, mapped_file_size_commit_log=1 << 20, max_message_size=1 << 16)
    for size in (8_192, 8_193):
        both.take(end(both.begin(body=bytes(size))))


def test_settings_and_faults_count_at_once(both: BothWithHalves) -> None:
    request = both.begin()
    for side in (both.quick, both.slow):
        side.state.use(replace(side.state.settings, reject_transaction_message=True))
    both.take(half() + end(request))
    for side in (both.quick, both.slow):
        side.state.use(replace(side.state.settings, reject_transaction_message=False))
        side.broker.dispatcher.routes.guard(lambda _, handler: handler)
    request.commit_or_rollback = ROLLBACK
    assert both.calls_of(half()) == 1
    assert both.calls_of(end(request)) == 1


# -- what isn't stored -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [NATIVE, JSON])
def test_what_the_disk_refuses_is_open_still(both: BothWithHalves, monkeypatch: pytest.MonkeyPatch, codec: int) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    request = both.begin(codec)
    whole = half(codec, 21) + end(request, codec, opaque=22) + end(request, codec, oneway=True)
    with monkeypatch.context() as patch:
        for side in (both.quick, both.slow):
            patch.setattr(side.state.store.log, "write", fail)
        answers = both.take(whole)
        assert len(answers) == 2
        assert any(b"the end of the transaction could not be stored" in answer for answer in answers)
    assert len(both.slow.broker.transactions) == 1
    both.take(whole)
    assert len(both.slow.broker.transactions) == 1


def test_what_the_disk_does_not_confirm_has_begun_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    both = BothWithHalves(tmp_path, flush_disk_type="SYNC_FLUSH")
    request = both.begin()
    for side in (both.quick, both.slow):
        monkeypatch.setattr(side.state.store.log, "sync", fail)
    answers = both.take(half() + end(request))
    assert sorted(next(answers_in(answer)).envelope.code for answer in answers) == [0, 10]


def test_what_is_forgotten_is_kept_no_more(both: BothWithHalves) -> None:
    request = both.begin()
    for side in (both.quick, both.slow):
        side.broker.transactions.forget()
    assert both.calls_of(end(request)) == 1


def test_ended_halves_leave_the_heap(tmp_path: Path) -> None:
    both = BothWithHalves(tmp_path, mapped_file_size_commit_log=1 << 24)
    kept = both.begin()
    for _ in range(90):
        answers = both.take(b"".join(half(opaque=number, body=b"x") for number in range(50)))
        requests = []
        for answer in answers:
            ((codec, envelope, body),) = answers_in(answer)
            shown = codec.decode_answer(answer_shape(SendAnswer), envelope, body)
            assert isinstance(shown, SendAnswer)
            requests.append(EndTransaction("shop", shown.queue_offset or 0, parse_offset_id(shown.msg_id or "")[1], 12))
        both.take(b"".join(map(end, requests)))
    transactions = both.quick.broker.transactions
    assert len(transactions._open._due) < 4_200  # house: only memory shows how long a heap is
    assert len(transactions) == 1
    both.take(end(kept))
    assert len(transactions) == 0
