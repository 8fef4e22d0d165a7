"""Each accident of masters and slaves in examples/replication/ is there, and gone with what avoids it."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from staticfire.simulation.troubles.telling import find_trouble, lines_of
from tests.house.source import ROOT

pytestmark = pytest.mark.row("P7")

EXAMPLES = ROOT / "examples" / "replication"
Claim = Callable[[Sequence[Mapping[str, Any]]], bool]


def found(ways: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return what `explain` found in each way."""
    return [way["explain finds"] for way in ways]


def values(ways: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    """Return one fact of each way."""
    return [way[name] for way in ways]


CLAIMS: dict[str, Claim] = {
    "ahead_of_the_slave": lambda ways: found(ways) == ["AHEAD_OF_SLAVE, READ_AT_SLAVE", "READ_AT_SLAVE"],
    "delayed_without_master": lambda ways: values(ways, "late by")[0] == "50.0 s" and ways[1]["late by"][-2:] == "ms",
    "diverged_slave": lambda ways: (
        ways[0]["the master has"] == ways[0]["the slave has"] < 40
        and ways[1]["the master has"] == ways[1]["the slave has"] == 40
    ),
    "half_without_master": lambda ways: (
        float(ways[0]["consumed after"][:-2]) > 180 > 20 > float(ways[1]["consumed after"][:-2])
    ),
    "lost_after_failover": lambda ways: values(ways, "lost") == [5, 5, 0],
    "offsets_back": lambda ways: values(ways, "consumed again") == [30, 0],
    "offsets_overwritten": lambda ways: values(ways, "consumed again") == [7, 0],
    "order_without_master": lambda ways: (
        ways[0]["consumed then"] == 0
        and all(way["consumed then"] == way["left at the loss"] > 0 for way in ways[1:])
        and "MASTER_AWAY" in ways[0]["explain finds"]
    ),
    "pops_without_master": lambda ways: values(ways, "received") == [0, 20] and values(ways, "failed calls")[1] == 0,
    "skipped_after_truncation": lambda ways: values(ways, "delivered") == [0, 3],
    "slave_lag": lambda ways: ways[0]["all consumed after"] > "1" and ways[1]["all consumed after"][-2:] == "ms",
    "stuck_at_the_slave": lambda ways: (
        float(ways[0]["consumed after"][:-2]) > 100 > float(ways[1]["consumed after"][:-2])
    ),
    "timeout_but_stored": lambda ways: (
        values(ways, "delivered") == [19, 19, 10]
        and values(ways, "the program sees")[:2] == ["9 x AnswerTimeout", "9 x FLUSH_SLAVE_TIMEOUT"]
    ),
    "two_masters": lambda ways: ways[0]["delivered of 20"] < 20 == ways[1]["delivered of 20"],
    "unreadable_slave": lambda ways: (
        values(ways, "consumed") == [0, 20] and found(ways) == ["SLAVE_NOT_READABLE", "READ_AT_SLAVE"]
    ),
    "writes_refused": lambda ways: values(ways, "sent without the slave") == [0, 5],
    "young_topic_without_master": lambda ways: (
        values(ways, "consumed") == [0, 20] and found(ways) == ["TOPIC_NOT_AT_SLAVE, READ_AT_SLAVE", "READ_AT_SLAVE"]
    ),
}
"""By the name of the example: what its numbers have to say, the ways in their order."""


def names() -> list[str]:
    return sorted(path.stem for path in EXAMPLES.glob("*.py"))


def test_seventeen_are_shown() -> None:
    assert names() == sorted(CLAIMS)
    assert len(CLAIMS) == 17


@pytest.mark.parametrize("name", names())
def test_an_accident_is_there_and_can_be_avoided(name: str) -> None:
    path: Path = EXAMPLES / f"{name}.py"
    trouble = find_trouble(str(path))
    assert trouble is not None
    assert f"staticfire simulate examples/replication/{name}.py" in path.read_text()
    ways = lines_of(trouble)
    assert CLAIMS[name](ways), ways
