"""Who of a group counts as a member: protection against clients that come and go. Pure. By default it is off, as in
RocketMQ, and everybody counts from its first heartbeat to the end of its connection.

Each join and each loss makes the whole group share its queues anew, and messages under way come twice. So a group, or
the broker for all groups, can be given two times:

    stable time   a client that joins a group of stable members counts when it has been there for so long; until then
                  it is heard, but gets no queues, and its subscription isn't the group's. Whoever has been there for
                  the stable time is stable. Where nobody is, as after a start of the broker, everybody counts at once.
    grace time    a member whose connection is lost counts on for so long. If it is back by then, under the same client
                  id, nobody notices. Not for a goodbye: who says it is gone.

Both concern one broker: each keeps its own table of who is there.
"""

from typing import NamedTuple

from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.times import UptimeMs

STABLE_TIME, GRACE_TIME = "stableTimeMs", "graceTimeMs"
"""Attributes of a group; a broker's settings have the same names."""
PROTECTION_MS_MAX = 600_000
AWAY_MAX = 100_000
# Members of all groups that count without a connection. One more doesn't.


class ProtectionTimes(NamedTuple):
    """Those of one group, 0 for none."""

    stable_ms: int = 0
    grace_ms: int = 0


class AwayMember(NamedTuple):
    """A member whose connection is lost."""

    joined_ms: UptimeMs
    until_ms: UptimeMs
    """Then it has left."""


class AwayMembers:
    """Those of all groups."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, AwayMember]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def keep(self, group: str, client_id: str, member: AwayMember) -> bool:
        """Let a member count on; return False when there are too many already."""
        members = self._groups.get(group, {})
        if client_id not in members:
            if self._count >= AWAY_MAX:
                return False
            self._count += 1
        members[client_id] = member
        self._groups[group] = members
        return True

    def take(self, group: str, client_id: str) -> AwayMember | None:
        """Remove and return a member that is back, or gone for good; None when it wasn't away."""
        members = self._groups.get(group, {})
        member = members.pop(client_id, None)
        if member is not None:
            self._count -= 1
            if not members:
                del self._groups[group]
        return member

    def client_ids(self, group: str) -> list[str]:
        """Return those of a group."""
        return list(self._groups.get(group, ()))

    def expire(self, uptime_ms: UptimeMs) -> list[str]:
        """Let those go whose time is over; return their groups."""
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

    `old` None: a new group. Raises: BrokerAnswer, in RocketMQ's words.
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
    """Refuse times that can't be. Raises: BrokerAnswer."""
    for name in (STABLE_TIME, GRACE_TIME):
        text = attributes.get(name, "0")
        if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) <= PROTECTION_MS_MAX):
            raise _refused(f"value is not in range(0, {PROTECTION_MS_MAX}): {name}={text[:20]}")


def _refused(words: str) -> BrokerAnswer:
    return BrokerAnswer(ResponseCode.SYSTEM_ERROR, words)
