"""Reads the journals of a cluster's brokers and merges them: events on brokers, and requests to them.

Only staticfire's brokers keep a journal, and only with the settings journalEnable and recordRequests. `up`, `run` and
`Cluster` set both.
"""

import asyncio
from collections.abc import Mapping

import msgspec

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import UsageError, broker_answer
from staticfire.protocol.requests.journal import KINDS, GetJournal, JournalAnswer, JournalPage, JournalRecord

PAGE_RECORDS = 2_000
# A number with more digits is no request code. Python refuses to convert one with thousands of digits.
CODE_DIGITS_MAX = 9


class JournalRecords(list[JournalRecord]):
    """Records, oldest first."""

    def __init__(self, records: list[JournalRecord], dropped: int = 0) -> None:
        super().__init__(records)
        self.dropped = dropped
        """How many older records of any kind were discarded: a journal has a maximum size."""


def events_wanted(
    kinds: tuple[str, ...], client: str | None, group: str | None, topic: str | None, queue_id: int | None
) -> GetJournal:
    """Return the request for events. Raises: UsageError (no such kind)."""
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"{kind!r} is not a kind of event; the kinds are {', '.join(KINDS)}")
    return GetJournal(kinds=",".join(kinds) or None, client=client, group=group, topic=topic, queue_id=queue_id)


def code_of(text: str) -> str | int:
    """Return the request code in a text: its number, or its name as it is."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= CODE_DIGITS_MAX
    return int(text) if is_number else text


def requests_wanted(
    code: str | int | None, client: str | None, group: str | None, topic: str | None, queue_id: int | None
) -> GetJournal:
    """Return the request for recorded requests. Raises: UsageError (no such code)."""
    name = None
    if code is not None:
        try:
            name = RequestCode[code.upper()].name if isinstance(code, str) else RequestCode(code).name
        except (KeyError, ValueError):
            raise UsageError(
                f"{code!r} is not a request code; write its name, like PULL_MESSAGE, or its number"
            ) from None
    return GetJournal(requests=True, kinds=name, client=client, group=group, topic=topic, queue_id=queue_id)


async def read_journals(
    client: ClusterClient, brokers: Mapping[str, str], wanted: GetJournal, timeout_ms: int
) -> JournalRecords:
    """Return the records of these brokers, by real time. Raises: BrokerAnswer (one keeps no journal), NetworkError."""
    dated: list[tuple[int, JournalRecord]] = []
    dropped = 0
    for name, address in brokers.items():
        request = msgspec.structs.replace(wanted, records_max=PAGE_RECORDS)
        is_end, latest_ms = False, 0
        while not is_end:
            page = await journal_page(client, name, address, request, timeout_ms)
            dropped += page.dropped
            for record in page.records:
                # Keep the order in which a broker numbered its records, even if its clock was set back.
                latest_ms = max(latest_ms, record.real_ms)
                dated.append((latest_ms, record))
            is_end, request.first_number = page.is_end, page.next_number
    dated.sort(key=lambda one: one[0])
    return JournalRecords([record for _, record in dated], dropped)


async def newest_in_journals(
    client: ClusterClient, brokers: Mapping[str, str], wanted: GetJournal, records_max: int, timeout_ms: int
) -> JournalRecords:
    """Return the newest records of these brokers, oldest first, by real time. Raises: as `read_journals`."""
    parts = await asyncio.gather(
        *(_newest_at(client, name, address, wanted, records_max, timeout_ms) for name, address in brokers.items())
    )
    dated = [one for part, _ in parts for one in part]
    dated.sort(key=lambda one: one[0])
    records = [record for _, record in dated]
    return JournalRecords(records[max(0, len(records) - records_max) :], sum(dropped for _, dropped in parts))


async def _newest_at(
    client: ClusterClient, name: str, address: str, wanted: GetJournal, records_max: int, timeout_ms: int
) -> tuple[list[tuple[int, JournalRecord]], int]:
    """Return the newest records of a broker with the times to sort them by, and how many it has discarded."""
    request = msgspec.structs.replace(wanted, below_number=0)
    found: list[JournalRecord] = []
    dropped, is_end = 0, False
    while not is_end and len(found) < records_max:
        request.records_max = min(PAGE_RECORDS, records_max - len(found))
        page = await journal_page(client, name, address, request, timeout_ms)
        found[:0] = page.records
        is_end, dropped, request.below_number = page.is_end, page.dropped, page.next_number
    latest_ms, dated = 0, []
    for record in found:
        latest_ms = max(latest_ms, record.real_ms)
        dated.append((latest_ms, record))
    return dated, dropped


async def journal_page(
    client: ClusterClient, name: str, address: str, request: GetJournal, timeout_ms: int
) -> JournalPage:
    """Return a part of a broker's journal. Raises: BrokerAnswer, NetworkError."""
    answer = await client.pool.ask(address, request, timeout_ms)
    if answer.code != SUCCESS or not isinstance(answer, JournalAnswer):
        raise broker_answer(answer.code, answer.remark, f"journal of {name} at {address}")
    return answer.body or JournalPage()
