"""The Spark that a job runs on: one of this machine, or the one that spark-submit has started."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from staticfire.pipeline.local_spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUBMITTED = "PYSPARK_GATEWAY_PORT"
# In the environment of a program that spark-submit runs.


def job_session(name: str, master: str, settings: Mapping[str, str] | None = None) -> "SparkSession":
    """Return a session; under spark-submit the one that its own flags describe, and `master` counts for nothing.

    `settings`: Spark's, of a session of this machine. Raises: SparkMissing.
    """
    if SUBMITTED not in os.environ:
        return session(name, master, settings)
    from pyspark.sql import SparkSession

    from staticfire.pipeline.source import StaticfireSource

    spark = SparkSession.builder.appName(name).getOrCreate()
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # storeDate means the same everywhere.
    spark.dataSource.register(StaticfireSource)  # Spark's own search doesn't see an editable install.
    return spark
