"""What happens to the processes of `cluster.faults` when their rules are removed, and one can't be restarted."""

from collections.abc import Iterator

import pytest

from staticfire import Cluster, StaticfireError
from tests.cli.fault_command import port_taken
from tests.scenarios.logged import LogLine, logged

__all__ = ["logged"]

pytestmark = pytest.mark.row("S2")


@pytest.fixture
def pair() -> Iterator[Cluster]:
    """Two brokers, both killed by fault rule 1."""
    with Cluster(brokers=2, isolation="process") as cluster:
        cluster.faults.add(broker="broker-a,broker-b", kill=True)
        yield cluster


def test_rule_stays_until_all_its_processes_are_restarted(pair: Cluster) -> None:
    with port_taken(pair, "broker-a"), pytest.raises(StaticfireError, match=r"rule 1 .*broker-a: port \d+ is in use"):
        pair.faults.remove(1)
    assert sorted(pair.pids) == ["broker-b", "nameserver"]
    assert [(view.number, list(view.hits)) for view in pair.faults.all()] == [(1, ["broker-a"])]
    pair.faults.remove(1)
    assert sorted(pair.pids) == ["broker-a", "broker-b", "nameserver"]
    assert pair.faults.all() == []


def test_all_rules_that_can_be_removed_are_removed(pair: Cluster) -> None:
    pair.faults.add(broker="nameserver", freeze="1h")
    with port_taken(pair, "broker-a"), pytest.raises(StaticfireError, match="broker-a: port"):
        pair.faults.clear()
    assert sorted(pair.pids) == ["broker-b", "nameserver"]
    pair.faults.add(broker="broker-b", code="SEND_MESSAGE", answer="SYSTEM_BUSY")
    with port_taken(pair, "broker-a"), pytest.raises(StaticfireError, match="broker-a: port"):
        pair.faults.clear()
    assert [view.number for view in pair.faults.all()] == [1]
    assert pair.faults.clear() == 1
    assert sorted(pair.pids) == ["broker-a", "broker-b", "nameserver"]


def test_what_is_suspended_continues_before_what_was_killed_is_restarted(pair: Cluster, logged: list[LogLine]) -> None:
    """Otherwise no broker would start: the nameserver does not register it."""
    pair.faults.add(broker="nameserver", freeze="1h")
    assert pair.faults.clear() == 2
    assert [line.fields["number"] for line in logged if line.event == "fault_removed"] == [2, 1]
    assert sorted(pair.pids) == ["broker-a", "broker-b", "nameserver"]
