"""Make Arrow record batches from pull responses, with only the columns that are wanted."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from staticfire.pipeline.options import SourceOptions
from staticfire.pipeline.plain_columns import PlainMaker
from staticfire.pipeline.planning import QueueRange
from staticfire.pipeline.property_columns import PropertyTable, slices
from staticfire.pipeline.pulls import Pulled
from staticfire.pipeline.records import Numbers, RecordParts, rocketmq_parts, stored_parts
from staticfire.protocol.compression import expand
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.limits import EXPANDED_BYTES_MAX
from staticfire.protocol.message_ids import offset_id, offset_id_prefix
from staticfire.protocol.properties import KEYS, TAGS, UNIQ_KEY
from staticfire.protocol.sys_flag import COMPRESSED, STORE_HOST_V6, CompressionKind, compression_kind
from staticfire.protocol.tags import TagExpression
from staticfire.runtime.log import logger

log = logger("pipeline")

_ARROW_CODECS = {CompressionKind.LZ4: "lz4", CompressionKind.ZSTD: "zstd"}
_TIMESTAMP = pa.timestamp("us", "UTC")

# A batch has at most so many bytes of bodies that were decompressed, or a single one of them. Pulls are limited by the
# size of compressed bodies, and a megabyte of these can be a gigabyte.
EXPANDED_BATCH_BYTES_MAX = 32 * 1024 * 1024


class Columns(Protocol):
    """The columns of some records. Each is made on request."""

    offsets: Numbers

    def make(self, name: str, kind: pa.DataType) -> pa.Array:
        """Return a column by its name."""
        raise NotImplementedError


class BatchMaker:
    """Makes the batches of one range."""

    def __init__(self, options: SourceOptions, wanted: QueueRange, schema: pa.Schema) -> None:
        self._is_native = options.protocol == "staticfire"
        self._tags = options.expression.tags
        self._wanted = wanted
        self._schema = schema
        self._plain = PlainMaker(wanted.queue, schema.names, needs_tags=not options.expression.wants_all)

    def batches(self, pulled: Pulled) -> Iterator[pa.RecordBatch]:
        """Yield the wanted messages of these responses: one batch, or several if bodies are compressed and large.

        Raises: ProtocolError.
        """
        for columns in self._columns(pulled):
            made = [columns.make(field.name, field.type) for field in self._schema]
            batch = pa.RecordBatch.from_arrays(made, schema=self._schema)
            wanted = _wanted_rows(columns, self._wanted, self._tags)
            yield batch if wanted is None else batch.filter(wanted)

    def _columns(self, pulled: Pulled) -> Iterable[Columns]:
        """Return the columns of each batch. If all records are plain, they are made at once, otherwise one by one."""
        if not self._is_native:
            return self._pieces(rocketmq_parts(pulled.bodies), pulled.broker_host)
        plain = self._plain.columns(pulled.bodies)
        return (plain,) if plain else self._pieces(stored_parts(pulled.bodies), pulled.broker_host)

    def _pieces(self, parts: RecordParts, broker_host: bytes) -> Iterable[Columns]:
        columns = AnyColumns(parts, self._wanted, broker_host)
        return columns.pieces() if "body" in self._schema.names else (columns,)


def _wanted_rows(columns: Columns, wanted: QueueRange, tags: TagExpression | None) -> pa.Array | None:
    """Return which rows are wanted, or None for all.

    A broker compares only hash codes of tags, so the response may contain messages with other tags. `tags` is None if
    the broker has checked the messages themselves. A broker counts only matching messages towards a pull's limit, so
    the last ones may be after the end of the range.
    """
    offsets = columns.offsets
    mask = None
    if len(offsets) and (offsets[0] < wanted.start or offsets[-1] >= wanted.end):
        mask = pa.array((offsets >= wanted.start) & (offsets < wanted.end))
    if tags is None or tags.all_tags:
        return mask
    has_tag = pc.is_in(columns.make("tags", pa.string()), value_set=pa.array(sorted(tags.tags), pa.string()))
    return has_tag if mask is None else pc.and_(mask, has_tag)


class AnyColumns:
    """The columns of a series of records of any kind."""

    def __init__(
        self, parts: RecordParts, wanted: QueueRange, broker_host: bytes, expanded: Sequence[bytes] = ()
    ) -> None:
        """`expanded`: the decompressed bodies, one for each compressed one."""
        self.parts = parts
        self._expanded = expanded
        self.offsets = parts.queue_offset
        self._wanted = wanted
        self._broker_host = broker_host

    def make(self, name: str, kind: pa.DataType) -> pa.Array:
        """Return a column by its name."""
        parts, queue = self.parts, self._wanted.queue
        makers: dict[str, Callable[[], pa.Array]] = {
            "topic": lambda: pa.repeat(pa.scalar(queue.topic, kind), len(parts)),
            "flag": lambda: pa.array(parts.flag.astype(np.int32)),
            "body": self._bodies,
            "properties": lambda: self.properties.maps(kind),
            "brokerName": lambda: pa.repeat(pa.scalar(queue.broker_name, kind), len(parts)),
            "queueId": lambda: pa.repeat(pa.scalar(queue.queue_id, kind), len(parts)),
            "queueOffset": lambda: pa.array(parts.queue_offset),
            "bornTimestamp": lambda: _timestamps(parts.born_ms),
            "storeTimestamp": lambda: _timestamps(parts.stored_ms),
            "tags": lambda: self.properties.column(TAGS),
            "keys": lambda: self.properties.column(KEYS),
            "messageId": self._message_ids,
            "reconsumeTimes": lambda: pa.array(parts.reconsume_times.astype(np.int32)),
        }
        return makers[name]()

    @cached_property
    def properties(self) -> PropertyTable:
        parts = self.parts
        return PropertyTable(slices(parts.data, parts.properties_start, parts.properties_end, pa.binary()))

    def pieces(self) -> "Iterator[AnyColumns]":
        """Yield the columns with their bodies decompressed, in as many pieces as the limit of a batch needs."""
        start, expanded, expanded_bytes = 0, list[bytes](), 0
        for row in np.flatnonzero(self.parts.sys_flag & COMPRESSED).tolist():
            body = self._expand(row)
            if expanded and expanded_bytes + len(body) > EXPANDED_BATCH_BYTES_MAX:
                yield self._piece(start, row, expanded)
                start, expanded, expanded_bytes = row, [], 0
            expanded.append(body)
            expanded_bytes += len(body)
        yield self._piece(start, len(self.parts), expanded) if expanded else self

    def _piece(self, start: int, end: int, expanded: Sequence[bytes]) -> "AnyColumns":
        return AnyColumns(self.parts.between(start, end), self._wanted, self._broker_host, expanded)

    def _bodies(self) -> pa.Array:
        parts = self.parts
        bodies = slices(parts.data, parts.body_start, parts.body_end, pa.binary())
        if not self._expanded:
            return bodies
        is_compressed = (parts.sys_flag & COMPRESSED).astype(np.bool_)
        return pc.replace_with_mask(bodies, pa.array(is_compressed), pa.array(self._expanded, pa.binary()))

    def _expand(self, row: int) -> bytes:
        """Return a body decompressed, or as stored if that fails."""
        parts = self.parts
        body = parts.data[int(parts.body_start[row]) : int(parts.body_end[row])]
        sys_flag, queue_offset = int(parts.sys_flag[row]), int(parts.queue_offset[row])
        kind = compression_kind(sys_flag)
        try:
            if kind is None or kind not in _ARROW_CODECS:
                return expand(body, sys_flag, EXPANDED_BYTES_MAX)
            stream = pa.CompressedInputStream(pa.BufferReader(body), _ARROW_CODECS[kind])
            expanded: bytes = stream.read(EXPANDED_BYTES_MAX + 1)
            if len(expanded) > EXPANDED_BYTES_MAX:
                raise ProtocolError(f"a body is larger than {EXPANDED_BYTES_MAX} bytes when it is decompressed")
            return expanded
        except (ProtocolError, OSError) as error:
            # One damaged message must not stop a query for good.
            log.warning("body_not_expanded", queue=str(self._wanted.queue), offset=queue_offset, reason=str(error))
        return body

    def _message_ids(self) -> pa.Array:
        """Return the unique ids from the producers, or the offset id if a message has none."""
        ids = self.properties.column(UNIQ_KEY)
        if not ids.null_count:
            return ids
        missing = pc.is_null(ids)
        rows: Numbers = np.flatnonzero(missing.to_numpy(zero_copy_only=False))
        return pc.replace_with_mask(
            ids, missing, pa.array([self._offset_id(row) for row in rows.tolist()], pa.string())
        )

    def _offset_id(self, row: int) -> str:
        parts = self.parts
        host = self._broker_host
        if parts.store_host_start is not None:
            start = int(parts.store_host_start[row])
            host = parts.data[start : start + (20 if parts.sys_flag[row] & STORE_HOST_V6 else 8)]
        return offset_id(offset_id_prefix(host), int(parts.log_position[row]))


def _timestamps(times_ms: Numbers) -> pa.Array:
    return pa.array(times_ms * 1000).view(_TIMESTAMP)
