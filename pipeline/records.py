"""Find the parts of many records at once.

A pull's response is one record after another. Only the sizes are followed one by one. Numbers are returned as arrays,
texts and bodies as their start and end positions, so no Python object is made per message. The layouts are described in
protocol/record.py and protocol/rocketmq_record.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from struct import Struct, error as StructError
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.record import RECORD_BYTES_MIN, RECORD_MAGIC
from staticfire.protocol.rocketmq_record import MAGIC_V1, MAGIC_V2
from staticfire.protocol.sys_flag import BORN_HOST_V6, STORE_HOST_V6

Numbers: TypeAlias = npt.NDArray[np.int64]
Octets: TypeAlias = npt.NDArray[np.uint8]

# The start of a native response: the mark of the array and the number of records.
BATCH_HEAD_BYTES = 5

_u32_at = Struct(">I").unpack_from
_ROCKETMQ_BYTES_MIN = 91


def _head(head_bytes: int, **fields: tuple[int, str]) -> "np.dtype[Any]":
    """Return the layout of the numbers at the start of a record, each with its offset."""
    offsets, formats = zip(*fields.values(), strict=True)
    return np.dtype({"names": list(fields), "formats": formats, "offsets": offsets, "itemsize": head_bytes})


_STORED_HEAD = _head(
    90, size=(4, ">u4"), magic=(14, ">u4"), log_position=(19, ">i8"), queue_offset=(33, ">i8"), stored_ms=(42, ">i8"),
    born_ms=(51, ">i8"), sys_flag=(60, ">i4"), flag=(65, ">i4"), reconsume_times=(70, ">i4"), host_bytes=(89, "u1"),
)  # fmt: skip
_ROCKETMQ_HEAD = _head(
    48, size=(0, ">u4"), magic=(4, ">u4"), flag=(16, ">i4"), queue_offset=(20, ">i8"), log_position=(28, ">i8"),
    sys_flag=(36, ">i4"), born_ms=(40, ">i8"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RecordParts:
    """The parts of a series of records. Arrays have one element per record. Positions refer to `data`."""

    data: bytes
    queue_offset: Numbers
    log_position: Numbers
    stored_ms: Numbers
    born_ms: Numbers
    sys_flag: Numbers
    flag: Numbers
    reconsume_times: Numbers
    body_start: Numbers
    body_end: Numbers
    properties_start: Numbers
    properties_end: Numbers
    store_host_start: Numbers | None = None
    """The position of the broker's address, for records that contain it."""

    def __len__(self) -> int:
        return len(self.queue_offset)

    def between(self, start: int, end: int) -> "RecordParts":
        """Return the records from row `start` up to but without row `end`, without a copy."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "data"}
        return replace(self, **{name: numbers[start:end] for name, numbers in arrays.items() if numbers is not None})


def stored_parts(bodies: Sequence[bytes]) -> RecordParts:
    """Find the parts of the records in native responses. Raises: ProtocolError."""
    data = b"".join([memoryview(body)[BATCH_HEAD_BYTES:] for body in bodies])
    starts = _starts(data, 4, RECORD_BYTES_MIN)
    look = _Look(data)
    heads = look.heads(starts, _STORED_HEAD)
    if (heads["magic"] != RECORD_MAGIC).any():
        raise ProtocolError("the response to a pull contains data that is not a stored record")
    topic_at = starts + 90 + _numbers(heads["host_bytes"])
    properties_start = topic_at + 6 + look.at(topic_at + 1, ">u2")
    properties_end = properties_start + look.at(properties_start - 2, ">u2")
    ends = starts + _numbers(heads["size"])
    _check_order(topic_at, properties_start, properties_end, properties_end + 5, ends)
    return RecordParts(
        data,
        queue_offset=_numbers(heads["queue_offset"]),
        log_position=_numbers(heads["log_position"]),
        stored_ms=_numbers(heads["stored_ms"]),
        born_ms=_numbers(heads["born_ms"]),
        sys_flag=_numbers(heads["sys_flag"]),
        flag=_numbers(heads["flag"]),
        reconsume_times=_numbers(heads["reconsume_times"]),
        body_start=properties_end + 5,
        body_end=ends,
        properties_start=properties_start,
        properties_end=properties_end,
    )


def rocketmq_parts(bodies: Sequence[bytes]) -> RecordParts:
    """Find the parts of the records in RocketMQ's responses. Raises: ProtocolError."""
    data = b"".join(bodies)
    starts = _starts(data, 0, _ROCKETMQ_BYTES_MIN)
    look = _Look(data)
    heads = look.heads(starts, _ROCKETMQ_HEAD)
    is_v2 = heads["magic"] == MAGIC_V2
    if not (is_v2 | (heads["magic"] == MAGIC_V1)).all():
        raise ProtocolError("the response to a pull contains data that is not a record of RocketMQ")
    sys_flag = _numbers(heads["sys_flag"])
    stored_at = starts + np.where(sys_flag & BORN_HOST_V6, 68, 56)
    behind_hosts = stored_at + np.where(sys_flag & STORE_HOST_V6, 28, 16)
    body_start = behind_hosts + 16
    body_end = body_start + look.at(behind_hosts + 12, ">i4")
    topic_bytes = np.where(is_v2, look.at(body_end, ">u2"), look.at(body_end, "u1"))
    properties_start = body_end + np.where(is_v2, 2, 1) + topic_bytes + 2
    properties_end = starts + _numbers(heads["size"])
    _check_order(body_start, body_end, properties_start, properties_end)
    return RecordParts(
        data,
        queue_offset=_numbers(heads["queue_offset"]),
        log_position=_numbers(heads["log_position"]),
        stored_ms=look.at(stored_at, ">i8"),
        born_ms=_numbers(heads["born_ms"]),
        sys_flag=sys_flag,
        flag=_numbers(heads["flag"]),
        reconsume_times=look.at(behind_hosts, ">i4"),
        body_start=body_start,
        body_end=body_end,
        properties_start=properties_start,
        properties_end=properties_end,
        store_host_start=stored_at + 8,
    )


