"""When connections that were closed because of TLS explain that a group has no member."""

import pytest

from staticfire.client.explain.facts import GroupFacts
from staticfire.client.explain.of_members import refused_by_tls
from staticfire.protocol.requests.group_state import GroupState
from staticfire.protocol.requests.journal import TLS_REFUSED, JournalRecord

pytestmark = pytest.mark.row("S4")


def refused(at_ms: int, reason: str) -> JournalRecord:
    """Return what a broker notes of a connection that it closed."""
    return JournalRecord(1, "broker-a", TLS_REFUSED, at_ms, at_ms, "10.0.0.9:4711", details={"reason": reason})


def test_connections_that_were_refused_long_ago_explain_nothing_now() -> None:
    states = {"broker-a": GroupState(wall_ms=600_000)}
    facts = GroupFacts("billing", states=states)
    facts.refused_connections = [refused(300_000, "plain text"), refused(479_000, "an unknown certificate")]
    assert list(refused_by_tls(facts)) == []
    facts.refused_connections.append(refused(590_000, "plain text on an enforcing port"))
    (finding,) = refused_by_tls(facts)
    assert finding.words == "1 connection of clients closed because of TLS, the last one 10s ago"
    assert finding.evidence == ["10.0.0.9:4711 at broker-a: plain text on an enforcing port"]
