"""The handle by which a message with a delivery time can be recalled. RocketMQ: RecallMessageHandle.HandleV1.

base64 (URL alphabet, padded) of `v1 <topic> <broker name> <TIMER_OUT_MS + 1> <unique id>`.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

from staticfire.protocol.errors import ProtocolError

RECALL_TAG = "_RECALL_TAG_"
"""The tag of the record that states that a message was recalled."""
VERSION = "v1"
INVALID = "recall handle is invalid"
NO_TIME = -1
"""The timestamp of a handle whose timestamp isn't a number."""
_BASE64 = re.compile(r"[A-Za-z0-9_-]+={0,2}")
_LONG = re.compile(r"[+-]?[0-9]{1,19}")


class RecallHandle(NamedTuple):
    """Identifies a message."""

    topic: str
    broker_name: str
    timestamp_ms: int
    unique_id: str


def encode_handle(handle: RecallHandle) -> str:
    """Return the handle as text."""
    parts = (VERSION, handle.topic, handle.broker_name, str(handle.timestamp_ms), handle.unique_id)
    return urlsafe_b64encode(" ".join(parts).encode()).decode()


def decode_handle(text: str | None) -> RecallHandle:
    """Parse a handle. Raises: ProtocolError."""
    bare = (text or "").rstrip("=")
    if not text or _BASE64.fullmatch(text) is None or len(bare) % 4 == 1 or (bare != text and len(text) % 4):
        raise ProtocolError(INVALID)
    parts = urlsafe_b64decode(bare + "=" * (-len(bare) % 4)).decode("utf-8", "replace").split(" ")
    if len(parts) < 5 or parts[0] != VERSION:
        raise ProtocolError(INVALID)
    timestamp_ms = int(parts[3]) if _LONG.fullmatch(parts[3]) else NO_TIME
    return RecallHandle(parts[1], parts[2], timestamp_ms, parts[4])