def _check_order(*edges: Numbers) -> None:
    """Check that the parts of each record follow each other up to its end. Raises: ProtocolError."""
    if any((before > after).any() for before, after in pairwise(edges)):
        raise ProtocolError("a record's parts do not add up to its length")


def _starts(data: bytes, size_at: int, least: int) -> Numbers:
    """Return the start of each record. Raises: ProtocolError (sizes that don't add up)."""
    starts: list[int] = []
    at, end = 0, len(data)
    try:
        while at < end:
            starts.append(at)
            size = _u32_at(data, at + size_at)[0]
            if size < least:
                break
            at += size
    except StructError:
        at = -1
    if at != end:
        raise ProtocolError(f"the response to a pull is incomplete in its record {len(starts)}")
    return np.array(starts, dtype=np.int64)


class _Look:
    """Reads values at many positions. Raises: ProtocolError if a position is outside of the data."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def at(self, positions: Numbers, kind: str) -> Numbers:
        """Return the numbers at these positions."""
        return _numbers(self.heads(positions, np.dtype(kind)))

    def heads(self, positions: Numbers, kind: "np.dtype[Any]") -> npt.NDArray[Any]:
        """Return the structures at these positions, from an overlapping array with one element per byte of data."""
        if not len(positions):
            return np.empty(0, kind)
        count = len(self._data) - kind.itemsize + 1
        if count <= 0:
            raise ProtocolError("a record's parts do not add up to its length")
        everywhere: npt.NDArray[Any] = np.ndarray((count,), kind, self._data, strides=(1,))
        try:
            return everywhere[positions]
        except IndexError:
            raise ProtocolError("a record's parts do not add up to its length") from None


def _numbers(numbers: npt.NDArray[Any]) -> Numbers:
    return numbers.astype(np.int64)
