"""All sizes and periods of the store. RocketMQ: MessageStoreConfig."""

from enum import Enum

import msgspec

from staticfire.protocol.limits import BODY_BYTES_MAX, PROPERTIES_BYTES_MAX

# How many queue entries one read checks if a filter rejects most of them (RocketMQ: 16,000 bytes of entries).
READ_ENTRIES_MAX = 800


class FlushDiskType(Enum):
    """What a successful response to a send guarantees."""

    ASYNC_FLUSH = "ASYNC_FLUSH"
    """The record survives a crash of the process."""
    SYNC_FLUSH = "SYNC_FLUSH"
    """The record survives a power loss of the machine."""


class StoreSettings(msgspec.Struct, frozen=True):
    """The file sizes and flush periods of one store."""

    segment_bytes_max: int = 64 * 1024 * 1024
    """RocketMQ's default is 1 GiB; small segments make retention fine-grained and a new store cheap."""

    record_bytes_max: int = BODY_BYTES_MAX + PROPERTIES_BYTES_MAX + 1024
    """The size of a whole record, with its header. The send handler checks the size of the body."""

    flush_disk_type: FlushDiskType = FlushDiskType.ASYNC_FLUSH
    flush_ms: int = 500
    """ASYNC_FLUSH: the longest time until a record is synced."""

    sync_flush_timeout_ms: int = 5_000
    """SYNC_FLUSH: after this time the response is FLUSH_DISK_TIMEOUT (RocketMQ: syncFlushTimeout)."""

    queue_flush_ms: int = 1_000
    queues_per_flush_max: int = 1_000
    """The number of queues written per period, so that 40,000 dirty ones are spread over several periods and block
    nothing else. If more are dirty when the store is closed, they aren't written at all: two fsyncs for each would take
    a minute, entering their records again at the next start takes seconds."""

    queue_file_entries: int = 300_000
    """If the store was written with another value, its queues are rebuilt from the log."""

    queue_tail_entries: int = 32
    """The number of written entries per queue that are kept in memory: enough for a pull."""

    queues_checked_at_start: int = 500
    """The number of queues whose files are checked at start, at 10 us each; if one is incomplete, all are checked.

    The others are checked at their first use, and by the scrub soon after the start.
    """

    queue_files_open_max: int = 256
    segments_open_max: int = 64
    """The number of mapped segments. They cost address space and descriptors, not memory."""

    salvage: bool = False
    """At start: move a damaged part of the log aside and continue after it, instead of refusing to start."""
