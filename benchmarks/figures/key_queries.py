"""How long a look-up by key takes among ten million messages, in the index: what comes besides is one record's read."""

import tempfile
import time
from pathlib import Path
from random import Random

from benchmarks.figures import Stand, Values
from staticfire.broker.key_tables import Entry, IndexedSlice, KeyTables

MESSAGES, QUICK_MESSAGES = 10_000_000, 500_000
KEYS_EACH = 2
SLICE_MESSAGES = 4_096
RECORD_BYTES = 400
QUERIES = 500
SEED = 7
_ALL = (1 << 63) - 1


class KeyQueries:
    """key_query: the slowest but one percent of keys chosen at random, all over the log."""

    name = "key_query"
    keys = ("key_query_ms",)

    def measure(self, stand: Stand) -> Values:
        messages = QUICK_MESSAGES if stand.is_quick else MESSAGES
        with tempfile.TemporaryDirectory(dir=stand.folder) as folder:
            index = KeyTables(str(Path(folder) / "keys.sqlite"))
            began_s = time.process_time()
            wanted = fill(index, messages)
            filling_s = time.process_time() - began_s
            times_ms = sorted(look_up(index, *entry[:2]) for entry in Random(SEED).sample(wanted, QUERIES))
            index.close()
        return {"key_query_ms": times_ms[QUERIES * 99 // 100], "key_index_cpu_us": filling_s * 1e6 / messages}


def fill(index: KeyTables, messages: int) -> list[Entry]:
    """Enter so many messages; return some of the entries."""
    random = Random(SEED)
    some: list[Entry] = []
    for first in range(0, messages, SLICE_MESSAGES):
        rows = [
            (random.getrandbits(64) - (1 << 63), number * RECORD_BYTES, number)
            for number in range(first, first + SLICE_MESSAGES)
            for _ in range(KEYS_EACH)
        ]
        end = (first + SLICE_MESSAGES) * RECORD_BYTES
        index.add(IndexedSlice(rows, end, rows[-1][1:], 0))
        some += rows[:: SLICE_MESSAGES // 4]
    return some


def look_up(index: KeyTables, key_hash: int, position: int) -> float:
    """Return the milliseconds that it takes to find a key."""
    began_s = time.perf_counter()
    found = index.find(key_hash, 0, _ALL, _ALL, 64)
    took_ms = (time.perf_counter() - began_s) * 1e3
    assert found == [position]
    return took_ms
