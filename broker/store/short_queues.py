"""Queues whose files have lost entries: they are found with the saved end offsets, and rebuilt from the log.

A file was removed, cut, zeroed, or replaced by an old copy. All records of such a queue that the log still has are
entered again. The rest becomes a hole, and the queue continues at its saved end: no offset is given to two messages.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

from staticfire.broker.store.commit_log import CommitLog
from staticfire.broker.store.entering import Entering, TagsCodeOf
from staticfire.broker.store.left_behind import LeftBehind
from staticfire.broker.store.queue_ends import Ends, RecordedEnds
from staticfire.broker.store.queue_table import QueueName, QueueTable
from staticfire.broker.store.settings import StoreSettings
from staticfire.broker.store.state_files import StateFiles
from staticfire.runtime.machine import Files

NAMES_SHOWN_MAX = 8
# The number of queues that one check covers: a millisecond of a worker.
LOOK_QUEUES = 100


class Rebuilt(NamedTuple):
    """The result of a rebuild."""

    ends: dict[QueueName, int]
    """The offset where each queue continues."""
    lost: dict[QueueName, int]
    """For each queue with lost messages, the number of offsets at its end for which the log has no message."""
    problems: list[str]

    def words(self) -> list[str]:
        """Return the result as readable text."""
        lost = [
            f"queue {queue_id} of {topic} continues at its former end, offset {self.ends[topic, queue_id]}: the log "
            f"has no messages for its last {count} offsets"
            for (topic, queue_id), count in islice(self.lost.items(), NAMES_SHOWN_MAX)
        ]
        more = len(self.lost) - len(lost)
        return [
            f"{len(self.ends)} queues lost entries, because their files were removed, cut or damaged: they are rebuilt "
            f"from the log ({_some(self.ends)})",
            *self.problems,
            *lost,
            *([f"the same applies to {more} more queues"] if more else []),
        ]


class ShortQueues:
    """Finds short queues and rebuilds them."""

    def __init__(
        self, files: Files, log: CommitLog, queues: QueueTable, settings: StoreSettings, tags_code_of: TagsCodeOf
    ) -> None:
        self._files = files
        self._log = log
        self._queues = queues
        self._settings = settings
        self._tags_code_of = tags_code_of

    def find(self, ends: Ends, count_max: int) -> dict[QueueName, int]:
        """Return the queues that end before their saved ends, with these ends. Raises: OSError.

        At most `count_max` queues are checked if none of them is short, because each check costs a read.
        """
        names = _each(ends)
        short = self._queues.without_end(islice(names, count_max))
        return {**short, **self._queues.without_end(names)} if short else short

    def find_all(self, ends: Ends, certain: Iterable[QueueName]) -> dict[QueueName, int]:
        """Return all queues that are shorter than their saved ends, and the `certain` ones. Raises: OSError."""
        short = {(topic, queue_id): ends[topic][queue_id] for topic, queue_id in certain}
        return short | self._queues.without_end(_each(ends))

    def looks(self, ends: Ends) -> Iterator[Callable[[], bool]]:
        """Yield checks for workers that together cover all queues. Each returns whether its queues are complete.

        Each check raises: OSError.
        """
        names = list(_each(ends))
        for at in range(0, len(names), LOOK_QUEUES):
            yield partial(self._are_whole, names[at : at + LOOK_QUEUES])

    def _are_whole(self, names: list[tuple[QueueName, int]]) -> bool:
        return not self._queues.without_end(names)

    def rebuild(self, short: dict[QueueName, int], deletions: dict[str, int]) -> Rebuilt:
        """Rebuild these queues up to their saved ends. This takes as long as reading the log.

        Raises: OSError, StorageError (the queues stay short, and their next use tries it again).
        """
        try:
            for name in short:
                self._queues.forget(name)
            return self._rebuild(short, deletions)
        except BaseException:
            for name, end in short.items():
                self._queues.leave_short(name, end)
            raise

    def _rebuild(self, short: dict[QueueName, int], deletions: dict[str, int]) -> Rebuilt:
        entering = Entering(self._files, self._log, self._queues, self._settings, self._tags_code_of)
        entering.deleted_topics = deletions
        problems = entering.enter_only(short).problems
        lost = {}
        for name, end in short.items():
            queue = self._queues.by_name.get(name) or self._queues.load(*name)
            if queue.max_offset < end:
                lost[name] = queue.go_on_at(end)
            self._queues.dirty[queue] = None
        return Rebuilt(short, lost, problems)


class EndsCheck:
    """The part of a start: `look`, then `take_back` before the table of deleted topics is written, then `complete`."""

    def __init__(
        self, log: CommitLog, queues: QueueTable, state: StateFiles, short: ShortQueues, settings: StoreSettings
    ) -> None:
        self._log = log
        self._queues = queues
        self._state = state
        self._short = short
        self._settings = settings
        self._recorded = RecordedEnds({}, -1, False, False)
        self._is_lost = self._is_unknown = False
        self.problems: list[str] = []

    def look(self, known: LeftBehind) -> None:
        """Read the saved ends. Raises: OSError."""
        self._recorded = recorded = self._state.ends.read(known.deleted_topics)
        self._is_lost = recorded.is_damaged or recorded.log_position < known.claimed.ends_position
        is_older = known.checkpoint is not None and known.checkpoint.ends_position < -1
        self._is_unknown = is_older and recorded.log_position < 0 and bool(self._queues.topics())

    def take_back(self, end_position: int, deletions_change: bool) -> None:
        """Correct saved ends from a log position that no longer exists, or of topics whose deletion is forgotten now.

        Raises: OSError.
        """
        recorded = self._recorded
        if recorded.log_position > end_position or (recorded.is_stale and deletions_change):
            self._state.ends.replace(min(recorded.log_position, end_position), recorded.ends)

    def complete(self, deletions: dict[str, int]) -> int:
        """Rebuild short queues and return their number. Raises: OSError."""
        ends = self._recorded.ends
        short = self._short.find(ends, self._settings.queues_checked_at_start)
        if short:
            self.problems += self._short.rebuild(short, deletions).words()
        if self._is_lost:
            self.problems.append(
                "queueEnds was lost, cut or damaged: it is rebuilt from the files of the queues. If a file of a queue "
                "was also lost, this isn't noticed: to rebuild all queues, remove the file `checkpoint` and restart "
                "the broker"
            )
        if self._is_lost or self._is_unknown:
            self._note_all(ends)
        for topic, queue_id in self._queues.by_name:
            ends.get(topic, {}).pop(queue_id, None)
        self._queues.recorded = ends
        return len(short)

    def _note_all(self, ends: Ends) -> None:
        """Save the ends of all queues as their files have them: queueEnds was lost, or an older version had none."""
        self._queues.load_all()
        for (topic, queue_id), queue in self._queues.by_name.items():
            queue.mark_beginning()
            noted = ends.setdefault(topic, {})
            if queue.flushed_offset > noted.get(queue_id, 0):
                noted[queue_id] = queue.flushed_offset
        self._state.ends.replace(self._log.end_position, ends)


def _each(ends: Ends) -> Iterator[tuple[QueueName, int]]:
    return chain.from_iterable(
        (((topic, queue_id), end) for queue_id, end in queues.items()) for topic, queues in ends.items()
    )


def _some(names: dict[QueueName, int]) -> str:
    shown = [f"queue {queue_id} of {topic}" for topic, queue_id in islice(names, NAMES_SHOWN_MAX)]
    if len(names) > len(shown):
        shown.append(f"and {len(names) - len(shown)} more")
    return ", ".join(shown)
