"""Columns from property strings, for all messages at once: single properties, and all properties as a map.

The format is `name 01 value 02`, repeated. As in `parse_properties`, the last value of a repeated name counts, and an
entry without name, value or 01 is ignored.

The algorithm works on all strings at once, joined into one buffer. It finds the end of each entry (02) and of each
name (01) with numpy. Names and values are then slices of the buffer, so no Python object is made per message.
"""

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from staticfire.pipeline.records import Numbers, Octets
from staticfire.protocol.properties import with_last_end

_NAME_END, _ENTRY_END = 1, 2

# Up to this number of different names, repeated ones are found by counting in a table of names and messages.
NAMES_COUNTED_MAX = 64


def slices(data: Any, starts: Numbers, ends: Numbers, kind: pa.DataType) -> pa.Array:
    """Return slices of a buffer as an array of texts or bytes. They are in order and don't overlap.

    The bytes between two slices become elements, too, which are then left out. Arrow makes a single copy.
    """
    if not len(starts):
        return pa.array([], kind)
    edges = np.empty(2 * len(starts), dtype=np.int32)
    edges[0::2] = starts
    edges[1::2] = ends
    every = pa.Array.from_buffers(kind, len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)])
    return every.take(pa.array(np.arange(0, len(edges) - 1, 2, dtype=np.int64)))


class PropertyTable:
    """The entries of many property strings."""

    def __init__(self, strings: pa.Array) -> None:
        """`strings`: one per message, as bytes."""
        self._rows = len(strings)
        self._data, bounds = _orderly(strings)
        octets = np.frombuffer(self._data, dtype=np.uint8)
        ends = np.flatnonzero(octets == _ENTRY_END)
        starts = np.append(0, ends[:-1] + 1)[: len(ends)]
        names_end = _separators(octets, starts, ends)
        per_row = np.diff(np.searchsorted(ends, bounds))
        row = np.repeat(np.arange(self._rows), per_row)
        is_entry = (names_end > starts) & (names_end + 1 < ends)
        if not is_entry.all():
            starts, names_end, ends, row = starts[is_entry], names_end[is_entry], ends[is_entry], row[is_entry]
        self._start, self._name_end, self._end, self._row = starts, names_end, ends, row
        self._name_bytes = names_end - starts

    def column(self, name: str) -> pa.Array:
        """Return one property of each message; null for messages without it."""
        wanted = name.encode()
        entries = np.flatnonzero(self._name_bytes == len(wanted))
        everywhere: npt.NDArray[Any] = np.ndarray(
            (max(0, len(self._data) - len(wanted) + 1),), f"S{len(wanted)}", self._data, strides=(1,)
        )
        entries = entries[everywhere[self._start[entries]] == wanted]
        last = _last_of_each(self._row[entries])
        entries = entries[last]
        values = slices(self._data, self._name_end[entries] + 1, self._end[entries], pa.string())
        if len(entries) == self._rows:
            return values
        index = np.zeros(self._rows, dtype=np.int64)
        absent = np.ones(self._rows, dtype=np.bool_)
        index[self._row[entries]] = np.arange(len(entries))
        absent[self._row[entries]] = False
        return values.take(pa.array(index, mask=absent))

    def maps(self, kind: pa.DataType) -> pa.Array:
        """Return all properties of each message, as the map type `kind`."""
        kept = self._without_repeated()
        start, name_end, end, row = self._start[kept], self._name_end[kept], self._end[kept], self._row[kept]
        bounds = np.zeros(self._rows + 1, dtype=np.int32)
        np.cumsum(np.bincount(row, minlength=self._rows), out=bounds[1:])
        names = slices(self._data, start, name_end, pa.string())
        values = slices(self._data, name_end + 1, end, pa.string())
        return pa.MapArray.from_arrays(pa.array(bounds), names, values, type=kind)

    def _without_repeated(self) -> Numbers:
        """Return the entries that count: of a message's entries with the same name, the last one."""
        names = slices(self._data, self._start, self._name_end, pa.string()).dictionary_encode()
        codes = cast(Numbers, names.indices.to_numpy(zero_copy_only=False)).astype(np.int64)
        kinds = len(names.dictionary)
        both = self._row * kinds + codes
        if kinds <= NAMES_COUNTED_MAX and np.bincount(both, minlength=1).max() <= 1:
            return np.arange(len(both))  # No name is repeated, as in nearly all strings. This needs no sorting.
        _, from_behind = np.unique(both[::-1], return_index=True)
        return np.sort(len(both) - 1 - from_behind)


def _separators(octets: Octets, starts: Numbers, ends: Numbers) -> Numbers:
    """Return the end of each entry's name; a position after the entry if it has no 01."""
    found = np.flatnonzero(octets == _NAME_END)
    if len(found) == len(ends) and (found >= starts).all() and (found < ends).all():
        return found  # There is exactly one in each entry, as in nearly all strings.
    return np.append(found, len(octets))[np.searchsorted(found, starts)]


def _last_of_each(rows: Numbers) -> Numbers:
    """Return the index of the last element of each run of equal numbers."""
    if not len(rows):
        return rows
    return np.flatnonzero(np.append(rows[1:] != rows[:-1], True))


def _orderly(strings: pa.Array) -> tuple[bytes, Numbers]:
    """Return the strings joined, in valid UTF-8, each with a final 02, and the start of each string."""
    bounds, data = _joined(strings)
    if not _is_orderly(data, bounds):
        repaired = [_repaired(text) for text in strings.to_pylist()]
        bounds, data = _joined(pa.array(repaired, pa.binary()))
    return data, bounds


def _joined(strings: pa.Array) -> tuple[Numbers, bytes]:
    _, offsets, data = strings.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int32)[strings.offset : strings.offset + len(strings) + 1]
    first, last = int(bounds[0]), int(bounds[-1])
    joined = data.slice(first, last - first).to_pybytes() if data is not None else b""
    return (bounds - first).astype(np.int64), joined


def _is_orderly(data: bytes, bounds: Numbers) -> bool:
    octets: Octets = np.frombuffer(data, dtype=np.uint8)
    ends = bounds[1:][bounds[1:] > bounds[:-1]]
    if (octets[ends - 1] != _ENTRY_END).any():
        return False
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _repaired(text: bytes) -> bytes:
    return with_last_end(text).decode("utf-8", "replace").encode()
