"""The two logs of a broker: events, with spill files for older ones, and requests, which are only in memory.

Both are read page by page. A page begins at a number and contains the wanted records after it, up to a limit. The scan
for them is limited as well, so that a page may end early; `next_number` then tells where to continue.
"""

from staticfire.broker.clock.message_clock import MessageClock
from staticfire.broker.clock.progress import ProgressTable
from staticfire.broker.groups.retries import RetryWatch
from staticfire.broker.groups.subscription_groups import GroupTable
from staticfire.broker.journal.events import EventJournal
from staticfire.broker.journal.reading import Source, Wanted, contents_of, event_of, newest_in, numbered
from staticfire.broker.journal.received import ReceivedRead, size_of
from staticfire.broker.journal.request_reading import PLACES, Reads, RequestReading
from staticfire.broker.journal.ring import NotedChunk, RecordRing
from staticfire.broker.journal.spill import JournalSpill
from staticfire.broker.journal.watched import WatchedConsumers, WatchedLocks, WatchedOffsets
from staticfire.broker.settings import BrokerSettings
from staticfire.protocol.codes import VERSION
from staticfire.protocol.requests.journal import GetJournal, JournalPage, JournalRecord
from staticfire.runtime.dispatcher import Tap
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Machine
from staticfire.runtime.service import Pause

log = logger("broker")

# How many records a response may have, even if more are requested.
RECORDS_MAX = 5_000
# How many events are examined for one response: the event loop does nothing else meanwhile.
EVENTS_SCANNED_MAX = 10_000
REQUESTS_SCANNED_MAX = 20_000
# How many reads are kept for requests. The real limit is in bytes.
READS_MAX = 1_000_000
ID_BITS = 128
# How often the logs are tidied. What is noted between two times may exceed the limits.
TIDY_MS = 200

WatchedTables = tuple[WatchedConsumers, WatchedOffsets, WatchedLocks, RetryWatch]


