"""A flush round: write the consume queues to the disk, as a series of blocking steps that the caller carries out.

A round writes the queues that were dirty when it began, a batch at a time. After the last batch is safe, it saves the
queues' end offsets, and then moves the checkpoint to the position where the log ended when the round began.

Invariants: entries are written only after their records are safe; end offsets only after all entries; the checkpoint
last. If a round is aborted, its queues are dirty again.
"""

from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from staticfire.broker.store.commit_log import CommitLog
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.queue_ends import Ends
from staticfire.broker.store.queue_files import QueueWrite, write_entries
from staticfire.broker.store.state_files import Checkpoint, StateFiles
from staticfire.runtime.machine import Files

if TYPE_CHECKING:
    from staticfire.broker.store.queue_table import QueueTable


class QueueBatch(NamedTuple):
    """Some queues, each with the offset up to which it is written, and the writes for them."""

    queues: list[tuple[Queue, int]]
    writes: list[QueueWrite]


class Round:
    """One pass over the dirty queues, each with the offset up to which it is written."""

    def __init__(self, queues: list[tuple[Queue, int]]) -> None:
        self._queues = queues
        self._at = 0

    @property
    def is_done(self) -> bool:
        """Whether every queue was written."""
        return self._at >= len(self._queues)

    def next_batch(self, queues_max: int) -> QueueBatch:
        """Return the next queues to write."""
        batch = [pair for pair in self._queues[self._at : self._at + queues_max] if not pair[0].deleted]
        writes = [write for queue, up_to_offset in batch for write in queue.unflushed(up_to_offset)]
        self._at += queues_max
        return QueueBatch(batch, writes)

    @property
    def queues(self) -> list[Queue]:
        """All queues of the round."""
        return [queue for queue, _ in self._queues]

    def ends(self) -> Ends:
        """Return the offsets up to which queues were written, without the queues deleted meanwhile."""
        ends: Ends = {}
        for queue, up_to_offset in self._queues:
            if not queue.deleted and up_to_offset:
                ends.setdefault(queue.topic, {})[queue.queue_id] = up_to_offset
        return ends


class FlushStep(NamedTuple):
    """One blocking step. A worker must carry it out before the caller takes the next step."""

    carry_out: Callable[[], None]
    more_queues: bool
    """Whether more queues follow: a good moment to let other users access the disk."""
    is_log: bool = False
    """Whether the step is `CommitLog.sync`. A caller whose own loop syncs the log uses that instead.

    Only one sync may run at a time.
    """


def flush_steps(
    files: Files, log: CommitLog, queues: "QueueTable", state: StateFiles, checkpoint: Checkpoint, queues_max: int
) -> Generator[FlushStep]:
    """Yield the steps of a round. `checkpoint` contains the current end of the log.

    If a step fails, close the iterator; this aborts the round.
    """
    round_ = queues.start_round()
    end_position = log.end_position
    is_safe = False
    try:
        if log.synced_position < end_position:
            yield FlushStep(log.sync, False, is_log=True)
        assert log.synced_position >= end_position, "entries are written only when their records are safe"
        while not round_.is_done:
            batch = round_.next_batch(queues_max)
            yield FlushStep(partial(write_entries, files, batch.writes), not round_.is_done)
            queues.written(batch)
        ends, synced_position = round_.ends(), log.synced_position

        def conclude() -> None:
            nonlocal is_safe
            if ends:
                state.ends.append(end_position, ends)
            is_safe = True
            ends_position = state.ends.log_position
            state.write_checkpoint(checkpoint._replace(synced_position=synced_position, ends_position=ends_position))

        yield FlushStep(conclude, False)
    finally:
        if not is_safe:
            queues.broken_off(round_)
