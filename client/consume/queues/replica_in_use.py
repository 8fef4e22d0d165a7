"""Which replica of its broker a queue is pulled from, and what its consumer reports about it. Pure.

A pull goes to the replica that the last response suggested; if the route doesn't have it, to another one. A slave that
doesn't have the offset says so and corrects nothing, because it may get the messages later. RocketMQ's clients pull
again at once, many times a second, and log nothing.
"""

from staticfire.client.cluster.pull_answers import PullResult, PullStatus
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.consume.queues.instructions import Instructions, Tell, tell
from staticfire.protocol.requests.routes import MASTER_ID

# The pause before the next pull from a replica that doesn't have the offset.
LACKING_PAUSE_MS = 1_000


class ReplicaInUse:
    """The replica of one queue."""

    def __init__(self, group: str, queue: MessageQueue) -> None:
        self._group = group
        self._queue = queue
        self.suggested = MASTER_ID
        """The replica to pull from next."""
        self.read_at = MASTER_ID
        """The replica that was pulled from last."""
        self._is_reported = False

    def moved_to(self, broker_id: int, address: str) -> Instructions:
        """Note that the queue is pulled from another replica from now on."""
        self.read_at, self._is_reported = broker_id, False
        fields = {"group": self._group, "queue": str(self._queue), "address": address}
        if broker_id == MASTER_ID:
            return [Tell("queue_read_at_master", fields, is_warning=False)]
        reason = "the broker suggests this replica" if self.suggested else "the route contains no master"
        return [tell("queue_read_at_slave", **fields, slave=broker_id, reason=reason)]

    def pull_failed(self, has_lost_broker: bool) -> None:
        """Note a failed pull. If the replica couldn't be reached, the next one goes to the master."""
        if has_lost_broker:
            self.suggested = MASTER_ID

    def lack(self, result: PullResult, pulled_offset: int) -> Instructions | None:
        """Return a log line, the first time, if the replica doesn't have the offset; None if it has it."""
        if result.status is not PullStatus.NO_MATCHED_MSG or result.next_offset != pulled_offset:
            self._is_reported = False
            return None
        if self._is_reported:
            return []
        self._is_reported = True
        fields = {"offset": result.next_offset, "first": result.min_offset, "end": result.max_offset}
        reason = "the replica returns nothing for this offset"
        if result.next_offset > result.max_offset:
            reason = "the replica ends before this offset: it is behind the master, or its last messages are lost"
        return [
            tell("replica_lacks_offset", group=self._group, queue=str(self._queue), replica=self.read_at,
                 **fields, reason=reason)
        ]  # fmt: skip
