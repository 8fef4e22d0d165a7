"""Convert events to records, and select records. Pure."""

import msgspec

from staticfire.broker.journal.events import Noted, NotedDelivery
from staticfire.broker.journal.ring import NotedChunk
from staticfire.protocol.names import is_client
from staticfire.protocol.requests.journal import DELIVERED, REQUEST, GetJournal, JournalRecord

NS_PER_MS = 1_000_000


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


def events_in(chunk: NotedChunk, first_number: int, source: Source) -> list[JournalRecord]:
    """Return the events of a chunk from a number on."""
    begin = max(0, first_number - chunk.first_number)
    numbers = range(chunk.first_number + begin, chunk.next_number)
    return [
        _event(noted, number, chunk, source)
        for number, noted in zip(numbers, chunk.entries[begin : begin + len(numbers)], strict=True)
    ]


def _event(noted: Noted, number: int, chunk: NotedChunk, source: Source) -> JournalRecord:
    real_ms = source.real_ms(noted.uptime_ns)
    if isinstance(noted, NotedDelivery):
        kind, details = DELIVERED, {"endOffset": noted.end_offset, "count": noted.count}
    else:
        kind, details = noted.kind, noted.details
    return JournalRecord(
        number, source.broker, kind, chunk.face.at(real_ms), real_ms, noted.client, noted.group, noted.topic,
        noted.queue_id, noted.queue_offset, details,
    )  # fmt: skip
