"""Remember the clients whose pulls were refused because their subscription differs from the group's. Pure.

Refusals are rare, and only the client is notified. A user who later looks for the reason finds them here.
"""

from collections.abc import Iterator

import msgspec

from staticfire.protocol.times import UptimeMs

# For how many clients and topics the latest refusals are remembered.
REFUSALS_MAX = 1_000


class Refusal(msgspec.Struct, gc=False):
    """The refused pulls of one client for one topic."""

    group: str
    topic: str
    client_id: str
    count: int = 0
    last_ms: UptimeMs = UptimeMs(0)
    words: str = ""


class Refusals:
    """The refusals of one broker, since it was started."""

    def __init__(self) -> None:
        self._refusals: dict[tuple[str, str, str], Refusal] = {}

    def note(self, group: str, topic: str, client_id: str, words: str, uptime_ms: UptimeMs) -> None:
        """Note a refused pull."""
        key = (group, topic, client_id)
        found = self._refusals.pop(key, None) or Refusal(group, topic, client_id)
        found.count, found.last_ms, found.words = found.count + 1, uptime_ms, words
        self._refusals[key] = found  # The last entry is the latest refusal.
        if len(self._refusals) > REFUSALS_MAX:
            del self._refusals[next(iter(self._refusals))]

    def of_group(self, group: str) -> Iterator[Refusal]:
        """Yield the refusals of a group."""
        return (refusal for refusal in self._refusals.values() if refusal.group == group)
