"""Jobs on Spark: topics to Parquet exactly once, and what the tables say. Importing this loads no Spark."""

from staticfire.pipeline.jobs.ingest import Batch, IngestReport, ingest, read_ingested
from staticfire.pipeline.jobs.settings import IngestSettings

__all__ = ["Batch", "IngestReport", "IngestSettings", "ingest", "read_ingested"]
