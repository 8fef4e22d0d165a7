"""Each trouble of docs/troubles.md is there with RocketMQ's defaults, and gone with what avoids it.

A few seconds of a core: `make test-simulation` runs this, and `make test` the cheap ones of it (test_troubles.py).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from tests.house.source import ROOT
from tools.docs import TROUBLE_PARTS, fresh_documents
from tools.troubles import played, trouble_names

pytestmark = pytest.mark.row("S3")

Claim = Callable[[Sequence[Mapping[str, Any]]], bool]

CLAIMS: dict[str, Claim] = {
    "young_topic": lambda ways: [way["old messages consumed"] for way in ways] == [100, 0],
    "two_tags": lambda ways: (
        all(way["lag"] == 0 for way in ways) and [way["paid"] + way["refunded"] for way in ways] == [50, 200]
    ),
    "hanging_listener": lambda ways: (
        ways[0]["consumed again"] > 490 and ways[1]["consumed again"] == ways[1]["lag"] == 0
    ),
    "poison_in_order": lambda ways: [(way["consumed"], way["dead letters"]) for way in ways] == [(10, 0), (99, 1)],
    "silent_member": lambda ways: ways[0]["waited over 5 s"] > 50 and ways[1]["waited over 5 s"] < 12,
    "dead_after_hours": lambda ways: [way["dead after"] for way in ways] == ["4 h 46 min", "100.0 s", "16.0 s"],
    "open_transaction": lambda ways: [way["consumed after"] for way in ways] == ["66.0 s", "3.0 s"],
    "lonely_topic": lambda ways: min(ways[0]["broker-a"], ways[0]["broker-b"]) == 0 and 40 < ways[1]["broker-a"] < 60,
    "hanging_broker": lambda ways: (
        ways[0]["failed"] > 10 and ways[1]["failed"] == ways[2]["failed"] == 0 and ways[2]["sends"] > ways[1]["sends"]
    ),
    "lost_power": lambda ways: 0 < ways[0]["lost"] <= 110 and ways[1]["lost"] == 0,
}
"""By the name of the example: what its numbers have to say, the ways in their order. 110: half a second's messages."""


def ways_of(name: str) -> Sequence[Mapping[str, Any]]:
    """Return what comes of each way of a trouble."""
    return played(name)[1]


@pytest.mark.parametrize("name", trouble_names())
def test_a_trouble_is_there_and_can_be_avoided(name: str) -> None:
    ways = ways_of(name)
    assert CLAIMS[name](ways), ways


def test_the_page_has_the_numbers_that_runs_print() -> None:
    for path, text in fresh_documents(TROUBLE_PARTS).items():
        assert (ROOT / path).read_text() == text, "run `make docs ALL=1`"
