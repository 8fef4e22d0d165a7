"""Sends with a response after the message is on disk: 8 connections with one send in flight each, and the bare disk.

The disk is measured by how many bursts of that size per second it can make durable; with 8 messages per burst this is
the maximum.
"""

import os
import tempfile
import time

from benchmarks import frames
from benchmarks.figures import Stand, Values
from benchmarks.figures.throughput import TOPIC, WARM_SECONDS
from benchmarks.load import LoadConnection, run_window
from benchmarks.servers import broker
from staticfire.protocol.codecs import NATIVE

CONNECTIONS = 8
IN_FLIGHT_MORE = 16
# About the size of a 1 KiB message in the log.
RECORD_BYTES = 1_280


class SyncFlush:
    """sync_flush: messages per second with SYNC_FLUSH, and as a fraction of the bare disk's maximum."""

    name = "sync_flush"
    keys = ("sync_flush_per_s", "sync_flush_x_disk", "sync_flush_more_per_s")

    def measure(self, stand: Stand) -> Values:
        before = fsyncs_per_s(stand.folder, stand.seconds / 2)
        ring = frames.sends(NATIVE, TOPIC)
        with broker(stand.folder, flushDiskType="SYNC_FLUSH") as server:
            connections = [
                LoadConnection(server.port, NATIVE, ring, number * len(ring) // CONNECTIONS)
                for number in range(CONNECTIONS)
            ]
            run_window(server, connections, 1, WARM_SECONDS)
            window = run_window(server, connections, 1, stand.seconds)
            more = run_window(server, connections, IN_FLIGHT_MORE, stand.seconds)
            for connection in connections:
                connection.close()
        disk = (before + fsyncs_per_s(stand.folder, stand.seconds / 2)) / 2
        return {
            "sync_flush_per_s": window.per_s,
            "sync_flush_x_disk": window.per_s / (CONNECTIONS * disk),
            "sync_flush_cpu_us": window.cpu_us_per_answer,
            # With 16 in flight on each connection, more messages share an fsync.
            "sync_flush_more_per_s": more.per_s,
            "sync_flush_fsyncs_per_s": disk,
            "sync_flush_foreign": window.foreign_cores,
        }


def fsyncs_per_s(folder: str | None, seconds: float) -> float:
    """Return how many bursts per second the disk can make durable, when they are written to a preallocated file."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        data, count, size = bytes(CONNECTIONS * RECORD_BYTES), 0, 64 << 20
        os.posix_fallocate(file.fileno(), 0, size)
        end = time.perf_counter() + seconds
        while (now := time.perf_counter()) < end:
            os.pwrite(file.fileno(), data, count * len(data) % size)
            os.fdatasync(file.fileno())
            count += 1
    return count / (seconds + now - end)
