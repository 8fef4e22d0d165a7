"""Messages in Spark: the data source `staticfire`, and jobs over it.

    from staticfire.pipeline import session

    with session("orders") as spark:
        orders = spark.read.format("staticfire").option("subscribe", "orders").load()

`pip install 'staticfire[spark]'` brings what it needs; Spark itself needs Java 17 or later. Importing this loads
nothing of it, and nothing outside of this folder imports it.

What decides is pure and knows no Spark: `options`, `offsets`, `planning`, `pace`. What asks the cluster is `link` and
`survey`; what reads is `pulls`, `records`, `property_columns` and `batches`; `source` is what Spark sees.
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
