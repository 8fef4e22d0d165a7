"""Read the new records of a broker's journal: those after the last one in the file of its journal.

The responses name the journal that they are from, so a broker that is started again between two of them is noticed.
"""

import re
from pathlib import Path
from typing import NamedTuple

from staticfire.client import Admin
from staticfire.client.admin.journal import PAGE_RECORDS, journal_page
from staticfire.pipeline.consumption.noted import add_journal, journal_path, last_number_in
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.names import is_system_group
from staticfire.protocol.requests.journal import GetJournal, JournalRecord

ASK_TIMEOUT_MS = 10_000
# No record has it, so the response is only about the journal itself.
AFTER_ALL = 2**62
# It becomes a part of a file's name.
_JOURNAL_ID = re.compile(r"[0-9a-f]{1,64}")


class NewRecords(NamedTuple):
    """The new records of one start of a broker, and the file for them."""

    path: Path
    first_number: int
    """The first number that was read, also if that record isn't kept; 0 if there was none."""
    records: list[JournalRecord]
    last_number: int
    """The number of the newest record that is kept, from now on or already."""

    def write(self) -> int:
        """Add the records to the file. Return how many the broker had dropped before they were read.

        A gap is counted once: when the file continues after it.
        """
        if not self.records:
            return 0
        lost = max(0, self.first_number - last_number_in(self.path) - 1)
        add_journal(self.path, self.records)
        return lost


async def read_journal(admin: Admin, name: str, address: str, folder: Path, kinds: str | None) -> list[NewRecords]:
    """Return a broker's new records. There are several parts if it is started again meanwhile.

    Raises: BrokerAnswer (it keeps no journal), NetworkError.
    """
    following, parts = "", []
    request = GetJournal(first_number=AFTER_ALL, records_max=1)
    journal_id = _id_of((await journal_page(admin.client, name, address, request, ASK_TIMEOUT_MS)).journal_id)
    while journal_id:
        path = journal_path(folder, name, journal_id)
        last = last_number_in(path)
        request = GetJournal(first_number=last + 1, records_max=PAGE_RECORDS, kinds=kinds)
        found: list[JournalRecord] = []
        is_end, following = False, ""
        while not is_end and not following:
            page = await journal_page(admin.client, name, address, request, ASK_TIMEOUT_MS)
            if page.journal_id != journal_id:
                following = _id_of(page.journal_id)
            else:
                found += page.records
                is_end, request.first_number = page.is_end, page.next_number
        # Our own reads are recorded there, too, but they aren't consumption by users.
        kept = [record for record in found if not is_system_group(record.group)]
        first, last = found[0].number if found else 0, kept[-1].number if kept else last
        parts.append(NewRecords(path, first, kept, last))
        journal_id = following
    return parts


def _id_of(text: str) -> str:
    """Return the id of a journal. Raises: BrokerAnswer."""
    if not _JOURNAL_ID.fullmatch(text):
        raise BrokerAnswer(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            "its journal has no id, because the broker is of an earlier version: start it with this version",
        )
    return text
