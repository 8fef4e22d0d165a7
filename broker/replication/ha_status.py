"""The state of replication in the form of RocketMQ's `haStatus`. RocketMQ: HARuntimeInfo."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from staticfire.protocol.command import Answer
from staticfire.protocol.requests.replication import FollowerState
from staticfire.protocol.requests.upkeep import CopyRuntime, HighAvailability, HighAvailabilityAnswer, ReplicaState

if TYPE_CHECKING:
    from staticfire.broker.replication.follower import ReplicationFollower


def ha_of_master(end_position: int, slaves: Sequence[FollowerState]) -> Answer:
    """Return the state of a master and its slaves."""
    connections = [
        ReplicaState(one.address, one.stored_position, one.behind_bytes, one.in_sync, 0, one.stored_position)
        for one in slaves
    ]
    in_sync = sum(one.in_sync for one in slaves)
    return HighAvailabilityAnswer(body=HighAvailability(True, end_position, in_sync, connections))


def ha_of_slave(end_position: int, follower: "ReplicationFollower") -> Answer:
    """Return the state of a slave."""
    copy = CopyRuntime(master_addr=follower.master_address or None, max_offset=end_position)
    copy.master_flush_offset = follower.master_end
    copy.last_read_timestamp = copy.last_write_timestamp = follower.last_read_ms
    return HighAvailabilityAnswer(body=HighAvailability(False, ha_client_runtime_info=copy))
