"""Floods of a gRPC endpoint: bytes that cost the sender little. docs/grpc-limits.md has the table of what they do."""

from collections.abc import Callable
from typing import NamedTuple

from hpack import Encoder

from staticfire.proxy.transport import frames
from staticfire.proxy.transport.calls import SERVICE
from staticfire.proxy.transport.frames import H2Code
from tests.proxy.h2_client import OPEN

CHUNK_BYTES = 64 * 1024
BEGIN = frames.PREFACE + frames.settings_frame({})


def block_of(method: str, *more: tuple[str, str]) -> bytes:
    """Return the packed fields of a call."""
    return Encoder().encode([*OPEN[:3], (":path", f"{SERVICE}/{method}"), *OPEN[3:], *more])


CALL = block_of("SendMessage")
NAMELESS = CALL + b"\x00\x00\x00"
UNKNOWN_TYPE = 0x42
MANY = 20_000


class Attack(NamedTuple):
    """What is sent on one connection, how the connection ends, and which limit ends it."""

    name: str
    known_as: str
    said: Callable[[], bytes]
    code: H2Code
    limit: str


def headers(stream_id: int, block: bytes = CALL, flags: int = frames.END_HEADERS) -> bytes:
    return frames.frame(frames.HEADERS, flags, stream_id, block)


def opened(count: int, block: bytes = CALL, then: Callable[[int], bytes] = lambda _: b"") -> bytes:
    """Return so many calls that begin, each with what follows it."""
    return b"".join(headers(number, block) + then(number) for number in range(1, 2 * count, 2))


def windows(count: int) -> bytes:
    """Return a SETTINGS payload that changes the streams' window again and again."""
    return b"".join(frames.settings_frame({frames.INITIAL_WINDOW_SIZE: n})[9:] for n in range(count))


def bomb() -> bytes:
    """Return a block that puts 4,000 bytes into the table and refers to them 60,000 times."""
    added = b"\x40\x01x\x7f" + bytes((0x80 | (4_000 - 127) & 0x7F, (4_000 - 127) >> 7)) + bytes(4_000)
    block = CALL + added + b"\xbe" * 59_000
    first, rest = block[:16_000], block[16_000:]
    return headers(1, first, 0) + frames.frame(frames.CONTINUATION, frames.END_HEADERS, 1, rest)


def over_again() -> bytes:
    reset = opened(100, then=lambda number: frames.rst_stream(number, H2Code.CANCEL))
    return reset + headers(1) * MANY


