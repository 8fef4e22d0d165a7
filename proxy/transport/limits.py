"""Limits for the clients of the endpoint. A limit that is reached is reported with a message.

docs/grpc-limits.md names the attack that each limit stops.
"""

from typing import NamedTuple

import msgspec

MIB = 1024 * 1024


class Rate(NamedTuple):
    """How many frames of a kind one connection may send: `burst` at once, plus `per_s` each second."""

    burst: int
    per_s: int


class TransportLimits(msgspec.Struct, frozen=True):
    """The limits of one endpoint. Where the text says "all connections", a limit applies to their sum."""

    request_bytes_max: int = 130 * MIB
    """The size of one message from a client. RocketMQ: grpcMaxInboundMessageSize."""
    unfinished_bytes_max: int = 256 * MIB
    """The size of the requests that are incomplete or that no handler has taken yet, over all connections."""
    streams_max: int = 1_024
    """Concurrent calls on one connection; clients queue the rest. A cancelled call counts until its handler ends."""
    calls_max: int = 100_000
    """Concurrent calls on all connections; calls above the limit are refused."""
    connections_max: int = 10_000
    """When one more arrives, the oldest connection without calls is closed; if there is none, the oldest one that
    doesn't answer a PING, or whose only calls are streams of no known client; otherwise the new one. Which
    connections these are is determined every 5 s."""
    header_bytes_max: int = 16 * 1024
    """The metadata of one call, as HTTP/2 counts it: names, values, and 32 bytes for each field."""
    metadata_bytes_max: int = 2 * MIB
    """The metadata of all open calls of one connection, counted the same way; above it, new calls are refused."""
    block_bytes_max: int = 64 * 1024
    """The encoded fields of one request, over all its frames."""
    block_frames_max: int = 64
    """The HEADERS and CONTINUATION frames of one request."""
    block_unpacked_bytes_max: int = 256 * 1024
    """The decoded fields of one request. Fields above `header_bytes_max` are decoded and dropped up to this size, so
    that the call fails but the connection survives."""
    stream_window_bytes: int = MIB
    """How much a client may send for one call before we report that it is consumed."""
    connection_window_bytes: int = 16 * MIB
    frame_bytes_max: int = 128 * 1024
    """The size of a frame from a client."""
    unread_requests_bytes_max: int = 256 * 1024
    """Requests of one stream that its handler hasn't taken; above it the client must wait."""
    stream_unsent_bytes_max: int = 256 * 1024
    """Responses of one stream that couldn't be sent yet; above it the handler must wait."""
    unsent_bytes_max: int = 64 * MIB
    """Responses of one connection that couldn't be sent yet; above it its new calls are refused."""
    queued_bytes_max: int = 256 * MIB
    """Responses of all connections that couldn't be sent yet; above it those that hold the most are closed."""
    control_bytes_max: int = 64 * 1024
    """Acknowledgements (PING, SETTINGS) that couldn't be sent yet; above it the connection is closed."""
    stuck_ms_max: int = 60_000
    """How long a connection may take nothing while responses wait, or leave a frame or a header block incomplete.
    A stream that has no window for that long is reset; a connection that takes nothing at all is closed."""
    progress_bytes_min: int = 1_024
    """How much a stream must take of its queued responses within `stuck_ms_max`; less counts as nothing."""
    unfinished_ms_max: int = 120_000
    """How long a request may take from its first byte to its last, even if it arrives steadily. In a stream of
    requests, the first one must be complete within this time."""
    silent_ms_max: int = 60_000
    """How long a client with open calls may send nothing; then it gets a PING."""
    ping_ms_max: int = 10_000
    """How long a client may take to answer that PING, or to send anything else, until its connection may be closed
    when another client needs its place."""
    unanswered_ms_max: int = 3_600_000
    """How long a client may leave that PING unanswered until its connection is aborted. It is long, because a client
    in a debugger, or a paused container, is silent too, and some clients never open a second Telemetry stream."""
    greeting_ms_max: int = 20_000
    """How long a connection may take until its protocol is recognised, TLS handshake included."""
    greetings_max: int = 1_000
    """Connections whose protocol isn't recognised yet; one more closes the oldest of them."""
    closing_ms_max: int = 10_000
    """How long a connection that is being closed may take to read its last bytes; then it is aborted."""
    idle_ms_max: int = 120_000
    """How long a connection may be without calls before it is closed. RocketMQ: grpcClientIdleTimeMills."""
    stop_ms_max: int = 1_000
    """How long calls may take to end when the endpoint stops."""

    # Floods. A connection that sends more than its rate is closed with ENHANCE_YOUR_CALM.
    resets: Rate = Rate(1_000, 33)
    """Streams that the client resets, makes us reset by breaking a rule, or opens although we refuse them. Each call
    that ends with its response allows one more."""
    pings: Rate = Rate(1_000, 100)
    """Each DATA frame that we send allows one more, because clients measure the connection while they receive."""
    settings_frames: Rate = Rate(100, 10)
    settings_entries_max: int = 32
    """Settings in one SETTINGS frame. Only six have a meaning."""
    window_updates: Rate = Rate(10_000, 1_000)
    """Each DATA frame that we send allows four more."""
    empty_frames: Rate = Rate(1_000, 33)
    """DATA frames without data that don't end a stream either."""
    ignored_frames: Rate = Rate(1_000, 100)
    """Frames without effect: PRIORITY, GOAWAY, unknown types, and header blocks of closed streams."""
