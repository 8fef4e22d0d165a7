"""Protobuf's times and durations as milliseconds. Pure."""

from staticfire.proxy.proto.rocketmq_v2_pb2 import Duration, Timestamp

# The limit of converted times. Milliseconds have 64 bits everywhere, but a client's seconds have as many.
MS_MAX = 2**63 - 1


def millis(time: Duration | Timestamp) -> int:
    """Return a duration, or a timestamp since 1970, in milliseconds."""
    return min(max(time.seconds * 1000 + time.nanos // 1_000_000, -MS_MAX), MS_MAX)


def duration(duration_ms: int) -> Duration:
    """Return a duration of that many milliseconds."""
    seconds, rest_ms = divmod(duration_ms, 1000)
    return Duration(seconds=seconds, nanos=rest_ms * 1_000_000)


def timestamp(moment_ms: int) -> Timestamp:
    """Return a timestamp; `moment_ms` is milliseconds since 1970."""
    seconds, rest_ms = divmod(moment_ms, 1000)
    return Timestamp(seconds=seconds, nanos=rest_ms * 1_000_000)
