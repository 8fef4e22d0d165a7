"""What the message store costs per record: append and commit, and reads of 32, on this machine's disk.

    python -m benchmarks.parts.store_append [--body 1024] [--burst 64] [--queues 4] [--records 200000] [--profile]

The appends of a burst go round over the queues. Everything is done twice, in a new folder each: the first time the
machine may have to find memory for the disk's cache, the second time it has it. On a machine that others use too, the
5 % column says most; compare with `pack_record alone` of the same run.
"""

import argparse
import cProfile
import pstats
import tempfile
import time
from pathlib import Path
from statistics import median

from staticfire.broker.store.new_record import NewRecord
from staticfire.broker.store.settings import StoreSettings
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.record import pack_record, pack_topic
from staticfire.protocol.times import MessageMs
from staticfire.runtime.live.files import LiveFiles

HOST = bytes([127, 0, 0, 1, 0, 0, 0x30, 0x39])
PROPERTIES = b"KEYS\x01order-4711\x02UNIQ_KEY\x017F0000010539736EDB5F1234ABCD0000\x02WAIT\x01true\x02TAGS\x01paid\x02"
SEGMENT_BYTES = 1024 * 1024 * 1024


def append_all(store: MessageStore, arguments: argparse.Namespace) -> list[float]:
    """Append in bursts; return the microseconds per record of each burst."""
    queues = [store.queue("orders", index) for index in range(arguments.queues)]
    body = bytes(arguments.body)
    put, commit, settled = store.put, store.commit, [0]

    def on_stored(context: object, queue_offset: int, log_position: int, outcome: object) -> None:
        settled[0] += 1

    bursts = max(1, arguments.records // arguments.burst)
    order = [queues[index % len(queues)] for index in range(arguments.burst)]
    times = []
    for _ in range(bursts):
        started = time.perf_counter()
        for queue in order:
            put(NewRecord(queue, PROPERTIES, 99, body, 1, HOST), MessageMs(2), on_stored, None)
        commit()
        times.append((time.perf_counter() - started) * 1e6 / arguments.burst)
    assert settled[0] == bursts * arguments.burst
    return times


def pack_all(arguments: argparse.Namespace) -> list[float]:
    """Pack the same records without a store, which is the largest part of the cost; return the same."""
    topic, body = pack_topic("orders"), bytes(arguments.body)
    times = []
    for _ in range(max(1, arguments.records // arguments.burst)):
        started = time.perf_counter()
        for _ in range(arguments.burst):
            pack_record(1000, 0, 0, 2, 1, 0, 0, 0, 0, HOST, topic, PROPERTIES, body)
        times.append((time.perf_counter() - started) * 1e6 / arguments.burst)
    return times


def read_all(store: MessageStore, arguments: argparse.Namespace) -> list[float]:
    """Read all queues 32 messages at a time; return the microseconds per message of each read."""
    times = []
    for index in range(arguments.queues):
        queue = store.queue("orders", index)
        offset = 0
        while offset < queue.max_offset:
            started = time.perf_counter()
            found = store.read(queue, offset, 32)
            store.records(found)
            times.append((time.perf_counter() - started) * 1e6 / max(1, found.record_count))
            offset = found.next_offset
    return times


def run(folder: str, arguments: argparse.Namespace) -> None:
    """Measure and print."""
    store = MessageStore(LiveFiles(), folder, StoreSettings(segment_bytes_max=SEGMENT_BYTES), lambda *_: 0)
    store.open()
    appended = append_all(store, arguments)
    from_tail = read_all(store, arguments)
    store.flush()
    from_files = read_all(store, arguments)
    for what, times in (
        ("pack_record alone", pack_all(arguments)),
        ("append + commit", appended),
        ("read of 32, entries in memory", from_tail),
        ("read of 32, entries in files", from_files),
    ):
        ordered = sorted(times)
        low, high = (ordered[int(len(ordered) * part)] for part in (0.05, 0.99))
        print(f"  {what:30s} {median(ordered):6.2f} us  (5 % {low:.2f}, 99 % {high:.2f})")
    store.close()


def main() -> None:
    """Parse the arguments, and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("body", 1024), ("burst", 64), ("queues", 4), ("records", 200_000)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--profile", action="store_true", help="where the time goes, function by function")
    parser.add_argument("--dir", type=Path, help="a folder on the disk to measure (default: a temporary one)")
    arguments = parser.parse_args()
    profile = cProfile.Profile()
    for time_name in ("first time", "second time"):
        print(f"{arguments.body} byte bodies, bursts of {arguments.burst} over {arguments.queues} queues, {time_name}")
        with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
            if arguments.profile:
                profile.runcall(run, folder, arguments)
            else:
                run(folder, arguments)
    if arguments.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(15)


if __name__ == "__main__":
    main()
