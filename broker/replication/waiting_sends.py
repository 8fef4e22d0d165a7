"""Sends that wait until enough slaves have stored them. RocketMQ: GroupTransferService, CommitLog.handleHA.

A group is the appends of one burst. It is settled once: STORED when its bytes are on this disk, as the flush policy
promises, and at enough slaves; COPY_TIMEOUT after slaveTimeout. The number of slaves is decided when the burst is
written: inSyncReplicas, or all that are in sync with allAckInSyncStateSet. An acting master with
enableAutoInSyncReplicas needs those in sync, up to inSyncReplicas, and at least minInSyncReplicas.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from staticfire.broker.replication.followers import Followers
from staticfire.broker.settings import BrokerSettings
from staticfire.broker.store.outcomes import PutOutcome, Settlement, settle
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.machine import Clock
from staticfire.runtime.service import Alarm

EXPIRY_STEP_MS = 10


class _Awaited(msgspec.Struct, gc=False, eq=False):
    end_position: int
    copies: int
    deadline_ms: UptimeMs
    settlements: list[Settlement]
    outcome: PutOutcome | None = None
    """The outcome of the write or the fsync; None: the disk has not confirmed it yet."""


class SendsAwaitingCopies:
    """The sends of a synchronous master that wait for its slaves, in the order of the log."""

    def __init__(
        self,
        settings: Callable[[], BrokerSettings],
        followers: Followers,
        clock: Clock,
        in_sync_count: Callable[[], int],
    ) -> None:
        """`in_sync_count`: returns the number of replicas in sync, the master included."""
        self._settings = settings
        self._followers = followers
        self._uptime_ms = clock.uptime_ms
        self._groups: deque[_Awaited] = deque()
        self._waived: list[tuple[int, int]] = []
        self._expiry = Alarm(clock, EXPIRY_STEP_MS)
        self._in_sync_count = in_sync_count

    def __len__(self) -> int:
        return len(self._groups)

    def waive(self, start: int, end: int) -> None:
        """Let the appends between two positions of the current burst wait for no slave."""
        if start < end:  # Otherwise, the broker has refused them.
            self._waived.append((start, end))

    def _is_waived(self, position: int) -> bool:
        return any(start <= position < end for start, end in self._waived)

    def add(self, end_position: int, settlements: list[Settlement]) -> list[Settlement]:
        """Let the appends of a burst wait; return those that don't, and one that takes the outcome on this disk."""
        waiting: list[Settlement] = []
        others: list[Settlement] = []
        for one in settlements:
            waits = one[4] and not (self._waived and self._is_waived(one[3]))
            (waiting if waits else others).append(one)
        self._waived.clear()
        if not waiting:
            return others
        settings = self._settings()
        copies = max(settings.in_sync_replicas, 1) - 1
        if settings.enable_slave_acting_master and settings.enable_auto_in_sync_replicas:
            copies = max(min(copies, self._in_sync_count() - 1), settings.min_in_sync_replicas - 1)
        if settings.all_ack_in_sync_state_set:
            copies = max(copies, self._in_sync_count() - 1)
        if not copies:
            return settlements
        deadline_ms = UptimeMs(self._uptime_ms() + settings.slave_timeout)
        group = _Awaited(end_position, copies, deadline_ms, waiting)
        self._groups.append(group)
        self._expiry.ring_by(deadline_ms)

        def on_disk(_context: Any, _queue_offset: int, _log_position: int, outcome: PutOutcome) -> None:
            group.outcome = outcome
            self.confirmed()

        return [*others, (on_disk, None, 0, 0, True)]

    def confirmed(self) -> None:
        """Settle what has enough copies now: a slave has stored more, or the disk has."""
        while self._groups:
            group = self._groups[0]
            if group.outcome is None:
                return
            if group.copies and self._followers.stored_by(group.copies) < group.end_position:
                return
            self._groups.popleft()
            settle(group.settlements, group.outcome)

    async def expiry_loop(self) -> None:
        """Loop: settle the sends that have waited long enough."""
        while True:
            await self._expiry.wait()
            self.expire(self._uptime_ms())

    def expire(self, uptime_ms: UptimeMs) -> None:
        """Settle the sends whose time is over."""
        while self._groups and self._groups[0].deadline_ms <= uptime_ms:
            group = self._groups.popleft()
            settle(group.settlements, PutOutcome.COPY_TIMEOUT)
        if self._groups:
            self._expiry.ring_by(self._groups[0].deadline_ms)

    def give_up(self) -> None:
        """Settle all: the broker stops or becomes a slave."""
        while self._groups:
            settle(self._groups.popleft().settlements, PutOutcome.COPY_TIMEOUT)
