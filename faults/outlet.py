"""Apply fault rules to everything that leaves a server: responses and its own requests, frame by frame.

`Outlet._leave` decides which rules apply to a frame, and `_carry_out` drops, damages, repeats, delays or slows it.

An outlet replaces the transport of a connection, so all data passes through it, however it was written. A response is
judged by its request, which the gate records here. If the request came before the server had any rule, only its
connection is known: client, address, language.

Like on a real line, a frame that is sent slowly delays all frames after it. A delayed frame also delays the delayed
frames after it. Delayed requests wait here as well, in their own order: they don't delay responses. When a rule ends,
what it delays or slows leaves at once.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from struct import Struct
from typing import Any, Protocol

import msgspec

from staticfire.faults import actions
from staticfire.faults.book import Ruling
from staticfire.faults.bundles import Refused, together
from staticfire.faults.delayed import DelayedFrames
from staticfire.faults.matching import FaultPeer, Subject, subject_of
from staticfire.faults.statuses import with_other_code
from staticfire.protocol.codecs import ANSWER_FLAG, Codec, Envelope, codec_for
from staticfire.protocol.command import REQUESTS, answer_shape
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.requests.send import SendManyAnswer
from staticfire.runtime.connection import Connection
from staticfire.runtime.machine import Clock

# The number of open requests that are recorded per connection. For older ones, only the connection is known.
OPEN_REQUESTS_MAX = 100_000
# The number of delayed frames per connection. A peer that sends more into a long delay is disconnected.
DELAYED_MAX = 100_000
# Above this, the connection is notified that its peer doesn't read what is written.
QUEUED_BYTES_MAX = 4 * 1024 * 1024
STEPS_PER_SECOND = 20
HEAD_BYTES = 8
_head = Struct(">II").unpack_from


class Judge(Protocol):
    """Decides about a request or a response."""

    def judge(self, direction: str, subject: Subject) -> Ruling | None:
        """Return the decision; None: no rule hits."""

    def concerns(self, code: int) -> bool:
        """Return whether a rule may apply to the response to a request with that code."""


class OpenRequest(msgspec.Struct, gc=False):
    """A request that waits for its response."""

    subject: Subject | None
    """None: rules don't apply to its response; or no rule was about the request, and `code` and `request` have it."""
    refused: Refused = {}
    """The messages that were removed from it."""
    code: int = -1
    """The code of a request that no rule was about. There may be one when its response is sent."""
    request: Any = None


