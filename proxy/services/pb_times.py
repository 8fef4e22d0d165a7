"""Protobuf's times and durations as milliseconds. Pure."""

from staticfire.proxy.proto.rocketmq_v2_pb2 import Duration, Timestamp

MS_MAX = 2**63 - 1
# Milliseconds have 64 bits everywhere, and the seconds that a client may write have as many.


def millis(duration: Duration) -> int:
    """Return a duration in milliseconds."""
    return _within(duration.seconds * 1000 + duration.nanos // 1_000_000)


def _within(ms: int) -> int:
    return min(max(ms, -MS_MAX), MS_MAX)


def duration(duration_ms: int) -> Duration:
    """Return milliseconds as a duration."""
    seconds, rest_ms = divmod(duration_ms, 1000)
    return Duration(seconds=seconds, nanos=rest_ms * 1_000_000)


def timestamp_ms(moment: Timestamp) -> int:
    """Return a moment in milliseconds since 1970."""
    return _within(moment.seconds * 1000 + moment.nanos // 1_000_000)


def timestamp(moment_ms: int) -> Timestamp:
    """Return milliseconds since 1970 as a moment."""
    seconds, rest_ms = divmod(moment_ms, 1000)
    return Timestamp(seconds=seconds, nanos=rest_ms * 1_000_000)
