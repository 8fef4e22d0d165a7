"""Every size and period of the store, by name. RocketMQ: MessageStoreConfig."""

from enum import Enum

import msgspec

from staticfire.protocol.limits import BODY_BYTES_MAX, PROPERTIES_BYTES_MAX

READ_ENTRIES_MAX = 800
# How many queue entries one read looks at when a filter refuses most of them (RocketMQ: 16,000 bytes of entries).


class FlushDiskType(Enum):
    """What an answer to a send promises."""

    ASYNC_FLUSH = "ASYNC_FLUSH"
    """The record survives the process."""
    SYNC_FLUSH = "SYNC_FLUSH"
    """The record survives the machine."""


class StoreSettings(msgspec.Struct, frozen=True):
    """How one store keeps its files."""

    segment_bytes_max: int = 64 * 1024 * 1024
    """RocketMQ's is 1 GiB; small segments make retention fine-grained and a fresh store cheap."""

    record_bytes_max: int = BODY_BYTES_MAX + PROPERTIES_BYTES_MAX + 1024
    """A record with its head; the body alone is for the send handler to judge."""

    flush_disk_type: FlushDiskType = FlushDiskType.ASYNC_FLUSH
    flush_ms: int = 500
    """ASYNC_FLUSH: how long a record waits for its fsync at most."""

    sync_flush_timeout_ms: int = 5_000
    """SYNC_FLUSH: after that the answer is FLUSH_DISK_TIMEOUT (RocketMQ: syncFlushTimeout)."""

    queue_flush_ms: int = 1_000
    queues_per_flush_max: int = 1_000
    """Queues written per period: 40,000 dirty ones take a number of periods and stall nobody. If more are dirty when
    the store is closed they aren't written at all: two fsyncs for each would take a minute, entering their records
    again takes seconds."""

    queue_file_entries: int = 300_000
    """A store that was written with another value has its queues rebuilt from the log."""

    queue_tail_entries: int = 32
    """Entries of a queue that stay in memory after they were written: a pull's worth."""

    queues_checked_at_start: int = 500
    """Of so many queues a start looks whether their files are whole, which takes 10 us each; when one isn't, of all.
    Whoever asks for one of the others looks first, and the scrub looks at all soon after the start."""

    queue_files_open_max: int = 256
    segments_open_max: int = 64
    """Mapped segments; address space and descriptors, not memory."""

    salvage: bool = False
    """At start: move a damaged part of the log aside and go on behind it, instead of refusing to start."""
