"""What happened in a simulated world, as lines and as one fingerprint: the same seed gives the same history."""

import hashlib
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from staticfire.protocol.checksums import crc32
from staticfire.runtime.machine import Bytes

EVENTS_MAX = 10_000
# Kept, the newest; the fingerprint covers all.
_HASHED_AT_ONCE = 1_000


class Event(NamedTuple):
    """One thing that a process did or that was done to it."""

    uptime_ns: int
    process: str
    what: str
    details: tuple[object, ...]

    def __str__(self) -> str:
        return f"{self.uptime_ns / 1e9:.6f} {self.process} {self.what} {' '.join(map(str, self.details))}".rstrip()


class History:
    """The events of a world in their order."""

    def __init__(self, uptime_ns: Callable[[], int]) -> None:
        self.events: deque[Event] = deque(maxlen=EVENTS_MAX)
        self.count = 0
        self._uptime_ns = uptime_ns
        self._hash = hashlib.blake2b(digest_size=16)
        self._unhashed: list[Event] = []

    def record(self, process: str, what: str, *details: object) -> None:
        event = Event(self._uptime_ns(), process, what, details)
        self.events.append(event)
        self.count += 1
        if len(self._unhashed) >= _HASHED_AT_ONCE:
            self._hash_all()
        self._unhashed.append(event)

    def _hash_all(self) -> None:
        self._hash.update("\n".join(map(str, self._unhashed)).encode())
        self._unhashed.clear()

    def record_bytes(self, process: str, what: str, data: Bytes, *details: object) -> None:
        """Record something done with these bytes, by their number and checksum."""
        self.record(process, what, *details, len(data), f"{crc32(data):08x}")

    @property
    def fingerprint(self) -> str:
        """The same for two runs in which the same happened at the same time."""
        self._hash_all()
        return self._hash.hexdigest()

    def last(self, count: int = 50) -> str:
        """Return the newest events, a line each."""
        return "\n".join(map(str, list(self.events)[-count:]))
