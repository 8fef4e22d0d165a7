"""The slaves of a master: what each has stored, and which of them are in sync. Pure.

RocketMQ: DefaultHAService, AutoSwitchHAService (syncStateSet).
"""

from collections.abc import Iterator

import msgspec

from staticfire.protocol.requests.replication import FollowerState
from staticfire.protocol.times import UptimeMs


class Limits(msgspec.Struct, frozen=True):
    """When a slave is in sync."""

    gap_bytes_max: int
    behind_ms_max: int


class Follower(msgspec.Struct, gc=False):
    """One slave. It is in sync while it is connected and reached the master's end not long ago."""

    broker_id: int
    address: str
    stored_position: int
    had_all_ms: UptimeMs
    """When it last had stored everything."""
    heard_ms: UptimeMs
    sent_position: int = 0
    """The end of what it was sent: it can't have stored more."""
    deletions: int = -1
    """How many times topics had been deleted, as it knows; see `CopyAnswer`."""
    requested_end: int = 0
    requested_ms: UptimeMs = UptimeMs(0)
    """Where the log ended at its last request, and when that was."""

    def confirmed(self, stored_position: int, end_position: int, uptime_ms: UptimeMs) -> None:
        """Note what the slave has stored. If that is what there was at its last request, it was in sync then."""
        self.stored_position = stored_position
        self.heard_ms = uptime_ms
        if stored_position >= end_position:
            self.had_all_ms = uptime_ms
        elif stored_position >= self.requested_end:
            self.had_all_ms = max(self.had_all_ms, self.requested_ms)
        self.requested_end, self.requested_ms = end_position, uptime_ms


class Followers:
    """All connected slaves of one master."""

    def __init__(self) -> None:
        self.by_id: dict[int, Follower] = {}

    def __len__(self) -> int:
        return len(self.by_id)

    def is_in_sync(self, follower: Follower, end_position: int, uptime_ms: UptimeMs, limits: Limits) -> bool:
        """Return whether a slave is in sync."""
        if end_position - follower.stored_position > limits.gap_bytes_max:
            return False
        return follower.stored_position >= end_position or uptime_ms - follower.had_all_ms <= limits.behind_ms_max

    def in_sync(self, end_position: int, uptime_ms: UptimeMs, limits: Limits) -> Iterator[Follower]:
        """Yield the slaves that are in sync."""
        for follower in self.by_id.values():
            if self.is_in_sync(follower, end_position, uptime_ms, limits):
                yield follower

    def stored_by(self, copies: int) -> int:
        """Return the position up to which so many slaves have stored the log; -1 if there aren't so many."""
        if copies > len(self.by_id):
            return -1
        return sorted((one.stored_position for one in self.by_id.values()), reverse=True)[copies - 1]

    def states(self, end_position: int, uptime_ms: UptimeMs, limits: Limits) -> list[FollowerState]:
        """Describe all slaves, by id."""
        return [
            FollowerState(
                one.broker_id,
                one.address,
                one.stored_position,
                max(0, end_position - one.stored_position),
                0 if one.stored_position >= end_position else uptime_ms - one.had_all_ms,
                self.is_in_sync(one, end_position, uptime_ms, limits),
                silent_ms=uptime_ms - one.heard_ms,
            )
            for _, one in sorted(self.by_id.items())
        ]
