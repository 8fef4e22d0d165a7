"""Bytes in, calls out: however they are cut, whatever stands before and behind, and whenever the reader is left."""

import random
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, strategies as st

from staticfire.protocol.codecs import JSON, NATIVE, ROCKETMQ, Called, Codec, codec_for
from staticfire.protocol.command import Answer, Request
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.frame_reader import LONG_BYTES, AnswerFrame, FrameReader, Routes
from staticfire.protocol.requests.offsets import GetMaxOffset, OffsetAnswer
from staticfire.protocol.requests.pull import PullMessage
from staticfire.protocol.requests.replication import CopyAnswer
from staticfire.protocol.requests.send import SendMessageV2
from tests.cases import first_and_slow

CODECS = [codec_for(number) for number in (NATIVE, JSON, ROCKETMQ)]
SEND = SendMessageV2("g", "t", "TBW102", 4, 1, 0, 5, 0, "TAGS\x01a\x02", body=b"hello")
PULL = PullMessage("g", "t", 1, 7, 32, 3, 0, 15_000, "*", 0, "TAG")
REQUESTS: list[Request] = [SEND, PULL, GetMaxOffset("t", 3)]


class Taken(NamedTuple):
    """A call as the reader makes it."""

    request: Any
    opaque: int
    oneway: bool
    codec: Any
    source: Any


def ignore(_: Taken) -> Answer | None:
    return None


class Read:
    """A reader and what it yielded."""

    def __init__(self, *codes: int) -> None:
        routes = self.routes = Routes()
        for code in codes or (10, 310, 11, 30):
            routes.add(code, ignore)
        self.offer(routes)
        self.answers: list[AnswerFrame] = []
        self.reader = FrameReader(routes, Taken, "source", self.answers.append)
        self.calls: list[Taken] = []
        self.refusals: list[tuple[int, Answer]] = []

    def offer(self, routes: Routes) -> None:
        """Let somebody take sends."""

    def feed(self, pieces: Iterable[bytes], calls_max: int = 1_000_000, bytes_wanted: int = 1_000_000) -> "Read":
        """Have pieces read, so many bytes at once; after every `calls_max` calls the others are given back."""
        for piece in pieces:
            if not self.reader.receive(piece):
                continue
            while (calls := self.reader.calls(bytes_wanted)) is not None:
                self.reader.give_back(calls[calls_max:])
                self.take(calls[:calls_max])
        return self

    def take(self, calls: list[Called]) -> None:
        for handler, call in calls:
            answer = handler(call)
            if answer is not None:
                self.refusals.append((call.opaque, answer))
            elif isinstance(call, Taken):
                self.calls.append(call)

    def seen(self) -> list[Any]:
        """Return what came, in a form that compares."""
        return [
            (type(call.request).__name__, call.opaque, call.oneway, call.codec.number, fields(call.request))
            for call in self.calls
        ]


def fields(request: Any) -> tuple[Any, ...]:
    return tuple(getattr(request, name) for name in request.__struct_fields__)


def burst() -> bytes:
    """Requests of all kinds in all codecs, an answer and a one-way request between them."""
    frames = [
        codec.encode_request(request, opaque, False)
        for codec in CODECS
        for opaque, request in enumerate([*REQUESTS, *REQUESTS, SEND, SEND])
    ]
    frames.insert(5, CODECS[0].encode_request(SEND, 99, True))
    frames.insert(7, CODECS[1].encode_answer(OffsetAnswer(5), 98, b""))
    return b"".join(frames)


WHOLE = Read().feed([burst()])


def test_every_frame_is_a_call_in_its_order() -> None:
    assert len(WHOLE.calls) == 3 * 8 + 1
    assert [call.opaque for call in WHOLE.calls[:6]] == [0, 1, 2, 3, 4, 99]
    assert [frame.envelope.opaque for frame in WHOLE.answers] == [98]
    assert WHOLE.refusals == []
    assert WHOLE.reader.unread_bytes == 0
    assert {call.source for call in WHOLE.calls} == {"source"}


