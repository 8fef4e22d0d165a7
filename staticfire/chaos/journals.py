"""Reads the brokers' journals while a program runs, so that little is lost when a broker is killed."""

import asyncio
from collections.abc import Iterable, Mapping

from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import NetworkError
from staticfire.protocol.names import SYSTEM_GROUPS
from staticfire.protocol.requests import journal as kinds
from staticfire.protocol.requests.journal import GetJournal, JournalAnswer, JournalPage, JournalRecord
from staticfire.runtime.pool import ConnectionPool

PAGE_RECORDS = 2_000
TIMEOUT_MS = 3_000
HEARTBEATS = "HEART_BEAT"
EVENTS = ",".join(
    (
        kinds.STARTED, kinds.JOINED, kinds.LEFT, kinds.SUBSCRIBED, kinds.LOCKED, kinds.UNLOCKED, kinds.DELIVERED,
        kinds.SENT_BACK, kinds.DIED, kinds.RESET_OFFSET, kinds.BEGAN, kinds.TOOK_OVER,
        kinds.FORGOTTEN, kinds.RULE_HIT,
    )
)  # fmt: skip
REQUESTS = ",".join(
    (
        "SEND_MESSAGE", "SEND_MESSAGE_V2", "SEND_BATCH_MESSAGE", "SEND_MANY", "UPDATE_CONSUMER_OFFSET", "PULL_MESSAGE",
        "LITE_PULL_MESSAGE", "POP_MESSAGE", "ACK_MESSAGE", "BATCH_ACK_MESSAGE", "CHANGE_MESSAGE_INVISIBLETIME",
        "LOCK_BATCH_MQ", "END_TRANSACTION", "CONSUMER_SEND_MSG_BACK", HEARTBEATS,
    )
)  # fmt: skip


class JournalTails:
    """What was read so far of all brokers' journals, in the order of the brokers' clocks.

    Several faults read at the same time as the loop that watches for their beginning. Each broker is read by one of
    them at a time, so no record is read twice. A read that is cancelled has kept what it got.
    """

    def __init__(self, pool: ConnectionPool, addresses: Mapping[str, str], ignored: Iterable[str] = ()) -> None:
        """`ignored`: ids of clients that aren't the program's."""
        self._pool = pool
        self._addresses = dict(addresses)
        self._next: dict[tuple[str, str], int] = {}
        self._reading = {broker: asyncio.Lock() for broker in self._addresses}
        self._ignored = set(ignored)
        self.events: list[JournalRecord] = []
        self.requests: list[JournalRecord] = []
        self.heartbeats: list[JournalRecord] = []
        """Those of clients, if they were read: they are among the requests, too."""
        self.gaps: set[str] = set()
        """The brokers whose journal has lost records: what isn't in it may have happened."""

    async def read_events(self) -> None:
        """Read the events since the last time. A broker that doesn't answer is read the next time."""
        for broker in self._addresses:
            await self._read(broker, EVENTS, self.events)

    async def read(self) -> None:
        """Read events and requests since the last time."""
        await self.read_events()
        for broker in self._addresses:
            await self._read(broker, REQUESTS, self.requests)

    async def read_heartbeats(self) -> None:
        """Read only the heartbeats since the last time: in the middle of a run, that costs a broker much less."""
        for broker in self._addresses:
            await self._read(broker, HEARTBEATS, self.heartbeats)

    def forget(self) -> None:
        """Leave out everything that was read so far."""
        self.events, self.requests, self.heartbeats = [], [], []

    async def restarted(self, broker: str) -> None:
        """Note that a broker was killed: its next process begins a new journal.

        Call it after the kill: until then, the journal of the old process is read on.
        """
        async with self._reading[broker]:
            for kinds_read in (EVENTS, REQUESTS, HEARTBEATS):
                self._next.pop((broker, kinds_read), None)

    def in_order(self) -> tuple[list[JournalRecord], list[JournalRecord]]:
        """Return events and requests by time."""
        return sorted(self.events, key=_when), sorted(self.requests, key=_when)

    async def _read(self, broker: str, wanted: str, records: list[JournalRecord]) -> None:
        """Read one broker's records of some kinds since the last time, and add them to `records`."""
        async with self._reading[broker]:
            while await self._read_page(broker, wanted, records):
                pass

    async def _read_page(self, broker: str, wanted: str, records: list[JournalRecord]) -> bool:
        """Read one page; return whether there may be more."""
        key = broker, wanted
        first, of_requests = self._next.get(key, 1), wanted != EVENTS
        request = GetJournal(requests=of_requests, first_number=first, records_max=PAGE_RECORDS, kinds=wanted)
        try:
            answer = await self._pool.ask(self._addresses[broker], request, TIMEOUT_MS)
        except NetworkError:
            return False
        if answer.code != SUCCESS or not isinstance(answer, JournalAnswer):
            return False
        page: JournalPage = answer.body or JournalPage()
        if page.dropped and wanted != HEARTBEATS:  # Members repeat these.
            self.gaps.add(broker)
        records += [one for one in page.records if one.client not in self._ignored and one.group not in SYSTEM_GROUPS]
        self._next[key] = page.next_number
        return not page.is_end


def _when(record: JournalRecord) -> int:
    return record.real_ms