ATTACKS = (
    Attack(
        "650 KB of CONTINUATION with one byte each", "CVE-2024-27316, CVE-2023-45288, CVE-2024-28182",
        lambda: headers(1, CALL[:1], 0) + frames.frame(frames.CONTINUATION, 0, 1, b"x") * 65_000,
        H2Code.ENHANCE_YOUR_CALM, "block_frames_max",
    ),
    Attack(
        "a header block of 8 MB", "CVE-2023-45288, CVE-2020-11080",
        lambda: headers(1, CALL, 0) + frames.frame(frames.CONTINUATION, 0, 1, bytes(16_000)) * 500,
        H2Code.ENHANCE_YOUR_CALM, "block_bytes_max",
    ),
    Attack(
        "a header block that unpacks to 240 MB", "HPACK bomb, CVE-2016-6581",
        bomb, H2Code.ENHANCE_YOUR_CALM, "block_unpacked_bytes_max",
    ),
    Attack(
        "20,000 streams opened and reset", "rapid reset, CVE-2023-44487, CVE-2019-9514",
        lambda: opened(MANY, then=lambda number: frames.rst_stream(number, H2Code.CANCEL)),
        H2Code.ENHANCE_YOUR_CALM, "resets",
    ),
    Attack(
        "20,000 streams that we have to reset", "MadeYouReset, CVE-2025-8671",
        lambda: opened(MANY, then=lambda number: frames.window_update(number, 0)),
        H2Code.ENHANCE_YOUR_CALM, "resets",
    ),
    Attack(
        "20,000 malformed requests", "CVE-2019-9514, CVE-2025-8671",
        lambda: opened(MANY, CALL[:1]), H2Code.ENHANCE_YOUR_CALM, "resets",
    ),
    Attack(
        "20,000 requests with a field without a name", "0-length headers leak, CVE-2019-9516",
        lambda: opened(MANY, NAMELESS), H2Code.ENHANCE_YOUR_CALM, "resets",
    ),
    Attack(
        "20,000 trailers that end nothing", "MadeYouReset, CVE-2025-8671",
        lambda: opened(MANY, then=headers), H2Code.ENHANCE_YOUR_CALM, "resets",
    ),
    Attack(
        "20,000 streams more than are taken", "CVE-2023-39325, CVE-2023-44487",
        lambda: opened(MANY), H2Code.ENHANCE_YOUR_CALM, "resets",
    ),
    Attack(
        "20,000 PING", "ping flood, CVE-2019-9512",
        lambda: frames.frame(frames.PING, 0, 0, bytes(8)) * MANY, H2Code.ENHANCE_YOUR_CALM, "pings",
    ),
    Attack(
        "20,000 empty SETTINGS", "settings flood, CVE-2019-9515",
        lambda: frames.settings_frame({}) * MANY, H2Code.ENHANCE_YOUR_CALM, "settings_frames",
    ),
    Attack(
        "1 MB of windows in SETTINGS, with 1,000 streams", "CVE-2020-11080",
        lambda: opened(1_000) + frames.frame(frames.SETTINGS, 0, 0, windows(2_700)) * 62,
        H2Code.ENHANCE_YOUR_CALM, "settings_entries_max",
    ),
    Attack(
        "20,000 SETTINGS with one window, with 1,000 streams", "CVE-2019-9515, CVE-2020-11080",
        lambda: opened(1_000) + frames.settings_frame({frames.INITIAL_WINDOW_SIZE: 7}) * MANY,
        H2Code.ENHANCE_YOUR_CALM, "settings_frames",
    ),
    Attack(
        "20,000 DATA with nothing in it", "empty frames flood, CVE-2019-9518",
        lambda: headers(1) + frames.frame(frames.DATA, 0, 1) * MANY, H2Code.ENHANCE_YOUR_CALM, "empty_frames",
    ),
    Attack(
        "20,000 DATA with nothing but padding", "empty frames flood, CVE-2019-9518",
        lambda: headers(1) + frames.frame(frames.DATA, frames.PADDED, 1, b"\x01\x00") * MANY,
        H2Code.ENHANCE_YOUR_CALM, "empty_frames",
    ),
    Attack(
        "20,000 PRIORITY", "resource loop, CVE-2019-9513",
        lambda: frames.frame(frames.PRIORITY, 0, 3, bytes(5)) * MANY, H2Code.ENHANCE_YOUR_CALM, "ignored_frames",
    ),
    Attack(
        "20,000 frames of a type that doesn't exist", "",
        lambda: frames.frame(UNKNOWN_TYPE, 0, 0) * MANY, H2Code.ENHANCE_YOUR_CALM, "ignored_frames",
    ),
    Attack(
        "20,000 GOAWAY", "",
        lambda: frames.goaway(0, H2Code.NO_ERROR) * MANY, H2Code.ENHANCE_YOUR_CALM, "ignored_frames",
    ),
    Attack(
        "20,000 HEADERS of a stream that is over", "CVE-2019-9514",
        over_again, H2Code.ENHANCE_YOUR_CALM, "ignored_frames",
    ),
    Attack(
        "20,000 WINDOW_UPDATE by one byte", "window dribble, CVE-2019-9511",
        lambda: frames.window_update(0, 1) * MANY, H2Code.ENHANCE_YOUR_CALM, "window_updates",
    ),
)  # fmt: skip
"""Each is closed before it is through, whatever else the connection does."""
