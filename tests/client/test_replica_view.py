"""What `staticfire replication` says about a master: who copies it, for whom its sends wait, and whether it waits."""

from typing import Any

import pytest

from staticfire.client.admin.replica_view import line_of, object_of
from staticfire.failover.replica import Replica
from staticfire.protocol.requests.replication import FollowerState, ReplicationState

pytestmark = pytest.mark.row("P7")
SLAVES = [FollowerState(number, f"10.0.1.{number}:10911", 900, 0, 0, True) for number in (1, 2)]


def master(**more: Any) -> Replica:
    state = ReplicationState("broker-a", 0, "10.0.1.9:10911", "SYNC_MASTER", followers=SLAVES, **more)
    return Replica("broker-a", 0, state.address, state)


@pytest.mark.parametrize(
    ("more", "note"),
    [
        ({}, "copied by 1, 2"),
        ({"copies": 2}, "copied by 1, 2; sends wait for 2 copies"),
        ({"copies": 2, "all_in_sync_acknowledge": True}, "copied by 1, 2; sends wait for all in sync"),
        ({"waits_for_failover": True}, "it lost messages: staticfire failover broker-a"),
    ],
)
def test_the_note_of_a_master(more: dict[str, Any], note: str) -> None:
    one = master(**more)
    assert line_of(one, [one])["note"] == note
    shown = object_of(one, [one])
    assert shown["copiesAwaited"] == more.get("copies", 1)
    assert shown["allInSyncAcknowledge"] == more.get("all_in_sync_acknowledge", False)
    assert shown["waitsForFailover"] == more.get("waits_for_failover", False)
