"""Queries about the flights: how many there were and how many were cancelled, per carrier and month."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
from data import TOPIC, Flight
from pyspark.sql import SparkSession

from staticfire.protocol.names import dead_letter_topic

PER_CARRIER_AND_MONTH = """
    SELECT row.carrier, row.month, count(*) AS flights, count_if(row.dep_time IS NULL) AS cancelled FROM (
        SELECT any_value(from_json(cast(body AS string), 'carrier string, month int, dep_time int')) AS row
        FROM messages WHERE topic = :topic GROUP BY keys
    ) GROUP BY ALL ORDER BY ALL
"""
"""Each flight counts once, by its key, also when a send that was made again stored it twice."""


@dataclass(frozen=True, slots=True)
class CarrierMonth:
    """One carrier in one month."""

    carrier: str
    month: int
    flights: int
    cancelled: int


class _Row(msgspec.Struct):
    month: int


_row = msgspec.json.Decoder(_Row).decode


def per_carrier_and_month(spark: SparkSession) -> list[CarrierMonth]:
    """Return what Spark finds in the ingested messages."""
    return [CarrierMonth(*row) for row in spark.sql(PER_CARRIER_AND_MONTH, {"topic": TOPIC}).collect()]


def expected(flights: Iterable[Flight]) -> list[CarrierMonth]:
    """Return the same, counted without Spark from what was sent."""
    counted: Counter[tuple[str, int]] = Counter()
    cancelled: Counter[tuple[str, int]] = Counter()
    for flight in flights:
        place = (flight.carrier, _row(flight.body).month)
        counted[place] += 1
        cancelled[place] += flight.cancelled
    return [CarrierMonth(*place, counted[place], cancelled[place]) for place in sorted(counted)]


@dataclass(frozen=True, slots=True)
class Keys:
    """How many flights went which way, by their keys."""

    handled: int
    handlings: int
    """All of them, also of the same flight."""
    dead: int


def keys(spark: SparkSession, group: str) -> Keys:
    """Return what the ledgers and the dead letters have."""
    handled = spark.sql("SELECT count(DISTINCT key), count(*) FROM consumption WHERE outcome = 'done'").collect()[0]
    topic = dead_letter_topic(group)
    dead = spark.sql("SELECT count(DISTINCT keys) FROM messages WHERE topic = :topic", {"topic": topic}).collect()[0]
    return Keys(handled[0], handled[1], dead[0])
