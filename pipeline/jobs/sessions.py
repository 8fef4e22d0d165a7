"""The Spark session of a job: a local one, or the one that spark-submit has started."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from staticfire.pipeline.local_spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# spark-submit sets this variable for the program that it runs.
SUBMITTED = "PYSPARK_GATEWAY_PORT"


def job_session(name: str, master: str, settings: Mapping[str, str] | None = None) -> "SparkSession":
    """Return a session. Under spark-submit, its own flags define the session and `master` is ignored.

    `settings`: Spark settings for a local session. Raises: SparkMissing.
    """
    if SUBMITTED not in os.environ:
        return session(name, master, settings)
    from pyspark.sql import SparkSession

    from staticfire.pipeline.source import StaticfireSource

    spark = SparkSession.builder.appName(name).getOrCreate()
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # So that storeDate means the same everywhere.
    spark.dataSource.register(StaticfireSource)  # Spark's own search doesn't find it in an editable install.
    return spark