@pytest.mark.parametrize("first", first_and_slow(range(4)))
def test_cut_at_every_byte_the_calls_are_the_same(first: int) -> None:
    data = burst()
    for cut in range(first, len(data), 4):
        read = Read().feed([data[:cut], data[cut:]])
        assert read.seen() == WHOLE.seen()
        assert read.reader.unread_bytes == 0


@given(st.lists(st.integers(0, len(burst())), max_size=30), st.integers(1, 5), st.integers(1, len(burst())))
def test_in_any_pieces_and_left_at_any_call_they_are_the_same(
    cuts: list[int], calls_max: int, bytes_wanted: int
) -> None:
    data, places = burst(), [0, *sorted(cuts), len(burst())]
    pieces = [data[begin:end] for begin, end in pairwise(places)]
    read = Read().feed([piece for piece in pieces if piece], calls_max, bytes_wanted)
    assert read.seen() == WHOLE.seen()
    assert read.reader.unread_bytes == 0


def test_frames_that_come_alone_are_the_same_calls() -> None:
    read, data = Read(), burst()
    while data:
        frame, data = data[: (end := 4 + int.from_bytes(data[:4], "big"))], data[end:]
        called = read.reader.only(frame)
        if called is None:
            assert not read.calls  # What begins a connection is looked at more closely.
            read.feed([frame])
        else:
            read.take([called])
    assert read.seen() == WHOLE.seen()
    assert read.answers == WHOLE.answers
    assert read.reader.peer == WHOLE.reader.peer
    assert read.reader.codec is WHOLE.reader.codec
    assert read.reader.unread_bytes == 0


@pytest.mark.parametrize(
    "piece", [b"\0\0\0\4\x07\0\0\0", b"\0\0\0\6\0\0\0\2{]", b"\0\0\0\5\0\0\0\2{", b"\0\0\0\3\0\0\0"]
)
def test_what_is_no_frame_is_left_to_the_closer_look(piece: bytes) -> None:
    read = Read().feed([CODECS[1].encode_request(SEND, 1, False)])
    assert read.reader.only(piece) is None
    read.reader.receive(piece)
    if len(piece) >= 8:
        with pytest.raises(ProtocolError):
            read.reader.calls(1_000_000)


def test_no_more_is_read_than_is_wanted() -> None:
    read, frame = Read(), CODECS[0].encode_request(SEND, 1, False)
    read.reader.receive(frame * 6)
    counts = []
    while (calls := read.reader.calls(2 * len(frame) - 1)) is not None:
        counts.append((len(calls), read.reader.unread_bytes))
    assert counts == [(2, 4 * len(frame)), (2, 2 * len(frame)), (2, 0)]


def test_byte_by_byte_nothing_is_joined_before_it_is_whole() -> None:
    read = Read()
    frame = CODECS[0].encode_request(SEND, 1, False)
    assert [read.reader.receive(bytes([byte])) for byte in frame[:7]] == [False] * 7
    read.feed([frame[7:8]])
    assert [read.reader.receive(bytes([byte])) for byte in frame[8:-1]] == [False] * (len(frame) - 9)
    assert read.feed([frame[-1:]]).seen()[0][:2] == ("SendMessageV2", 1)


def test_bytes_that_come_while_calls_wait_are_behind_them() -> None:
    read, frames = Read(), [CODECS[0].encode_request(SEND, opaque, False) for opaque in range(6)]
    read.reader.receive(b"".join(frames[:4]))
    calls = read.reader.calls(len(frames[0]) + 1)
    assert calls is not None
    read.calls.append(calls[0][1])
    read.reader.give_back(calls[1:])
    assert read.reader.unread_bytes == sum(map(len, frames[2:4]))
    read.feed([frames[4], frames[5]])
    assert [call.opaque for call in read.calls] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("codec", CODECS, ids=["native", "json", "rocketmq"])
def test_what_has_no_handler_or_cant_be_read_is_refused_in_its_place(codec: Any) -> None:
    unknown, unread = codec.encode_request(SEND, 1, False), codec.encode_request(GetMaxOffset("t", 3), 2, False)
    unread = (
        unread.replace(b"\xa1t\x03", b"\xa1t\xc0").replace(b'"3"', b'"x"').replace(b"\x00\x00\x013", b"\x00\x00\x01x")
    )
    read = Read(11, 30).feed([unknown + unread + codec.encode_request(PULL, 3, False)])
    assert [(opaque, answer.code) for opaque, answer in read.refusals] == [(1, 3), (2, 1)]
    assert "GET_MAX_OFFSET" in str(read.refusals[1][1].remark)
    assert [call.opaque for call in read.calls] == [3]


