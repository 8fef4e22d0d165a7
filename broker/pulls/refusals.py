"""Which clients were refused because they and their group don't know the same subscriptions: for people who look. Pure.

Refusals are rare, and told to the client only; who asks later why it got nothing finds them here.
"""

from collections.abc import Iterator

import msgspec

from staticfire.protocol.times import UptimeMs

REFUSALS_MAX = 1_000
# Of so many clients and topics the latest ones are remembered.


class Refusal(msgspec.Struct, gc=False):
    """The pulls of one client for one topic that were refused."""

    group: str
    topic: str
    client_id: str
    count: int = 0
    last_ms: UptimeMs = UptimeMs(0)
    words: str = ""


class Refusals:
    """Those of one broker, since it was started."""

    def __init__(self) -> None:
        self._refusals: dict[tuple[str, str, str], Refusal] = {}

    def note(self, group: str, topic: str, client_id: str, words: str, uptime_ms: UptimeMs) -> None:
        """A pull was refused."""
        key = (group, topic, client_id)
        found = self._refusals.pop(key, None) or Refusal(group, topic, client_id)
        found.count, found.last_ms, found.words = found.count + 1, uptime_ms, words
        self._refusals[key] = found  # The last is the one that was refused last.
        if len(self._refusals) > REFUSALS_MAX:
            del self._refusals[next(iter(self._refusals))]

    def of_group(self, group: str) -> Iterator[Refusal]:
        """Yield those of a group."""
        return (refusal for refusal in self._refusals.values() if refusal.group == group)
