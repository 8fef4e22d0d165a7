"""Analyse consumption once: gather the data, make the tables, write the page. Repeatedly: following.py."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from staticfire.pipeline.consumption.findings import ConsumptionFindings
from staticfire.pipeline.consumption.gaps import read_gaps, sentences
from staticfire.pipeline.consumption.gathering import gather
from staticfire.pipeline.consumption.reading import TableReader
from staticfire.pipeline.consumption.settings import OWN_FOLDER, PAGE, ConsumptionSettings
from staticfire.pipeline.consumption.sources import SourceViews, read_folder
from staticfire.pipeline.consumption.tables import ConsumptionTables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def look(
    spark: "SparkSession", settings: ConsumptionSettings, ledger: "DataFrame | None" = None
) -> ConsumptionFindings:
    """Get new data, if a nameserver is given, then make the tables and return their results.

    `ledger`: records that consumers wrote themselves (sources.LEDGER_COLUMNS), used instead of traces.

    Raises: UsageError, ClientError (also if another job writes to the folder), NetworkError, and what Spark raises.
    """
    from staticfire.pipeline.jobs.lock import CONSUMPTION_LOCK_NAME, folder_lock

    if settings.name_server:
        gather(spark, settings)
    settings = with_results(spark, settings)
    with folder_lock(spark, CONSUMPTION_LOCK_NAME, settings.result_folder):
        return tell(spark, settings, ledger)


def with_results(spark: "SparkSession", settings: ConsumptionSettings) -> ConsumptionSettings:
    """Return the settings with the folder for the results. Raises: UsageError (a client of Spark Connect).

    Readers of an ingest's table that don't know Spark's log would read results in it as messages.
    """
    from staticfire.pipeline.jobs.card import CARD_NAME
    from staticfire.pipeline.jobs.folder import HadoopFolder

    if settings.results or not HadoopFolder(spark, settings.folder).has(CARD_NAME):
        return settings
    return replace(settings, results=settings.place(OWN_FOLDER))


def tell(
    spark: "SparkSession", settings: ConsumptionSettings, ledger: "DataFrame | None" = None
) -> ConsumptionFindings:
    """Make the tables from the data in the folder; return their results."""
    sources = SourceViews(spark, settings).make(read_folder(spark, settings, ledger))
    ConsumptionTables(spark, settings, sources).write()
    return replace(TableReader(spark, sources).findings(), gaps=sentences(read_gaps(settings), sources))


def write_consumption_page(findings: ConsumptionFindings, place: Path, source: str, foot: str) -> None:
    """Write the page. Raises: OSError."""
    from staticfire.pipeline.report import write_page
    from staticfire.pipeline.report.consumption import consumption_page

    place.parent.mkdir(parents=True, exist_ok=True)
    write_page(consumption_page(findings, source, foot), place)


def page_place(settings: ConsumptionSettings) -> Path:
    """Return the path of the page: beside the tables, or in the current folder if they aren't local."""
    place = settings.result_place(PAGE)
    return Path(PAGE) if "://" in place else Path(place)