def test_peer_and_codec_are_those_of_the_last_request() -> None:
    read = Read()
    for codec in CODECS:
        read.feed([codec.encode_request(SEND, 1, False)])
        assert read.reader.codec is not None
        assert read.reader.codec.number == codec.number
        assert read.reader.peer.version > 0


@pytest.mark.parametrize("frame", ["00000003 00000000", "00000010 00000040", "00000004 07000000", "ff" * 16])
def test_bytes_that_are_no_frame_raise_behind_the_frames_before_them(frame: str) -> None:
    read = Read()
    before = b"" if frame == "ff" * 16 else CODECS[0].encode_request(SEND, 1, False)
    with pytest.raises(ProtocolError):
        read.feed([before + bytes.fromhex(frame)])
    assert len(read.calls) == (1 if before else 0)


def test_garbage_raises_protocol_errors_and_nothing_else() -> None:
    chance = random.Random(11)
    for _ in range(1_500):
        data = bytearray(burst())
        for _ in range(chance.randrange(1, 8)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        cut = chance.randrange(len(data))
        try:
            Read().feed([bytes(data[:cut]), bytes(data[cut:])], chance.randrange(1, 9), chance.randrange(1, len(data)))
        except ProtocolError:
            continue


# -- sends that somebody takes without a call --------------------------------------------------------------------------


class Runs:
    """Takes sends with the body `plain`, and notes it beside the calls that are made of the others."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.offers = 0

    def take(self, codec: Codec, data: bytes, at: int, stop: int, alike: tuple[Any, ...], source: Any) -> int:
        self.offers += 1
        if codec.number == NATIVE:
            assert alike == (data[at + 19 : at + 25],) or len(data) < at + 25
        else:
            assert (alike[0], alike[1] > 0) == (b"PYTHON", True)
        while at < stop and (end := at + 4 + int.from_bytes(data[at : at + 4], "big")) <= len(data):
            if data[at + 4] != codec.number or not data[at:end].endswith(b"plain"):
                break
            header_end = at + 8 + int.from_bytes(data[at + 5 : at + 8], "big")
            self.seen.append(codec.decode_envelope(data[at + 8 : header_end]).opaque)
            at = end
        return at


class TakenRead(Read):
    """A reader that has sends taken."""

    def __init__(self, *codes: int) -> None:
        self.runs = Runs()
        super().__init__(*codes)

    def offer(self, routes: Routes) -> None:
        routes.offer_sends(self.runs)

    def take(self, calls: list[Called]) -> None:
        self.runs.seen += [call.opaque for _, call in calls if call is not None]


def mixed(kinds: Iterable[tuple[bool, Codec]]) -> list[bytes]:
    """Return sends, plain ones and others, and now and then a pull, which no one takes."""
    frames = []
    for opaque, (is_plain, codec) in enumerate(kinds):
        request: Request = PULL if opaque % 7 == 6 else SendMessageV2("g", "t", "TBW102", 4, 1, 0, 5, 0, "")
        request.body = b"" if opaque % 7 == 6 else b"plain" if is_plain else b"not so"
        frames.append(codec.encode_request(request, opaque, False))
    return frames


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from(CODECS[:2])), max_size=60),
    st.lists(st.integers(0, 10_000), max_size=20),
    st.integers(1, 9),
    st.integers(1, 2_000),
)
def test_sends_that_are_taken_keep_their_places_among_the_others(
    kinds: list[tuple[bool, Codec]], cuts: list[int], calls_max: int, bytes_wanted: int
) -> None:
    data = b"".join(mixed(kinds))
    places = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    read = TakenRead()
    read.feed([data[begin:end] for begin, end in pairwise(places) if end > begin], calls_max, bytes_wanted)
    assert read.runs.seen == list(range(len(kinds)))
    assert read.reader.unread_bytes == 0


@pytest.mark.parametrize("codec", CODECS[:2], ids=["native", "json"])
def test_sends_of_which_none_is_taken_are_offered_ever_less_often(codec: Codec) -> None:
    read, frame = TakenRead(), codec.encode_request(SEND, 1, False)
    for _ in range(1_000):
        called = read.reader.only(frame)
        if called is None:
            read.feed([frame])
    assert read.runs.offers < 30
    plain = SendMessageV2("g", "t", "TBW102", 4, 1, 0, 5, 0, "", body=b"plain")
    read.runs.seen.clear()
    read.feed([codec.encode_request(plain, opaque, False) * 10 for opaque in range(100)])
    assert len(read.runs.seen) == 1_000
    assert read.runs.offers < 140


class Watched(bytes):
    """Bytes that count how many of them are copied by slicing."""

    copied = 0

    def __getitem__(self, key: Any) -> Any:
        got = super().__getitem__(key)
        if not isinstance(key, slice):
            return got
        Watched.copied += len(got)
        return Watched(got)


@pytest.mark.parametrize("codec", CODECS[:2], ids=["native", "json"])
def test_a_long_read_is_not_copied_again_for_each_send_that_is_not_taken(
    codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watched, "copied", 0)
    read, sends = TakenRead(), []
    for opaque in range(1_000):
        request = SendMessageV2("g", "t", "TBW102", 4, 1, 0, 5, 0, "", body=b"plain" if opaque % 2 else b"not so")
        sends.append(codec.encode_request(request, opaque, False))
    data = Watched(b"".join(sends[2:]))
    read.feed([*sends[:2], data])
    assert read.runs.seen == list(range(len(sends)))
    assert read.runs.offers >= len(sends) // 2 - 1
    assert Watched.copied < 5 * len(data)


@pytest.mark.parametrize("codec", CODECS[:2], ids=["native", "json"])
def test_an_open_reader_offers_sends_to_what_replaces_the_handlers(codec: Codec) -> None:
    plain = SendMessageV2("g", "t", "TBW102", 4, 1, 0, 5, 0, "", body=b"plain")
    read, others = TakenRead(), TakenRead()
    routes = read.routes

    def send(opaque: int) -> None:
        read.feed([codec.encode_request(plain, opaque, False)])

    for opaque in range(3):
        send(opaque)
    offers = read.runs.offers
    routes.guard(lambda _, handler: handler)
    send(3)
    assert read.runs.offers == offers > 0
    routes.guard(None)
    routes.take_over(others.routes)
    send(4)
    assert (read.runs.seen, others.runs.seen) == ([0, 1, 2, 3], [4])


def long_answer(opaque: int, body_bytes: int) -> bytes:
    return CODECS[0].encode_answer(CopyAnswer(body=bytes(range(256)) * (body_bytes // 256)), opaque)


@given(
    st.lists(st.integers(0, 4 * LONG_BYTES), max_size=6),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(1, 3 * LONG_BYTES),
)
def test_long_responses_in_any_pieces_are_whole(cuts: list[int], before: int, after: int, bytes_wanted: int) -> None:
    frames = [CODECS[0].encode_request(PULL, opaque, False) for opaque in range(before)]
    frames += [long_answer(50, 2 * LONG_BYTES), long_answer(51, LONG_BYTES)]
    frames += [CODECS[0].encode_request(SEND, opaque, False) for opaque in range(after)]
    data = b"".join(frames)
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    read = Read().feed([data[begin:end] for begin, end in pairwise(places) if begin < end], bytes_wanted=bytes_wanted)
    assert [frame.envelope.opaque for frame in read.answers] == [50, 51]
    assert [frame.body for frame in read.answers] == [bytes(range(256)) * (2 * 512), bytes(range(256)) * 512]
    assert len(read.calls) == before + after
    assert read.reader.unread_bytes == 0


def test_a_long_request_in_pieces_is_a_call() -> None:
    body = bytes(2 * LONG_BYTES)
    data = CODECS[0].encode_request(msgspec.structs.replace(SEND, body=body), 5, False)
    read = Read().feed([data[:1000], data[1000:LONG_BYTES], data[LONG_BYTES:]])
    assert [call.request.body for call in read.calls] == [body]
