"""What the frames of one HTTP/2 connection mean for its calls. `Http2.receive` returns these events in order."""

from typing import NamedTuple

from staticfire.proxy.transport.outflow import H2Stream


class CallOpened(NamedTuple):
    """A request has begun. `fits`: the fields are within the limit. `size`: their size as HTTP/2 counts it."""

    stream: H2Stream
    fields: dict[str, str]
    fits: bool
    ended: bool
    size: int


class CallData(NamedTuple):
    """Bytes of a call's requests. `ended`: no more will follow."""

    stream: H2Stream
    data: bytes
    ended: bool


class CallReset(NamedTuple):
    """The client has cancelled a call, or has broken a rule on its stream."""

    stream: H2Stream


Event = CallOpened | CallData | CallReset
