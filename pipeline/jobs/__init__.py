"""Jobs on Spark: topics to Parquet exactly once, and analysis of the tables. Importing this loads no Spark.

- `ingest.py`: topics to Parquet; `settings.py`: its settings; `topics.py`: which topics exist
- `folder.py`, `card.py`, `lock.py`: its output folder, the ingest that owns it, and the lock on it
- `analysis.py`: analyses the tables; `queries.py`: its SQL; `answers.py`: its results as plain values
- `sessions.py`: the Spark session of a job; `failures.py`: Spark's errors as one line
- `late_worker.py`: starts a query again if Spark gave up its Python worker
"""

from staticfire.pipeline.jobs.ingest import Batch, IngestReport, ingest, read_ingested
from staticfire.pipeline.jobs.settings import IngestSettings

__all__ = ["Batch", "IngestReport", "IngestSettings", "ingest", "read_ingested"]
