"""Turn rows into messages: the columns of the sink. Pure but for Arrow.

The types of the columns are checked when a write starts, the values of each row when it is sent. Columns that the
source produces and no producer can set (offsets, ids, times) are ignored, so that a table that was read can be written
unchanged.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from difflib import get_close_matches
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from staticfire.pipeline.row_messages import RowError, RowMessage
from staticfire.pipeline.sink_options import SinkOptions
from staticfire.protocol.errors import ClientError, UsageError
from staticfire.protocol.messages import Message
from staticfire.protocol.properties import RESERVED_NAMES

ROW_ID = "SPARK_ROW_ID"
"""The property that identifies the row of a message: run, partition, position. A second message with the same value is
a copy, sent by a retried task."""

_WHOLE = (ByteType, ShortType, IntegerType, LongType)
COLUMNS: dict[str, tuple[tuple[type[DataType], ...], str]] = {
    "value": ((BinaryType, StringType), "binary or string"),
    "body": ((BinaryType, StringType), "binary or string"),
    "topic": ((StringType,), "string"),
    "tags": ((StringType,), "string"),
    "keys": ((StringType, ArrayType), "string, or array<string>"),
    "properties": ((MapType,), "map<string,string>"),
    "flag": (_WHOLE, "int"),
    "queue": (_WHOLE, "int"),
    "orderingKey": ((StringType,), "string"),
    "delayLevel": (_WHOLE, "int"),
    "deliverTimestamp": ((TimestampType, LongType), "timestamp, or bigint milliseconds since 1970"),
}
MADE_BY_BROKERS = {
    "brokerName", "queueId", "queueOffset", "bornTimestamp", "storeTimestamp", "messageId", "reconsumeTimes",
}  # fmt: skip


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Refuse columns that the sink doesn't accept. Raises: UsageError, which names the column."""
    names = [column.name for column in schema.fields]
    if ("value" in names) == ("body" in names):
        raise UsageError(f"one column value (or body) with the message is needed; the columns are: {', '.join(names)}")
    if not options.topic and "topic" not in names:
        raise UsageError('no topic: write .option("topic", "orders"), or add a column topic')
    for column in schema.fields:
        if column.name in MADE_BY_BROKERS:
            continue
        known = COLUMNS.get(column.name)
        if known is None:
            close = get_close_matches(column.name, COLUMNS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"the columns are: {', '.join(COLUMNS)}"
            raise UsageError(
                f"{column.name} is not a column of the sink staticfire; {hint}; remove it, or put it into value"
            )
        if not isinstance(column.dataType, known[0]) or not _is_text_inside(column.dataType):
            given = column.dataType.simpleString()
            raise UsageError(f"column {column.name} is a {given}; the sink needs {known[1]}")


def _is_text_inside(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return isinstance(kind.elementType, StringType)
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType) and isinstance(kind.valueType, StringType)
    return True


def messages_of(batch: pa.RecordBatch, options: SinkOptions, first: int, run: str) -> Iterator[RowMessage | RowError]:
    """Yield each row of a batch as a message, or an error if that isn't possible.

    `first`: the position of the first row in the partition; `run`: the prefix of row ids.
    """
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names if name not in MADE_BY_BROKERS}
    values = columns.pop("value", None) or columns.pop("body", [])
    for position, value in enumerate(values):
        row = {name: column[position] for name, column in columns.items()} if columns else {}
        try:
            message = _message(value, row, options)
        except (ClientError, UsageError) as error:
            yield RowError(f"row {first + position}: {error}")
            continue
        if options.row_ids:
            message.properties[ROW_ID] = f"{run}-{first + position}"  # Set without a check, since it is always valid.
        yield RowMessage(message, row.get("queue"), row.get("orderingKey")) if row else RowMessage(message)


def _message(value: bytes | str | None, row: Mapping[str, Any], options: SinkOptions) -> Message:
    """Return the message of a row. Raises: ClientError, UsageError."""
    if value is None:
        raise UsageError("value is null: a message must have a body that isn't empty")
    topic = row.get("topic") or options.topic
    if not topic:
        raise UsageError("topic is null, and there is no option topic")
    body = value.encode() if isinstance(value, str) else value
    if not row:
        return Message(topic, body)
    keys = row.get("keys") or ()
    given = row.get("properties") or {}  # Arrow's maps are lists of pairs.
    return Message(
        topic,
        body,
        tags=row.get("tags") or "",
        keys=keys.split() if isinstance(keys, str) else keys,
        properties={name: text for name, text in dict(given).items() if name not in RESERVED_NAMES and text},
        flag=row.get("flag") or 0,
        delay_level=row.get("delayLevel") or 0,
        deliver_ms=_deliver_ms(row.get("deliverTimestamp")),
        sharding_key=row.get("orderingKey") or "",
    )


def _deliver_ms(moment: Any) -> int | None:
    if isinstance(moment, datetime):
        return round(moment.timestamp() * 1_000)
    return None if moment is None else int(moment)
