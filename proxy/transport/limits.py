"""What the clients of the endpoint may take of it. Each limit that is reached is told in words."""

import msgspec

MIB = 1024 * 1024


class TransportLimits(msgspec.Struct, frozen=True):
    """Of one endpoint; `..._bytes_max` of all connections together where it says so."""

    request_bytes_max: int = 130 * MIB
    """Of one message from a client. RocketMQ: grpcMaxInboundMessageSize."""
    unfinished_bytes_max: int = 256 * MIB
    """Of requests that have begun and aren't whole, or that no handler has taken yet: all connections together."""
    streams_max: int = 1_024
    """Calls on one connection at a time, cancelled ones included whose handler hasn't ended; clients queue the rest."""
    connections_max: int = 10_000
    header_bytes_max: int = 16 * 1024
    """Of the metadata of one call, as HTTP/2 counts: names, values, and 32 bytes each."""
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
    control_bytes_max: int = 64 * 1024
    """Of acknowledgements (PING, SETTINGS) that a connection hasn't taken; above that it is closed."""
    stuck_ms_max: int = 60_000
    """How long a connection may take nothing while answers wait; or let a frame, or its first bytes, be unfinished."""
    idle_ms_max: int = 120_000
    """Without calls; then the connection is closed. RocketMQ: grpcClientIdleTimeMills."""
    stop_ms_max: int = 1_000
    """What calls are given to end when the endpoint stops."""
