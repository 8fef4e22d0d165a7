"""Whoever guards the handlers sees every request, in every codec, read fast or slowly, alone or among others."""

from functools import cache
from typing import Any

import pytest

from staticfire.protocol import requests  # noqa: F401 (fills REQUESTS)
from staticfire.protocol.codecs import JSON, NATIVE, ROCKETMQ, codec_for
from staticfire.protocol.command import REQUESTS, Answer, Request, declaration_of
from staticfire.protocol.frame_reader import FrameReader, Handler, Routes
from tests.fuzz.corpus import Corpus
from tests.protocol.test_frame_reader import REQUESTS as USUAL, Taken

SHORT_MAX = 0x7FFF
# RocketMQ's binary header has no room for larger codes.


class Passed:
    """All routes, and who came by."""

    def __init__(self) -> None:
        self.handled: list[int] = []
        self.guarded: list[int] = []
        self.routes = Routes()
        for code in REQUESTS:
            self.routes.add(code, lambda call, code=code: self.handled.append(code))  # type: ignore[misc]
        self.reader = FrameReader(self.routes, Taken, "source", lambda _: None)

    def guard(self, code: int, handler: Handler) -> Handler:
        def noted(_: Any) -> Answer | None:
            self.guarded.append(code)
            return None

        return noted

    def take(self, frame: bytes, is_alone: bool) -> None:
        called = self.reader.only(frame) if is_alone else None
        calls = [] if called is None else [called]
        if called is None and self.reader.receive(frame):
            calls = self.reader.calls(1 << 30) or []
        for handler, call in calls:
            handler(call)


@cache
def questions(codec: int) -> dict[int, Request]:
    """Return one request of each code that goes into a codec."""
    return Corpus(codec, 1).questions


@pytest.mark.parametrize("codec", [NATIVE, JSON, ROCKETMQ])
@pytest.mark.parametrize("is_alone", [True, False], ids=["alone", "among others"])
def test_guard_sees_every_request_of_every_kind(codec: int, is_alone: bool) -> None:
    passed = Passed()
    requested = {**questions(codec), **{declaration_of(type(request)).code: request for request in USUAL}}
    codes = [code for code in REQUESTS if code in requested]
    assert all(code > SHORT_MAX for code in REQUESTS if code not in requested)
    # Each twice, so that what is read quickly from the second one on is.
    frames = [codec_for(codec).encode_request(requested[code], code, False) for code in codes for _ in range(2)]

    def take_all() -> None:
        for frame in frames:
            passed.take(frame, is_alone)

    take_all()
    assert {declaration_of(type(request)).code for request in USUAL} < set(passed.handled)
    passed.routes.guard(passed.guard)
    passed.handled.clear()
    take_all()
    assert passed.handled == []
    assert passed.guarded == [code for code in codes for _ in range(2)]
    passed.routes.guard(None)
    take_all()
    assert passed.handled
    assert len(passed.guarded) == len(frames)


def test_guard_sees_what_is_refused_unread() -> None:
    passed = Passed()
    passed.routes.guard(passed.guard)
    header = b'{"code":4242,"language":"JAVA","version":1,"opaque":1,"flag":0}'
    passed.take((4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header, is_alone=False)
    assert passed.guarded == [4242]
