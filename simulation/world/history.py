"""All events of a simulated world, as lines and as one fingerprint: the same seed gives the same history."""

import hashlib
from typing import NamedTuple, Protocol

import msgspec

from staticfire.protocol.checksums import crc32
from staticfire.runtime.machine import Bytes

# About how many of the newest events are kept. The fingerprint covers all.
EVENTS_MAX = 10_000
_HASHED_AT_ONCE = 1_000


class Event(NamedTuple):
    """Something that a process did or that was done to it."""

    uptime_ns: int
    process: str
    what: str
    details: tuple[object, ...]

    def __str__(self) -> str:
        details = (detail.hex() if isinstance(detail, bytes) else str(detail) for detail in self.details)
        return f"{self.uptime_ns / 1e9:.6f} {self.process} {self.what} {' '.join(details)}".rstrip()


_Raw = tuple[int, str, str, tuple[object, ...]]


class NanosecondClock(Protocol):
    """A clock in nanoseconds: the loop of a world."""

    uptime_ns: int


class History:
    """The events of a world in order."""

    def __init__(self, clock: NanosecondClock) -> None:
        self._hashed: list[_Raw] = []
        # Plain tuples until they are read, because nearly all of them are only hashed.
        self._unhashed: list[_Raw] = []
        self._forgotten = 0
        self._clock = clock
        self._hash = hashlib.blake2b(digest_size=16)
        self._encode = msgspec.msgpack.Encoder(enc_hook=str).encode

    @property
    def count(self) -> int:
        """The number of all events."""
        return self._forgotten + len(self._hashed) + len(self._unhashed)

    @property
    def events(self) -> list[Event]:
        """The newest events."""
        return [Event(*each) for each in (*self._hashed, *self._unhashed)][-EVENTS_MAX:]

    def record(self, process: str, what: str, *details: object) -> None:
        unhashed = self._unhashed
        unhashed.append((self._clock.uptime_ns, process, what, details))
        if len(unhashed) > _HASHED_AT_ONCE:
            self._hash_all()

    def _hash_all(self) -> None:
        hashed = self._hashed
        self._hash.update(self._encode(self._unhashed))
        hashed += self._unhashed
        self._unhashed.clear()
        if len(hashed) > 2 * EVENTS_MAX:
            self._forgotten += len(hashed) - EVENTS_MAX
            del hashed[:-EVENTS_MAX]

    def record_bytes(self, process: str, what: str, data: Bytes, *details: object) -> None:
        """Record an event with bytes, by their number and checksum."""
        sum_of_it = crc32(data).to_bytes(4)
        self._unhashed.append((self._clock.uptime_ns, process, what, (*details, len(data), sum_of_it)))

    @property
    def fingerprint(self) -> str:
        """A hash that is equal for two runs with the same events at the same times."""
        self._hash_all()
        return self._hash.hexdigest()

    def last(self, count: int = 50) -> str:
        """Return the newest events, one per line."""
        return "\n".join(map(str, self.events[-count:]))
