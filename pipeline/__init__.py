"""Messages in Spark: the data source `staticfire`, and jobs over it.

    from staticfire.pipeline import session

    with session("orders") as spark:
        orders = spark.read.format("staticfire").option("subscribe", "orders").load()

`pip install 'staticfire[spark]'` brings what it needs; Spark itself needs Java 17 or later. Importing this loads
nothing of it, and nothing outside of this folder imports it.

- `source.py`, `batch_reader.py`: what Spark sees; `schema.py`: its columns; `local_spark.py`: a Spark that is set up
  for it; `errors.py`
- pure: `options.py`, `offsets.py`, `planning.py` (which messages, in which pieces), `pace.py` (how often to ask),
  `expressions.py` (which messages), `topic_pattern.py` (which topics)
- `batch_plan.py`, `stream_plan.py`: what a query reads, once or again and again
- asking the cluster: `link.py` (a client in a thread), `survey.py` (what there is to read)
- `pushing.py`, `pushing_reader.py`: filters that brokers can look at
- writing: `sink.py` (what Spark sees), `sink_options.py`, `rows.py` (as messages), `sending.py`
- reading: `pulls.py` (ahead of the user), `batches.py` (to Arrow): `plain_columns.py`, or `records.py` and
  `property_columns.py`
- `jobs/`: topics to Parquet, and what the tables say; `report/`: a page about it
- `consumption/`: what consumption was like, of any cluster
- `sweep/`: simulated clusters spread over executors
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
