"""Tables of consumption, made by hand: two members at once in a queue, and broadcasting groups."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from staticfire.pipeline.consumption.findings import ConsumptionFindings, Overlap
from staticfire.pipeline.consumption.gaps import Gaps, sentences
from staticfire.pipeline.consumption.reading import TableReader
from staticfire.pipeline.consumption.settings import ConsumptionSettings
from staticfire.pipeline.consumption.sources import Sources
from staticfire.pipeline.consumption.tables import ConsumptionTables
from tests.pipeline.test_consumption import at, attempt, message, noted, views

pytestmark = [
    pytest.mark.spark, pytest.mark.row("E4"), pytest.mark.timeout(300), pytest.mark.usefixtures("for_few_rows"),
]  # fmt: skip

MESSAGES = [message("orders", number, f"m{number}", 0) for number in range(6)]
QUEUE = "orders a 0"


def made(
    spark: SparkSession, folder: Path, journal: list[Any], ledger: list[Any]
) -> tuple[ConsumptionFindings, Sources]:
    settings = ConsumptionSettings("", str(folder))
    sources = views(spark, settings, MESSAGES, journal or [noted(1, 0, "began")], ledger)
    ConsumptionTables(spark, settings, sources).write()
    return TableReader(spark, sources).findings(), sources


def short_calls(consumer: str) -> list[Any]:
    return [attempt(consumer, f"m{n}", 1_000 * n, 1_000 * n + 500) for n in range(1, 6)]


def open_call(consumer: str, began_ms: int) -> Any:
    return ("billing", consumer, "m0", 0, at(began_ms), None, "open")


@pytest.mark.parametrize(
    ("calls", "left", "overlaps"),
    [
        ([attempt("one", "m0", 0, 10_000), *short_calls("two")], None, (5, 500)),
        ([attempt("two", "m0", 0, 9_000), attempt("one", "m1", 1_000, 2_000), attempt("two", "m2", 5_000, 6_000)],
         None, (1, 1_000)),
        ([open_call("one", 0), *short_calls("two")], None, (5, 500)),
        ([open_call("one", 0), *short_calls("two")], 2_100, (2, 500)),
        ([open_call("one", 0), attempt("two", "m1", 500, 600), *short_calls("one")], None, (1, 100)),
        (short_calls("one"), None, None),
    ],
    ids=["a long call", "own long call", "never returned", "left", "between own calls", "alone"],
)  # fmt: skip
def test_each_call_beside_another_members_call_is_an_overlap(
    spark: SparkSession, tmp_path: Path, calls: list[Any], left: int | None, overlaps: tuple[int, int] | None
) -> None:
    journal = [] if left is None else [
        noted(1, 0, "delivered", "one", queueOffset=0, endOffset=1), noted(2, left, "left", "one", words="killed"),
    ]  # fmt: skip
    findings, _ = made(spark, tmp_path, journal, calls)
    assert findings.overlaps == (() if overlaps is None else (Overlap("billing", QUEUE, *overlaps),))


def test_a_broadcasting_group_is_left_out_and_named(spark: SparkSession, tmp_path: Path) -> None:
    details = json.dumps({"messageModel": "BROADCASTING"})
    journal = [
        noted(1, 0, "joined", "one", details=details), noted(2, 1, "joined", "two", details=details),
        noted(3, 2, "delivered", "one", queueOffset=0, endOffset=6),
        noted(4, 3, "delivered", "two", queueOffset=0, endOffset=6),
    ]  # fmt: skip
    findings, sources = made(spark, tmp_path, journal, [*short_calls("one"), *short_calls("two")])
    assert (findings.pairs, findings.causes, findings.members, findings.holdings) == ((), (), (), ())
    assert sentences(Gaps(), sources) == (
        "billing is left out: it is a broadcasting group, so each of its members consumes every message.",
    )
