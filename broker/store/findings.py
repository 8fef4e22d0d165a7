"""Damage that was found while the store was in use: all of it is counted, and each place is reported once."""

from collections.abc import Callable

import msgspec

DAMAGED_RECORD = "damaged_record"
MENDED_ENTRY = "mended_entry"
REBUILT_QUEUE = "rebuilt_queue"
RECORD_BEYOND = "record_beyond"
# The number of findings that are reported. Later ones are only counted.
SHOWN_MAX = 1_000
# The number of places that are remembered, so that each is counted once.
PLACES_MAX = 65_536


class Finding(msgspec.Struct, frozen=True):
    """One damaged place."""

    kind: str
    """DAMAGED_RECORD: a record is damaged and no longer delivered.

    MENDED_ENTRY: a queue's entry was wrong and was rebuilt from the log. REBUILT_QUEUE: a queue's files lacked entries,
    and all its entries were rebuilt; `queue_offset` is the offset where it continues. RECORD_BEYOND: a whole record at
    or after the end of its queue.
    """
    log_position: int
    """-1: unknown."""
    reason: str
    topic: str = ""
    queue_id: int = -1
    queue_offset: int = -1


class Findings:
    """The findings of one store since it was opened."""

    def __init__(self, tell: Callable[[Finding], None]) -> None:
        """`tell` is called for each finding that wasn't reported before."""
        self._tell = tell
        self._places: set[tuple[str, int, str, int, int]] = set()
        self._reports = 0
        self.damaged_records = 0
        self.mended_entries = 0
        self.rebuilt_queues = 0
        self.scrubbed_bytes = 0
        """Bytes of the log checked by the scrub since the store was opened."""
        self.scrub_rounds = 0

    def damaged(self, finding: Finding) -> None:
        """Report a record that can't be delivered. A scrub and a read may find the same one."""
        whose = (finding.topic, finding.queue_id, finding.queue_offset) if finding.log_position < 0 else ("", 0, 0)
        if self._is_new("damaged", finding.log_position, *whose):
            self.damaged_records += 1
            self._say(finding)

    def mended(self, finding: Finding) -> None:
        """Report an entry that was wrong and was repaired."""
        self.mended_entries += 1
        if self._is_new("mended", 0, finding.topic, finding.queue_id, finding.queue_offset):
            self._say(finding)

    def beyond(self, finding: Finding) -> None:
        """Report a record after the end of its queue; only one report per queue."""
        if self._is_new("beyond", 0, finding.topic, finding.queue_id, 0):
            self._say(finding)

    def rebuilt(self, finding: Finding) -> None:
        """Report a queue that was rebuilt."""
        self.rebuilt_queues += 1
        if self._is_new("rebuilt", 0, finding.topic, finding.queue_id, finding.queue_offset):
            self._say(finding)

    def _is_new(self, *what: *tuple[str, int, str, int, int]) -> bool:
        if what in self._places:
            return False
        if len(self._places) < PLACES_MAX:
            self._places.add(what)
        return True

    def _say(self, finding: Finding) -> None:
        if self._reports < SHOWN_MAX:
            self._reports += 1
            self._tell(finding)
