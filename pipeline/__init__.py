"""Messages in Spark: the data source `staticfire`, and jobs that use it.

    from staticfire.pipeline import session

    with session("orders") as spark:
        orders = spark.read.format("staticfire").option("subscribe", "orders").load()

`pip install 'staticfire[spark]'` installs what it needs; Spark itself needs Java 17 or later. Importing this package
loads none of that, and no module outside of this folder imports it.

- `source.py`, `batch_reader.py`: the interface to Spark; `schema.py`: the columns; `local_spark.py`: a Spark session
  that is set up for the source; `errors.py`
- pure: `options.py`, `offsets.py`, `planning.py` (the offset ranges of a query), `pace.py` (how often to poll),
  `expressions.py` (message filters), `topic_pattern.py` (topic selection)
- `batch_plan.py`, `stream_plan.py`: what a batch query and a streaming query read
- requests to the cluster: `link.py` (a client in a thread), `survey.py` (queues and their offsets),
  `known_messages.py` (whether a queue is still the one that was read)
- `pushing.py`, `pushing_reader.py`: filters that brokers can apply
- writing: `sink.py` (the interface to Spark), `sink_options.py`, `rows.py` (rows to messages: `row_messages.py`),
  `sending.py`
- reading: `pulls.py` (ahead of the reader), `batches.py` (to Arrow): `plain_columns.py`, or `records.py` and
  `property_columns.py`
- `jobs/`: topics to Parquet, and analysis of the tables; `report/`: a page about it
- `consumption/`: statistics of consumption, for any cluster
- `sweep/`: simulated clusters that run on Spark's executors
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from staticfire.pipeline.local_spark import session
    from staticfire.pipeline.source import StaticfireSource

__all__ = ["StaticfireSource", "session"]


def __getattr__(name: str) -> Any:
    if name == "session":
        from staticfire.pipeline.local_spark import session

        return session
    if name == "StaticfireSource":
        from staticfire.pipeline.source import StaticfireSource

        return StaticfireSource
    raise AttributeError(f"module 'staticfire.pipeline' has no attribute {name!r}")
