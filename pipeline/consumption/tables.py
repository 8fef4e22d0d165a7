"""Make and write the tables: first `life`, with one row per message and group, then the others, mostly from it."""

from typing import TYPE_CHECKING

from staticfire.pipeline.consumption import queries
from staticfire.pipeline.consumption.settings import TABLES, ConsumptionSettings
from staticfire.pipeline.consumption.sources import Sources, make_view
from staticfire.pipeline.jobs.analysis import span_of
from staticfire.protocol.delay_levels import DEFAULT_DELAY_LEVELS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIMPLE = {
    "latency": queries.LATENCY,
    "retries": queries.RETRIES,
    "duplicates": queries.DUPLICATES,
    "ownership": queries.OWNERSHIP,
    "rebalances": queries.REBALANCES,
    "overlaps": queries.OVERLAPS,
    "queues": queries.QUEUES,
    "members": queries.MEMBERS,
    "stuck": queries.STUCK,
}
NAMES = ("names", "life", "attempts", *SIMPLE, "delays", "lag")
# Views to cache while the tables are made, since several tables use them. What doesn't fit in memory is on disk.
KEPT = ("broadcasting", "places", "placed", "handed_out")
LEVELS = 18


class ConsumptionTables:
    """Writes the tables of a folder, from its views."""

    def __init__(self, spark: "SparkSession", settings: ConsumptionSettings, sources: Sources) -> None:
        self._spark = spark
        self._settings = settings
        self._sources = sources

    def write(self) -> None:
        """Write all tables, replacing earlier ones. Afterwards there is a view with the name of each table."""
        for view in KEPT:
            self._spark.catalog.cacheTable(view)
        try:
            self._write_all()
        finally:
            for view in KEPT:
                self._spark.catalog.uncacheTable(view)

    def _write_all(self) -> None:
        self._write("names", "SELECT * FROM names")
        told = "told" if self._sources.told_by == "ledgers" else "client"  # The table `attempts` uses the same names.
        make_view(self._spark, self._settings, "shown", f"SELECT groupName, client, {told} AS told FROM names")
        self._write("attempts", "SELECT * FROM attempts")
        self._write("life", queries.LIFE)
        own = queries.OWNERSHIP_NOTED if self._sources.has_journal else queries.OWNERSHIP_SEEN
        make_view(self._spark, self._settings, "ownership_raw", own)
        make_view(self._spark, self._settings, "handled_again", queries.HANDLED_AGAIN)
        make_view(self._spark, self._settings, "handed_again", queries.HANDED_AGAIN)
        for name, text in SIMPLE.items():
            self._write(name, text)
        self._write_delays()
        self._write_lag()

    def _write_delays(self) -> None:
        levels = [DEFAULT_DELAY_LEVELS.delay_ms(level) for level in range(1, LEVELS + 1)]
        make_view(self._spark, self._settings, "delays", queries.DELAYS, levels=levels)
        self._put("delays")

    def _write_lag(self) -> None:
        (span,) = self._spark.sql(queries.SPAN).collect()
        began = span.beganMs or 0
        span_ms = span_of((span.endedMs or 0) - began)
        make_view(self._spark, self._settings, "lag", queries.LAG, began=began, span=span_ms)
        self._put("lag")

    def _write(self, name: str, text: str) -> None:
        make_view(self._spark, self._settings, name, text)
        self._put(name)

    def _put(self, name: str) -> None:
        """Write a view, and replace the view by the written files."""
        place = self._settings.result_place(f"{TABLES}/{name}")
        self._spark.table(name).write.mode("overwrite").parquet(place)
        self._spark.read.parquet(place).createOrReplaceTempView(name)
