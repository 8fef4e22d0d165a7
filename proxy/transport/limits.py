"""What the clients of the endpoint may take of it. Each limit that is reached is reported in words.

docs/grpc-limits.md names the attack that each limit stops.
"""

from typing import NamedTuple

import msgspec

MIB = 1024 * 1024


class Rate(NamedTuple):
    """How many frames of a kind one connection may send: `burst` at once, and `per_s` more each second."""

    burst: int
    per_s: int


class TransportLimits(msgspec.Struct, frozen=True):
    """Of one endpoint; `..._bytes_max` of all connections together where it says so."""

    request_bytes_max: int = 130 * MIB
    """Of one message from a client. RocketMQ: grpcMaxInboundMessageSize."""
    unfinished_bytes_max: int = 256 * MIB
    """Of requests that have begun and aren't whole, or that no handler has taken yet: all connections together."""
    streams_max: int = 1_024
    """Calls on one connection at a time, cancelled ones included whose handler hasn't ended; clients queue the rest."""
    calls_max: int = 100_000
    """Calls on all connections together; above that new ones are refused."""
    connections_max: int = 10_000
    """One more closes a connection without calls, the oldest; if there is none, it is closed itself."""
    header_bytes_max: int = 16 * 1024
    """Of the metadata of one call, as HTTP/2 counts: names, values, and 32 bytes each."""
    metadata_bytes_max: int = 2 * MIB
    """Of the metadata of all open calls of one connection, counted the same way; above that new calls are refused."""
    block_bytes_max: int = 64 * 1024
    """Of the packed fields of one request, over all its frames."""
    block_frames_max: int = 64
    """HEADERS and CONTINUATION frames of one request."""
    block_unpacked_bytes_max: int = 256 * 1024
    """Of the fields of one request when they are unpacked. What is above `header_bytes_max` is read and thrown away up
    to this size, so that the call fails and the connection survives."""
    stream_window_bytes: int = MIB
    """What a client may send of one call before we say that we took it."""
    connection_window_bytes: int = 16 * MIB
    frame_bytes_max: int = 128 * 1024
    """Of a frame from a client."""
    unread_requests_bytes_max: int = 256 * 1024
    """Of a stream's requests that its handler hasn't taken; above that the client has to wait."""
    stream_unsent_bytes_max: int = 256 * 1024
    """Of a stream's answers that the client hasn't taken; above that its handler has to wait."""
    unsent_bytes_max: int = 64 * MIB
    """Of answers that one connection hasn't taken; above that its new calls are refused."""
    queued_bytes_max: int = 256 * MIB
    """Of answers that clients haven't taken, on all connections together; above that the connections that hold the most
    are closed."""
    control_bytes_max: int = 64 * 1024
    """Of acknowledgements (PING, SETTINGS) that a connection hasn't taken; above that it is closed."""
    stuck_ms_max: int = 60_000
    """How long a connection may take nothing while answers wait; or let a frame, or a header block, be unfinished.
    A stream that has no window for that long is reset; a connection that takes nothing at all is closed."""
    progress_bytes_min: int = 1_024
    """What a stream has to take of waiting answers within `stuck_ms_max`; less counts as nothing."""
    unfinished_ms_max: int = 120_000
    """How long a request may take from its first byte to its last, however steadily it arrives."""
    greeting_ms_max: int = 20_000
    """How long a connection may take to say what it speaks, TLS handshake included."""
    greetings_max: int = 1_000
    """Connections that haven't said yet what they speak; one more closes the oldest of them."""
    closing_ms_max: int = 10_000
    """How long a connection that is being closed may take to read the last words for it; then it is cut off."""
    idle_ms_max: int = 120_000
    """Without calls; then the connection is closed. RocketMQ: grpcClientIdleTimeMills."""
    stop_ms_max: int = 1_000
    """What calls are given to end when the endpoint stops."""

    # Floods. A connection that sends more than its rate is closed with ENHANCE_YOUR_CALM.
    resets: Rate = Rate(1_000, 33)
    """Streams that the client resets, makes us reset by breaking a rule, or opens although we refuse them. Each call
    that ends with its answer allows one more."""
    pings: Rate = Rate(1_000, 100)
    """Each DATA frame that we send allows one more: clients measure the connection while they receive."""
    settings_frames: Rate = Rate(100, 10)
    settings_entries_max: int = 32
    """Of one SETTINGS frame. There are six that mean anything."""
    window_updates: Rate = Rate(10_000, 1_000)
    """Each DATA frame that we send allows four more."""
    empty_frames: Rate = Rate(1_000, 33)
    """DATA that brings nothing and ends nothing."""
    ignored_frames: Rate = Rate(1_000, 100)
    """Frames without effect: PRIORITY, GOAWAY, types that don't exist, and header blocks of streams that are over."""
