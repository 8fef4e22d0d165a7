"""Which queues administrators have reset groups in, and from where: for people who look. Pure.

A reset that skips messages leaves no other trace: the group has nothing left to consume there.
"""

from collections.abc import Iterator

import msgspec

from staticfire.protocol.times import UptimeMs

LAST_RESETS_MAX = 10_000
# Of so many queues and groups the latest reset is remembered.


class LastReset(msgspec.Struct, gc=False, frozen=True):
    """The latest reset of a group in one queue."""

    topic: str
    queue_id: int
    before: int
    """The committed offset before it; -1: there was none."""
    offset: int
    at_ms: UptimeMs


class LastResets:
    """Those of one broker, since it was started."""

    def __init__(self) -> None:
        self._resets: dict[tuple[str, str, int], LastReset] = {}

    def note(self, group: str, reset: LastReset) -> None:
        """Remember a reset."""
        key = (group, reset.topic, reset.queue_id)
        self._resets.pop(key, None)
        self._resets[key] = reset  # The last entry is the latest reset.
        if len(self._resets) > LAST_RESETS_MAX:
            del self._resets[next(iter(self._resets))]

    def of_group(self, group: str) -> Iterator[LastReset]:
        """Yield those of a group, oldest first."""
        return (reset for (name, _, _), reset in self._resets.items() if name == group)
