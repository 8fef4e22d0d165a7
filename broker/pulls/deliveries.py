"""Note what was delivered to pulls: in the groups' progress, in the statistics, and in the journal."""

from typing import TYPE_CHECKING

from staticfire.broker.clock.progress import Progress, ProgressTable
from staticfire.broker.statistics import Statistics
from staticfire.broker.store.outcomes import ReadResult, ReadStatus
from staticfire.protocol.requests.pull import PullMessage
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.dispatcher import Call
from staticfire.runtime.machine import Clock

if TYPE_CHECKING:
    from staticfire.broker.journal.events import PullNotes


class Deliveries:
    """The deliveries to the pulls of one broker."""

    def __init__(
        self, clock: Clock, progress: ProgressTable, statistics: Statistics, journal: "PullNotes | None"
    ) -> None:
        """`journal`: None if the broker keeps no journal."""
        self._uptime_ms = clock.uptime_ms
        self._progress = progress
        self._statistics = statistics
        self._journal = journal

    def found_nothing(self) -> None:
        """Count a try that found nothing."""
        self._statistics.missed.times += 1

    def note(self, call: Call, found: ReadResult, has_come: bool, began_ms: UptimeMs) -> None:
        """Note what was delivered to a pull, or that the pull found nothing up to the end of the queue. Hot path.

        `has_come`: whether the pull arrived just now; False if it was held before. `began_ms`: when its try began.
        """
        request: PullMessage = call.request
        group, topic, queue_id = request.consumer_group, request.topic, request.queue_id
        progress: Progress | None = None
        if found.status is ReadStatus.FOUND:
            count = len(found.positions)
            progress = self._progress.delivered(group, topic, queue_id, found.first_offset, found.end_offset)
            statistics, took_ms = self._statistics, self._uptime_ms() - began_ms
            statistics.delivered(group, topic, count, found.record_bytes)
            if took_ms or statistics.slowest_pull_ms:
                statistics.pull_took(group, topic, queue_id, took_ms)
        elif found.next_offset >= found.max_offset:
            progress = self._progress.found_end(group, topic, queue_id, found.next_offset)
        if progress is None:
            return
        journal = self._journal
        client = call.connection.client_id or call.connection.peer.address
        if has_come and progress.owner != client:
            before = progress.change_hands(client)
            if journal is not None:
                journal.took_over(client, request, before)
        if journal is None:
            return
        if found.status is ReadStatus.FOUND:
            first_offset, end_offset = found.first_offset, found.end_offset
            journal.note(
                journal.make(journal.uptime_ns(), client, group, topic, queue_id, first_offset, end_offset, count)
            )
