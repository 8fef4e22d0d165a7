"""The tables of a broker that report their changes to the journal. They are used if the journal is on.

They are subclasses that only use the public methods of the plain tables. So without a journal they cost nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from staticfire.broker.groups.consumers import ConsumerGroup, ConsumerManager, Member
from staticfire.broker.groups.offsets import OffsetTable
from staticfire.broker.groups.protection import ProtectionTimes
from staticfire.broker.groups.queue_locks import QueueLocks
from staticfire.broker.journal.events import EventJournal
from staticfire.protocol.requests.clients import ConsumerData, SubscriptionData
from staticfire.protocol.requests.journal import GOODBYE
from staticfire.protocol.requests.locks import MessageQueue
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.connection import Connection

CONNECTION_LOST, SILENT = "connection lost", "silent for too long"
GIVEN_BACK, EXPIRED = "released", "expired"


class WatchedConsumers(ConsumerManager):
    """Reports members that join or leave, and changed subscriptions."""

    def __init__(self, protection_of: Callable[[str], ProtectionTimes], journal: EventJournal) -> None:
        super().__init__(protection_of)
        self._journal = journal

    def register(self, data: ConsumerData, connection: Connection, *arguments: Any, **named: Any) -> bool:
        before = self._member(data.group_name, connection)
        changed = super().register(data, connection, *arguments, **named)
        group, member = self.consumer_table.get(data.group_name), self._member(data.group_name, connection)
        if group is not None and member is not None:
            if before is None:
                self._journal.joined(group, member)
            elif before.subscriptions is not member.subscriptions:
                self._compare(group.name, member, before.subscriptions)
        return changed

    def _compare(self, group: str, member: Member, before: dict[str, SubscriptionData]) -> None:
        for topic in sorted({*before, *member.subscriptions}):
            old, new = before.get(topic), member.subscriptions.get(topic)
            was = "" if old is None else old.sub_string
            if new is None or new.sub_string != was:
                self._journal.subscribed(group, member.client_id, topic, new, was)

    def unregister(self, group_name: str, connection: Connection, client_id: str | None) -> ConsumerGroup | None:
        with self._leaving(GOODBYE, connection):
            return super().unregister(group_name, connection, client_id)

    def disconnect(self, connection: Connection, uptime_ms: UptimeMs) -> list[ConsumerGroup]:
        with self._leaving(CONNECTION_LOST, connection):
            return super().disconnect(connection, uptime_ms)

    def expire(self, uptime_ms: UptimeMs, silent_ms_max: int) -> list[Connection]:
        with self._leaving(SILENT):
            return super().expire(uptime_ms, silent_ms_max)

    @contextmanager
    def _leaving(self, reason: str, connection: Connection | None = None) -> Iterator[None]:
        """Report afterwards which members have left, of one connection or of all, and why."""
        before = [
            (name, member)
            for name, group in self.consumer_table.items()
            for member in (group.channel_info_table.values() if connection is None else _only(group, connection))
        ]
        yield
        for name, member in before:
            if self._member(name, member.connection) is None:
                group = self.consumer_table.get(name)
                members = 0 if group is None else len(group.channel_info_table)
                self._journal.left(name, member.client_id, reason, members)

    def _member(self, group_name: str, connection: Connection) -> Member | None:
        group = self.consumer_table.get(group_name)
        return None if group is None else group.channel_info_table.get(connection)


def _only(group: ConsumerGroup, connection: Connection) -> list[Member]:
    member = group.channel_info_table.get(connection)
    return [] if member is None else [member]


class WatchedLocks(QueueLocks):
    """Reports new locks, and the end of locks."""

    def __init__(self, journal: EventJournal) -> None:
        super().__init__()
        self._journal = journal
        self._holders: dict[tuple[str, MessageQueue], str] = {}

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], uptime_ms: UptimeMs
    ) -> list[MessageQueue]:
        granted = super().lock(group, client_id, queues, uptime_ms)
        for queue in granted:
            before = self._holders.get((group, queue), "")
            if before != client_id:
                self._holders[group, queue] = client_id
                self._journal.locked(group, client_id, queue, before)
        return granted

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> list[str]:
        wanted = list(queues)
        waiting = super().unlock(group, client_id, wanted)
        for queue in wanted:
            if self._holders.get((group, queue)) == client_id:
                del self._holders[group, queue]
                self._journal.unlocked(group, client_id, queue, GIVEN_BACK)
        return waiting

    def expire(self, uptime_ms: UptimeMs) -> None:
        super().expire(uptime_ms)
        for (group, queue), client_id in list(self._holders.items()):
            if self.holder(group, queue, uptime_ms) is None:
                del self._holders[group, queue]
                self._journal.unlocked(group, client_id, queue, EXPIRED)

    def forget_all(self) -> None:
        super().forget_all()
        self._holders.clear()


class WatchedOffsets(OffsetTable):
    """Reports groups that are moved."""

    def __init__(self, on_commit: Callable[[str, str, int, int], None], journal: EventJournal) -> None:
        super().__init__(on_commit)
        self._journal = journal

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        before = self.committed(group, topic, queue_id)
        super().reset(group, topic, queue_id, offset)
        self._journal.reset(group, topic, queue_id, offset, before)

    def forget_all(self) -> None:
        super().forget_all()
        self._journal.forgotten()