class Outlet:
    """Replaces the transport of one connection."""

    def __init__(self, connection: Connection, transport: asyncio.Transport, judge: Judge, clock: Clock) -> None:
        self.transport = transport
        """The transport that it replaces."""
        self._peer = FaultPeer(connection.peer.address)
        self._connection = connection
        self._judge = judge
        self._clock = clock
        self._pending: dict[int, OpenRequest] = {}
        self._slow: deque[tuple[bytes, Ruling | None]] = deque()
        self._slow_bytes = 0
        self._slow_timer: asyncio.TimerHandle | None = None
        self._is_pausing = False
        self._delayed = {actions.REQUEST: DelayedFrames(), actions.ANSWER: DelayedFrames()}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)

    def peer(self) -> FaultPeer:
        """Return what is known so far about the peer."""
        peer, connection = self._peer, self._connection
        peer.language = connection.peer.language
        peer.client = connection.client_id or peer.client
        return peer

    def note(self, opaque: int, pending: OpenRequest) -> None:
        """Record a request until its response is sent."""
        if len(self._pending) >= OPEN_REQUESTS_MAX:
            del self._pending[next(iter(self._pending))]
        self._pending[opaque] = pending

    # -- the methods of a transport ----------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send complete frames, as the rules decide."""
        at, end = 0, len(data)
        while at < end:
            length, word = _head(data, at)
            frame = data[at : at + 4 + length]
            self._leave(frame, HEAD_BYTES + (word & 0xFFFFFF), word >> 24)
            at += 4 + length

    def close(self) -> None:
        """Write slow frames at once, then close."""
        while self._slow:
            self.transport.write(self._slow.popleft()[0])
        self.transport.close()

    # -- frames ------------------------------------------------------------------------------------------------------

    def _leave(self, frame: bytes, body_at: int, codec_byte: int) -> None:
        codec = codec_for(codec_byte)
        envelope = codec.decode_envelope(frame[HEAD_BYTES:body_at])
        if not envelope.flag & ANSWER_FLAG:
            own = self._subject_of_ours(codec, envelope, frame[body_at:])
            self._carry_out(frame, body_at, self._judge.judge(actions.SERVER, own))
            return
        pending = self._pending.pop(envelope.opaque, None)
        if pending is not None and pending.request is not None:
            if not self._judge.concerns(pending.code):
                self._put(frame, None)
                return
            pending.subject = subject_of(pending.code, pending.request, self.peer())
        if pending is not None and pending.refused:
            frame = _whole_answer(codec, envelope, frame[body_at:], pending.refused)
        subject: Subject | None = self.peer().unknown() if pending is None else pending.subject
        ruling = None if subject is None else self._judge.judge(actions.ANSWER, subject)
        if ruling is not None and subject is not None:
            replaced = with_other_code(codec, envelope, frame[body_at:], subject.code, ruling)
            if replaced is not None:
                frame, body_at = replaced, HEAD_BYTES + (_head(replaced)[1] & 0xFFFFFF)
        self._carry_out(frame, body_at, ruling)

    def _subject_of_ours(self, codec: Codec, envelope: Envelope, body: bytes) -> Subject:
        """Return the parts of one of the server's own requests that rules look at."""
        known = self.peer()
        peer = FaultPeer(known.address, known.language, known.client, known.broker)
        request = None
        if envelope.code in REQUESTS:
            try:
                request = codec.decode_request(REQUESTS[envelope.code], envelope, body)
            except ProtocolError:
                # The server encoded this request but can't decode it. It is identified by its code.
                pass
        return subject_of(envelope.code, request, peer)

    def _carry_out(self, frame: bytes, body_at: int, ruling: Ruling | None) -> None:
        if ruling is None:
            self._put(frame, None)
            return
        if ruling.end is not None and ruling.end.action != actions.REFUSE:
            if ruling.end.action == actions.CLOSE:
                self.transport.abort()
            return
        if ruling.damage is not None:
            frame = _damaged(frame, body_at, ruling.damage)
        data = frame * (1 + ruling.duplicates)
        if ruling.delay_ms:
            self.later(actions.ANSWER, ruling, partial(self._put, data, ruling))
        else:
            self._put(data, ruling)

    def later(self, direction: str, ruling: Ruling, act: Callable[[], object]) -> None:
        """Call a function after the delay of a ruling, and after everything of that direction that is already delayed.

        `direction`: REQUEST for incoming requests, ANSWER for everything that leaves.
        """
        if sum(map(len, self._delayed.values())) >= DELAYED_MAX:
            self._connection.reject(
                f"fault rules delay {DELAYED_MAX} of its requests and responses, which is the limit"
            )
            return
        self._delayed[direction].add(self._now_s(), ruling, act)
        if direction not in self._timers:
            self._plan(direction)

    def release(self, numbers: Iterable[int] | None) -> None:
        """End the effects of the rules with these numbers on everything that waits here; None: those of all rules."""
        for _, ruling in self._slow:
            if ruling is not None:
                ruling.release(numbers)
        if self._slow_timer is not None:
            self._slow_timer.cancel()
            self._step()
        for direction, delayed in self._delayed.items():
            delayed.release(numbers)
            self._act(direction, self._now_s())

    def _plan(self, direction: str) -> None:
        due_s = self._delayed[direction].due_s
        if due_s is not None:
            self._timers[direction] = asyncio.get_running_loop().call_at(due_s, self._act, direction, due_s)

    def _act(self, direction: str, due_s: float) -> None:
        """Let the frames leave that are due until then, and plan the next call."""
        timer = self._timers.pop(direction, None)
        if timer is not None:
            timer.cancel()
        try:
            while (frame := self._delayed[direction].take_due(due_s)) is not None:
                frame.leave()
        finally:
            self._plan(direction)

    # -- limited bandwidth -------------------------------------------------------------------------------------------

    def _put(self, data: bytes, ruling: Ruling | None) -> None:
        """Write data now, or after the slow data. `ruling`: has the limit of its bandwidth."""
        if self.transport.is_closing():
            # The connection was closed during the delay.
            return
        if not self._slow and (ruling is None or not ruling.limits):
            self.transport.write(data)
            return
        self._slow.append((data, ruling))
        self._slow_bytes += len(data)
        if self._slow_bytes > QUEUED_BYTES_MAX and not self._is_pausing:
            self._is_pausing = True
            self._connection.pause_writing()
        if len(self._slow) == 1:
            self._step()

    def _step(self) -> None:
        """Write the data that has no rate limit, and schedule the next part of the data that has one."""
        self._slow_timer = None
        while self._slow:
            data, ruling = self._slow[0]
            rate = 0 if ruling is None else ruling.bytes_per_second
            if rate:
                part = max(1, rate // STEPS_PER_SECOND)
                at_s = self._now_s() + min(part, len(data)) / rate
                self._slow_timer = asyncio.get_running_loop().call_at(at_s, self._write_part, part)
                break
            self._slow.popleft()
            self._written(data)
        if self._is_pausing and self._slow_bytes <= QUEUED_BYTES_MAX // 2:
            self._is_pausing = False
            self._connection.resume_writing()

    def _write_part(self, part: int) -> None:
        if not self._slow:
            # It was closed meanwhile.
            return
        data, ruling = self._slow.popleft()
        if len(data) > part:
            self._slow.appendleft((data[part:], ruling))
        self._written(data[:part])
        self._step()

    def _written(self, data: bytes) -> None:
        self._slow_bytes -= len(data)
        self.transport.write(data)

    def _now_s(self) -> float:
        return self._clock.uptime_ns() / 1e9


def _whole_answer(codec: Codec, envelope: Envelope, body: bytes, refused: Refused) -> bytes:
    """Return the response to a request with many messages, with the refusals of the removed messages added."""
    answer = codec.decode_answer(answer_shape(SendManyAnswer), envelope, body)
    if isinstance(answer, SendManyAnswer) and answer.body is not None:
        answer.body = together(answer.body, refused)
    return codec.encode_answer(answer, envelope.opaque, b"")


def _damaged(frame: bytes, body_at: int, random: Random) -> bytes:
    """Return a frame with one flipped bit: in its body, or in its header if it has none. Its length is unchanged."""
    begin = body_at if body_at < len(frame) else HEAD_BYTES
    at = random.randrange(begin, len(frame))
    return frame[:at] + bytes([frame[at] ^ 1 << random.randrange(8)]) + frame[at + 1 :]
