"""The desks' ledgers as a table: a row per attempt, the form in which `staticfire.pipeline.jobs` reads consumption."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

LINES = {
    "done": r"^done (\S+) (\d+) \d+ (\S+) (\d+)$",
    "failed": r"^failed (\S+) (\d+) (\S+) (\d+)$",
}
"""What is in a line: key, times tried before, message id, ms since 1970. Lines about queues aren't consumption."""

COLUMNS = {
    "consumer": r"regexp_extract(_metadata.file_name, '^(.*)\\.ledger$', 1)",
    "outcome": "split_part(value, ' ', 1)",
    "key": "words[1]",
    "reconsumeTimes": "cast(words[2] AS int)",
    "messageId": "words[size(words) - 2]",
    "consumedAt": "timestamp_millis(cast(words[size(words) - 1] AS bigint))",
}


def ingest_ledgers(spark: SparkSession, folder: Path, to: Path) -> DataFrame:
    """Write the ledgers of a folder to Parquet, and return the table."""
    lines = spark.read.text(str(folder / "*.ledger"))
    attempts = lines.where(" OR ".join(f"value RLIKE r'{pattern}'" for pattern in LINES.values()))
    rows = attempts.withColumn("words", expr("split(value, ' ')"))
    rows.select(*(expr(text).alias(name) for name, text in COLUMNS.items())).write.mode("overwrite").parquet(str(to))
    return spark.read.parquet(str(to))
