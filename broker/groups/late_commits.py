"""Ignore commits of a member that has lost its queue to another member.

A member that was disconnected or frozen commits an old offset when it is back. RocketMQ stores it, and the group's
offset goes back. If the new owner then dies before its next commit, messages are delivered again. Here such a commit is
ignored if all of these conditions are known to be true:

- its offset is lower than the group's,
- its connection is that of a member of the group that pushes in clustering mode: such members share the queues,
- another member has the queue: it holds the lock, or it pulled the queue after this one did. If this one holds the lock
  but hasn't pulled yet, the commit is from the time before: an old request for the lock may have arrived with it.

If a condition is unknown, the commit is stored. So a commit for the queue of another client is never refused to an
administrator, a tool, a proxy or a pull consumer.
"""

from staticfire.broker.groups.consumers import BROADCASTING, ConsumerGroup
from staticfire.broker.groups.tables import GroupTables
from staticfire.broker.state import BrokerState
from staticfire.protocol.requests.locks import MessageQueue
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger

log = logger("broker")

PUSH = "CONSUME_PASSIVELY"


class LateCommits:
    """Decides which commits are too late."""

    def __init__(self, state: BrokerState, groups: GroupTables) -> None:
        self._state = state
        self._groups = groups
        self._offsets = groups.offsets

    def is_late(self, connection: Connection, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Return whether a commit must be ignored; log it. Hot path up to the first condition."""
        if offset >= self._offsets.committed(group, topic, queue_id) or not self._state.settings.ignore_late_commits:
            return False
        owner = self._newer_owner(connection, group, MessageQueue(topic, self._state.settings.broker_name, queue_id))
        if owner is not None:
            log.info(
                "late_commit_ignored", group=group, topic=topic, queue_id=queue_id, offset=offset,
                client_id=connection.client_id, owner=owner,
            )  # fmt: skip
        return owner is not None

    def _newer_owner(self, connection: Connection, group: str, queue: MessageQueue) -> str | None:
        """Return the client that has the queue by now; None if a commit of this connection must be stored."""
        members = self._groups.consumers.consumer_table.get(group)
        member = None if members is None else members.channel_info_table.get(connection)
        if members is None or member is None or members.message_model == BROADCASTING:
            return None
        if member.data.consume_type != PUSH:
            return None
        holder = self._groups.queue_locks.holder(group, queue, self._state.machine.clock.uptime_ms())
        if holder is not None and holder != member.client_id:
            return holder
        return self._newer_puller(members, member.client_id, queue)

    def _newer_puller(self, members: ConsumerGroup, client_id: str, queue: MessageQueue) -> str | None:
        progress = self._groups.progress.find(members.name, queue.topic, queue.queue_id)
        if progress is None or client_id not in progress.former_owners:
            return None
        owner = progress.owner
        return owner if any(member.client_id == owner for member in members.channel_info_table.values()) else None
