"""The columns of the data source, for Spark and for Arrow. Both must agree exactly.

The columns of RocketMQ's own connector come first, under the same names. Its `properties` is a JSON string; here it is
a map, and only present on request. A query may specify its own schema: some of the columns, in any order. The others
are then not made at all. Spark has no other way to request that.
"""

from difflib import get_close_matches

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from staticfire.protocol.errors import UsageError

PROPERTIES = "properties"

COLUMNS: dict[str, tuple[DataType, pa.DataType]] = {
    "topic": (StringType(), pa.string()),
    "flag": (IntegerType(), pa.int32()),
    "body": (BinaryType(), pa.binary()),
    PROPERTIES: (MapType(StringType(), StringType()), pa.map_(pa.string(), pa.string())),
    "brokerName": (StringType(), pa.string()),
    "queueId": (IntegerType(), pa.int32()),
    "queueOffset": (LongType(), pa.int64()),
    "bornTimestamp": (TimestampType(), pa.timestamp("us", "UTC")),
    "storeTimestamp": (TimestampType(), pa.timestamp("us", "UTC")),
    "tags": (StringType(), pa.string()),
    "keys": (StringType(), pa.string()),
    "messageId": (StringType(), pa.string()),
    "reconsumeTimes": (IntegerType(), pa.int32()),
}


def spark_schema(include_properties: bool) -> StructType:
    """Return the columns of a query that specifies none."""
    wanted = [name for name in COLUMNS if include_properties or name != PROPERTIES]
    return StructType([StructField(name, COLUMNS[name][0]) for name in wanted])


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of these columns. Raises: UsageError (there is no such column)."""
    fields = []
    for column in schema.fields:
        known = COLUMNS.get(column.name)
        if known is None:
            close = get_close_matches(column.name, COLUMNS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"the columns are: {', '.join(COLUMNS)}"
            raise UsageError(f"schema: {column.name} is not a column of the source staticfire; {hint}")
        if column.dataType != known[0]:
            wanted, given = known[0].simpleString(), column.dataType.simpleString()
            raise UsageError(f"schema: {column.name} is a {wanted}, not a {given}: write {column.name} {wanted}")
        fields.append(pa.field(column.name, known[1], nullable=column.nullable))
    return pa.schema(fields)
