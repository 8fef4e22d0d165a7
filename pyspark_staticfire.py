"""Where Spark finds the data source: it looks for modules called `pyspark_*` with a `DefaultSource` in them."""

from staticfire.pipeline.source import StaticfireSource as DefaultSource

__all__ = ["DefaultSource"]
