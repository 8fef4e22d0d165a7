"""Jobs on Spark: topics to Parquet exactly once, and what the tables say. Importing this loads no Spark.

- `ingest.py`: topics to Parquet; `settings.py`: what it is told; `topics.py`: which of them are there
- `folder.py`, `card.py`, `lock.py`: where it writes, whose that is, and that it writes there alone
- `analysis.py`: what the tables say; `queries.py`: its SQL; `answers.py`: its answers as plain values
- `sessions.py`: the Spark that a job runs on; `failures.py`: what Spark says when a query fails, as one line
"""

from staticfire.pipeline.jobs.ingest import Batch, IngestReport, ingest, read_ingested
from staticfire.pipeline.jobs.settings import IngestSettings

__all__ = ["Batch", "IngestReport", "IngestSettings", "ingest", "read_ingested"]
