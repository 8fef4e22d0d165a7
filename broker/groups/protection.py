"""Decide which members of a group count: protection against clients that often join and leave. Pure. By default it is
off, as in RocketMQ, and every member counts from its first heartbeat to the end of its connection.

Whenever a member joins or is lost, the whole group rebalances, and messages in flight are delivered twice.
So a group, or the broker for all groups, can have two times:

    stable time   A client that joins a group with stable members counts only after it has been connected for this time.
                  Until then its heartbeats are accepted, but it gets no queues, and its subscription isn't the group's.
                  A member is stable after this time. If no member is stable, as after a start of the broker, every
                  member counts at once.
    grace time    A member whose connection is lost counts for this time on. If it is back by then, with the same client
                  id, nothing changes for the others. This doesn't apply to a client that unregisters: it is gone.

Both are per broker: each broker has its own table of members.
"""

from typing import NamedTuple

from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.times import UptimeMs

STABLE_TIME, GRACE_TIME = "stableTimeMs", "graceTimeMs"
"""Attributes of a group. The settings of a broker have the same names."""
PROTECTION_MS_MAX = 600_000
# How many members of all groups may count without a connection. Beyond that, a member stops counting at once.
AWAY_MAX = 100_000


class ProtectionTimes(NamedTuple):
    """The protection times of one group, 0 for none."""

    stable_ms: int = 0
    grace_ms: int = 0


class AwayMember(NamedTuple):
    """A member whose connection is lost, but which still counts."""

    joined_ms: UptimeMs
    until_ms: UptimeMs
    """When it stops counting."""


class AwayMembers:
    """The members without a connection, of all groups."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, AwayMember]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def keep(self, group: str, client_id: str, member: AwayMember) -> bool:
        """Let a member count on; return False if there are too many already."""
        members = self._groups.get(group, {})
        if client_id not in members:
            if self._count >= AWAY_MAX:
                return False
            self._count += 1
        members[client_id] = member
        self._groups[group] = members
        return True

    def take(self, group: str, client_id: str) -> AwayMember | None:
        """Remove and return a member that is back, or gone; None if it wasn't away."""
        members = self._groups.get(group, {})
        member = members.pop(client_id, None)
        if member is not None:
            self._count -= 1
            if not members:
                del self._groups[group]
        return member

    def client_ids(self, group: str) -> list[str]:
        """Return the client ids of a group's members that are away."""
        return list(self._groups.get(group, ()))

    def expire(self, uptime_ms: UptimeMs) -> list[str]:
        """Remove the members whose grace time is over; return their groups."""
        over = [
            (group, client_id)
            for group, members in self._groups.items()
            for client_id, member in members.items()
            if uptime_ms >= member.until_ms
        ]
        for group, client_id in over:
            self.take(group, client_id)
        return list(dict.fromkeys(group for group, _ in over))


def change_group_attributes(old: dict[str, str] | None, changes: dict[str, str]) -> dict[str, str]:
    """Return a group's attributes after changes whose names begin with `+` or `-`. RocketMQ: AttributeUtil.

    `old` None: a new group. Raises: BrokerAnswer, with RocketMQ's remarks.
    """
    attributes = dict(old or {})
    for sign_and_name, value in changes.items():
        sign, name = sign_and_name[:1], sign_and_name[1:]
        if not name:
            raise _refused("kv string format wrong.")
        if old is None and sign != "+":
            raise _refused(f"only add attribute is supported while creating topic. key: {name}")
        if sign not in ("+", "-"):
            raise _refused(f"wrong format key: {name}")
        if sign == "-" and name not in attributes:
            raise _refused(f"attempt to delete a nonexistent key: {name}")
        if name not in (STABLE_TIME, GRACE_TIME):
            raise _refused(f"unsupported key: {name}")
        if sign == "-":
            del attributes[name]
            continue
        attributes[name] = value
    return attributes


def check_times(attributes: dict[str, str]) -> None:
    """Refuse times that are not valid. Raises: BrokerAnswer."""
    for name in (STABLE_TIME, GRACE_TIME):
        text = attributes.get(name, "0")
        if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) <= PROTECTION_MS_MAX):
            raise _refused(f"value is not in range(0, {PROTECTION_MS_MAX}): {name}={text[:20]}")


def _refused(words: str) -> BrokerAnswer:
    return BrokerAnswer(ResponseCode.SYSTEM_ERROR, words)