class Journals:
    """The events and the requests of a broker."""

    def __init__(self, machine: Machine, settings: BrokerSettings, clock: MessageClock) -> None:
        self._machine = machine
        self._broker = settings.broker_name
        self._clock = clock
        # Times don't identify a start: message time can be frozen, and the wall clock can be set.
        self._id = f"{machine.identity.random.getrandbits(ID_BITS):032x}"
        self._folder = f"{settings.store_path_root_dir}/journal"
        self._spill = JournalSpill(machine.files, self._folder, settings.journal_spill_bytes_max)
        self._events = RecordRing(settings.journal_events_max, clock.face, self._spill.put)
        self._reads = RecordRing(READS_MAX, clock.face, _forget, settings.recorded_requests_bytes_max, size_of)
        self.events = EventJournal(self._events, machine.clock) if settings.journal_enable else None
        """Notes events; None if they aren't kept."""
        self.pulls = None if self.events is None else self.events.pulls
        """Notes deliveries to pulls; None if events aren't kept."""
        self.tap = Tap(self._reads.append, ReceivedRead, machine.clock.uptime_ns) if settings.record_requests else None
        """Notes all received data; None if it isn't kept."""
        self.follow_clock()

    def watched_tables(self, groups: GroupTable, progress: ProgressTable) -> WatchedTables | None:
        """Return tables of groups that report their changes to the journal; None if events aren't kept."""
        events = self.events
        if events is None:
            return None
        retries = RetryWatch()
        retries.consume_hooks.append(events.sent_back)
        retries.dead_letter_hooks.append(events.died)
        consumers = WatchedConsumers(groups.protection_of, events)
        return consumers, WatchedOffsets(progress.committed, events), WatchedLocks(events), retries

    def follow_clock(self) -> None:
        """Note whenever message time is set."""
        self._clock.on_change(self._clock_set)

    def _clock_set(self) -> None:
        for ring in (self._events, self._reads):
            ring.clock_set(self._clock.face)
        if self.events is not None:
            self.events.clock_set(self._clock.reading())

    # -- lifecycle -----------------------------------------------------------------------------------------------

    def open(self, address: str) -> None:
        """Remove the files of an earlier process, and note that the broker listens."""
        try:
            self._spill.open()
        except OSError as error:
            log.warning("old_journal_not_removed", folder=self._folder, error=str(error))
        if self.events is not None:
            self.events.started(address, VERSION)

    async def loop(self, pause: Pause) -> None:
        """Loop: keep the memory within its limits, and write older events to files."""
        while True:
            await pause(TIDY_MS)
            self.tidy()
            while (chunk := self._spill.take()) is not None:
                await self._machine.workers.run(self._spill.write, chunk)

    def tidy(self) -> None:
        """Remove the entries that exceed the limits."""
        self._events.tidy()
        self._reads.tidy()

    def close(self) -> None:
        """Close the files."""
        self._spill.close()

    # -- reading -------------------------------------------------------------------------------------------------

    async def page(self, request: GetJournal) -> JournalPage:
        """Return the wanted records from a number on, as many as fit into a response."""
        self.tidy()
        records_max = min(max(request.records_max, 1), RECORDS_MAX)
        wanted, first_number = Wanted.of(request), max(request.first_number, 1)
        if not request.requests and request.below_number is not None:
            return await self._newest_page(wanted, request.below_number, records_max)
        if not request.requests:
            return await self._events_page(wanted, first_number, records_max)
        reads = Reads.of(self._reads.chunks())
        page = JournalPage(next_number=first_number, journal_id=self._id)
        await self._machine.workers.run(fill_with_requests, page, reads, wanted, records_max, self._source())
        return page

    async def _events_page(self, wanted: Wanted, first_number: int, records_max: int) -> JournalPage:
        ring, spilled = self._events, self._spill.first_number
        oldest = ring.first_number if spilled is None else spilled
        page = JournalPage(next_number=first_number, dropped=max(0, oldest - first_number), journal_id=self._id)
        scanned, source = 0, self._source()
        while scanned < EVENTS_SCANNED_MAX:
            chunk = await self._events_chunk(page.next_number)
            if chunk is None:
                break
            scanned += len(chunk.entries)
            if not wanted.may_be_in(contents_of(chunk)):
                page.next_number = chunk.next_number
                continue
            for number, noted in numbered(chunk, page.next_number):
                if len(page.records) >= records_max:
                    page.is_end = False
                    return page
                page.next_number = number + 1
                if wanted.may_be(noted) and wanted.has(record := event_of(noted, number, chunk, source)):
                    page.records.append(record)
        page.is_end = page.next_number >= ring.next_number
        return page

    async def _newest_page(self, wanted: Wanted, below_number: int, records_max: int) -> JournalPage:
        """Return the newest wanted events before a number. Chunks without any are skipped at once."""
        ring, spilled, source = self._events, self._spill.first_number, self._source()
        oldest = ring.first_number if spilled is None else spilled
        below = min(below_number or ring.next_number, ring.next_number)
        found: list[JournalRecord] = []
        scanned = 0
        while below > oldest and len(found) < records_max and scanned < EVENTS_SCANNED_MAX:
            chunk = await self._chunk_below(below, wanted)
            if chunk is None:
                below = oldest
                break
            some = newest_in(chunk, below, wanted, source, records_max - len(found))
            found += some
            scanned += len(chunk.entries)
            below = some[-1].number if len(found) >= records_max else chunk.first_number
        found.reverse()
        return JournalPage(found, below, is_end=below <= oldest, dropped=oldest - 1, journal_id=self._id)

    async def _chunk_below(self, number: int, wanted: Wanted) -> NotedChunk | None:
        """Return the last chunk that begins before a number and may have wanted events; None if there is none."""
        for chunk in reversed(self._events.chunks()):
            if chunk.first_number < number and chunk.entries and wanted.may_be_in(contents_of(chunk)):
                return chunk
        return await self._machine.workers.run(self._spill.read_below, number, wanted.may_be_in)

    async def _events_chunk(self, first_number: int) -> NotedChunk | None:
        """Return the chunk that contains a number, or the next one after it; None if there is none yet."""
        if first_number < self._events.first_number:
            spilled: NotedChunk | None = await self._machine.workers.run(self._spill.read, first_number)
            if spilled is not None:
                return spilled
        return next((chunk for chunk in self._events.chunks() if chunk.next_number > first_number), None)

    def _source(self) -> Source:
        clock = self._machine.clock
        return Source(self._broker, clock.wall_ms() - clock.uptime_ms())


def _forget(_: NotedChunk) -> None:
    """Drop a chunk."""


def fill_with_requests(page: JournalPage, reads: Reads, wanted: Wanted, records_max: int, source: Source) -> None:
    """Add the wanted requests in these reads to a page, from its next number on."""
    first_number, scanned = page.next_number, 0
    page.dropped = max(0, reads.chunks[0].first_number - max(1, first_number // PLACES))
    reading = RequestReading(reads, source, wanted.kinds)
    for number, read, chunk in reads.from_number(first_number // PLACES):
        for request_number, record in reading.requests_in(number, read, chunk):
            if request_number < first_number:
                continue
            if len(page.records) >= records_max or scanned >= REQUESTS_SCANNED_MAX:
                page.is_end = False
                return
            scanned += 1
            page.next_number = request_number + 1
            if record is not None and wanted.has(record):
                page.records.append(record)
    page.next_number = max(first_number, reads.next_number * PLACES)
