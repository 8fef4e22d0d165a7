"""Convert events to records, and select records. Pure."""

from collections.abc import Iterator

import msgspec

from staticfire.broker.journal.events import Noted, NotedDelivery
from staticfire.broker.journal.ring import NotedChunk
from staticfire.protocol.names import is_client
from staticfire.protocol.requests.journal import DELIVERED, REQUEST, GetJournal, JournalRecord

NS_PER_MS = 1_000_000


class ChunkContents(msgspec.Struct, frozen=True):
    """Which events a chunk has: a search for a few of them skips most chunks."""

    kinds: frozenset[str]
    groups: frozenset[str]


def contents_of(chunk: NotedChunk) -> ChunkContents:
    """Return what is in a chunk, whose entries don't change any more. It is determined once."""
    found: ChunkContents | None = chunk.contents
    if found is None:
        kinds = frozenset(map(_kind_of, chunk.entries))
        found = chunk.contents = ChunkContents(kinds, frozenset(one.group for one in chunk.entries))
    return found


def _kind_of(noted: Noted) -> str:
    return DELIVERED if isinstance(noted, NotedDelivery) else noted.kind


class Wanted(msgspec.Struct, frozen=True):
    """The conditions of a request for records."""

    kinds: frozenset[str]
    client: str
    group: str
    topic: str
    queue_id: int | None
    queue_offset: int | None = None

    @classmethod
    def of(cls, request: GetJournal) -> "Wanted":
        """Return the conditions of a request."""
        kinds = frozenset(kind.strip() for kind in (request.kinds or "").split(",") if kind.strip())
        group, topic = request.group or "", request.topic or ""
        return cls(kinds, request.client or "", group, topic, request.queue_id, request.queue_offset)

    def may_be_in(self, contents: ChunkContents) -> bool:
        """Return whether a chunk may have wanted events."""
        return (not self.kinds or not self.kinds.isdisjoint(contents.kinds)) and (
            not self.group or self.group in contents.groups
        )

    def may_be(self, noted: Noted) -> bool:
        """Return whether an event may be wanted, before it is converted."""
        return (
            (not self.kinds or _kind_of(noted) in self.kinds)
            and self.group in ("", noted.group)
            and self.topic in ("", noted.topic)
            and self.queue_id in (None, noted.queue_id)
        )

    def has(self, record: JournalRecord) -> bool:
        """Return whether a record fulfils the conditions."""
        kind = record.code if record.kind == REQUEST else record.kind
        return (
            (not self.kinds or kind in self.kinds)
            and self.group in ("", record.group)
            and self.topic in ("", record.topic)
            and self.queue_id in (None, record.queue_id)
            and (not self.client or is_client(record.client, self.client))
            and (self.queue_offset is None or _names(record, self.queue_offset))
        )


def _names(record: JournalRecord, offset: int) -> bool:
    """Return whether a record is about the message at an offset. A delivery is about many."""
    end: int = record.details["endOffset"] if record.kind == DELIVERED else record.queue_offset + 1
    return record.queue_offset <= offset < end


class Source(msgspec.Struct, frozen=True):
    """The broker of the records, and what is needed to convert them."""

    broker: str
    wall_before_ms: int
    """The wall clock minus the uptime."""
    names: dict[str, str] = {}
    """Client ids by address, collected from the records that were already converted."""

    def real_ms(self, uptime_ns: int) -> int:
        """Return the time of the wall clock."""
        return self.wall_before_ms + uptime_ns // NS_PER_MS


def numbered(chunk: NotedChunk, first_number: int) -> Iterator[tuple[int, Noted]]:
    """Yield the entries of a chunk from a number on, with their numbers."""
    begin = max(0, first_number - chunk.first_number)
    return zip(range(chunk.first_number + begin, chunk.next_number), chunk.entries[begin:], strict=False)


def newest_in(chunk: NotedChunk, below: int, wanted: Wanted, source: Source, records_max: int) -> list[JournalRecord]:
    """Return the wanted events of a chunk before a number, the newest first."""
    found: list[JournalRecord] = []
    for place in range(min(below - chunk.first_number, len(chunk.entries)) - 1, -1, -1):
        noted = chunk.entries[place]
        if wanted.may_be(noted):
            record = event_of(noted, chunk.first_number + place, chunk, source)
            if wanted.has(record):
                found.append(record)
                if len(found) >= records_max:
                    break
    return found


def event_of(noted: Noted, number: int, chunk: NotedChunk, source: Source) -> JournalRecord:
    """Return the record of an event."""
    real_ms = source.real_ms(noted.uptime_ns)
    if isinstance(noted, NotedDelivery):
        kind, details = DELIVERED, {"endOffset": noted.end_offset, "count": noted.count}
    else:
        kind, details = noted.kind, noted.details
    return JournalRecord(
        number, source.broker, kind, chunk.face.at(real_ms), real_ms, noted.client, noted.group, noted.topic,
        noted.queue_id, noted.queue_offset, details,
    )  # fmt: skip
