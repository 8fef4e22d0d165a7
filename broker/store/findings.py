"""What was found damaged while the store was in use: counted, and told once each."""

from collections.abc import Callable

import msgspec

DAMAGED_RECORD = "damaged_record"
MENDED_ENTRY = "mended_entry"
REBUILT_QUEUE = "rebuilt_queue"
RECORD_BEYOND = "record_beyond"
TOLD_MAX = 1_000
# Lines about findings; after that they are only counted.


class Finding(msgspec.Struct, frozen=True):
    """One damaged place."""

    kind: str
    """DAMAGED_RECORD: nobody gets it any more. MENDED_ENTRY: a queue's entry was wrong, and made anew from the log.
    REBUILT_QUEUE: its files lacked entries, and all of them were made anew; `queue_offset` is where it goes on.
    RECORD_BEYOND: a whole record that isn't its queue's, which ends before it."""
    log_position: int
    """-1: nobody knows."""
    reason: str
    topic: str = ""
    queue_id: int = -1
    queue_offset: int = -1


class Findings:
    """The findings of one store since it was opened."""

    def __init__(self, tell: Callable[[Finding], None]) -> None:
        """`tell` is called for each that wasn't told before."""
        self._tell = tell
        self._told: set[tuple[str, int, str, int, int]] = set()
        self.damaged_records = 0
        self.mended_entries = 0
        self.rebuilt_queues = 0
        self.scrubbed_bytes = 0
        """Of the log, since the store was opened."""
        self.scrub_rounds = 0

    def damaged(self, finding: Finding) -> None:
        """Note a record that can't be handed out. A scrub and a read may find the same one."""
        whose = (finding.topic, finding.queue_id, finding.queue_offset) if finding.log_position < 0 else ("", 0, 0)
        if self._is_new("damaged", finding.log_position, *whose):
            self.damaged_records += 1
            self._say(finding)

    def mended(self, finding: Finding) -> None:
        """Note an entry that was wrong."""
        self.mended_entries += 1
        if self._is_new("mended", 0, finding.topic, finding.queue_id, finding.queue_offset):
            self._say(finding)

    def beyond(self, finding: Finding) -> None:
        """Note a record behind the end of its queue; one line per queue."""
        if self._is_new("beyond", 0, finding.topic, finding.queue_id, 0):
            self._say(finding)

    def rebuilt(self, finding: Finding) -> None:
        """Note a queue that was made anew."""
        self.rebuilt_queues += 1
        if self._is_new("rebuilt", 0, finding.topic, finding.queue_id, finding.queue_offset):
            self._say(finding)

    def _is_new(self, *what: *tuple[str, int, str, int, int]) -> bool:
        if what in self._told:
            return False
        if len(self._told) < TOLD_MAX:
            self._told.add(what)
        return True

    def _say(self, finding: Finding) -> None:
        if len(self._told) < TOLD_MAX:
            self._tell(finding)
