"""Columns of plain stored records, which the compiled module writes directly into Arrow's buffers.

Without it, and for records that aren't plain, records.py and property_columns.py produce the same for all records.
CRCs aren't checked again: a broker has checked those of each record that it sends.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from staticfire.client.cluster.queues import MessageQueue
from staticfire.pipeline.records import BATCH_HEAD_BYTES, Numbers
from staticfire.pipeline.schema import PROPERTIES
from staticfire.protocol.compiled import PlainColumns, TextColumn, twin
from staticfire.protocol.properties import KEYS, TAGS, UNIQ_KEY

_OF_PROPERTIES = {"tags": TAGS, "keys": KEYS, "messageId": UNIQ_KEY}
_TIMESTAMP = pa.timestamp("us", "UTC")


class PlainMaker:
    """Makes the columns of the responses of one queue."""

    def __init__(self, queue: MessageQueue, columns: Iterable[str], needs_tags: bool = False) -> None:
        """`columns`: the columns that will be requested; `needs_tags`: also make the tags."""
        wanted = {*columns, "tags"} if needs_tags else {*columns}
        self._queue = queue
        self._names = [name for name in _OF_PROPERTIES if name in wanted]
        self._properties = tuple(_OF_PROPERTIES[name].encode() for name in self._names)
        self._with_body = "body" in wanted
        self._can = twin is not None and PROPERTIES not in wanted

    def columns(self, bodies: list[bytes]) -> "PlainMessages | None":
        """Return the columns, or None if a record isn't plain."""
        if twin is None or not self._can:
            return None
        made = twin.record_columns(bodies, BATCH_HEAD_BYTES, self._properties, self._with_body)
        if made is None:
            return None
        properties = dict(zip(self._names, made[-1], strict=True))
        if "messageId" in properties and properties["messageId"][3]:
            return None  # A message without an id gets one from its position, which isn't available here.
        return PlainMessages(self._queue, made, properties)


class PlainMessages:
    """The columns of some responses: views of the buffers that the compiled module has written."""

    def __init__(self, queue: MessageQueue, made: PlainColumns, properties: dict[str, TextColumn]) -> None:
        self._rows, offsets, stored, born, flags, times, body_offsets, body_data, _ = made
        self.offsets: Numbers = np.frombuffer(offsets, dtype=np.int64)
        self._properties = properties
        self._makers: dict[str, Callable[[pa.DataType], pa.Array]] = {
            "topic": lambda kind: self._repeated(queue.topic, kind),
            "flag": lambda kind: self._view(kind, flags),
            "body": lambda kind: self._view(kind, body_offsets, body_data),
            "brokerName": lambda kind: self._repeated(queue.broker_name, kind),
            "queueId": lambda kind: self._repeated(queue.queue_id, kind),
            "queueOffset": lambda kind: self._view(kind, offsets),
            "bornTimestamp": lambda _: self._view(_TIMESTAMP, born),
            "storeTimestamp": lambda _: self._view(_TIMESTAMP, stored),
            "reconsumeTimes": lambda kind: self._view(kind, times),
        }

    def make(self, name: str, kind: pa.DataType) -> pa.Array:
        """Return a column by its name."""
        found = self._properties.get(name)
        if found is None:
            return self._makers[name](kind)
        starts, texts, valid, nulls = found
        return self._view(kind, starts, texts, valid=valid if nulls else None, nulls=nulls)

    def _repeated(self, value: Any, kind: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, kind), self._rows)

    def _view(self, kind: pa.DataType, *data: bytes | None, valid: bytes | None = None, nulls: int = 0) -> pa.Array:
        buffers = [None if each is None else pa.py_buffer(each) for each in (valid, *data)]
        return pa.Array.from_buffers(kind, self._rows, buffers, nulls)
