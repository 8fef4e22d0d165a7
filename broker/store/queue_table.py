"""All consume queues of a store, loaded on demand.

A queue is loaded from its files at its first use, so that opening a store with 40,000 queues costs nothing. Invariants:
a queue with entries that aren't yet safe in its files is in `dirty`, or in the current flush round; after recovery, no
queue is shorter than its end in `recorded`.
"""

from collections.abc import Iterable
from typing import TypeAlias

from staticfire.broker.store.consume_queue import LogStart, Queue
from staticfire.broker.store.flush_round import QueueBatch, Round
from staticfire.broker.store.outcomes import NoFolderName
from staticfire.broker.store.queue_ends import Ends
from staticfire.broker.store.queue_files import QueueFiles
from staticfire.broker.store.settings import StoreSettings
from staticfire.protocol.errors import StorageError
from staticfire.protocol.limits import QUEUES_OF_TOPIC_MAX
from staticfire.runtime.machine import Files

QUEUE_ID_DIGITS_MAX = len(str(QUEUES_OF_TOPIC_MAX))

QueueName: TypeAlias = tuple[str, int]
"""Topic and queue id."""


class QueueShort(Exception):
    """A queue's files have lost entries that they are known to have had."""


class QueueTable:
    """The queues by topic and id, and which of them have entries that aren't safe yet."""

    def __init__(self, files: Files, folder: str, log: LogStart, settings: StoreSettings) -> None:
        self._files = files
        self._folder = folder
        self._log = log
        self._keep_entries = settings.queue_tail_entries
        self._entries = QueueFiles(files, settings.queue_file_entries, settings.queue_files_open_max)
        self._topics_on_disk: set[str] = set()
        self._of_topic: dict[str, list[Queue]] = {}
        self.by_name: dict[tuple[str, int], Queue] = {}
        # Used as an ordered set. The values mean nothing.
        self.dirty: dict[Queue, object] = {}
        self.trusted_below = 0
        """Recovery rebuilds entries of records from this position on. Such entries in the files are cut off."""
        self.recorded: Ends = {}
        """The ends of queues that aren't loaded yet; filled at the end of recovery."""
        self.strays: dict[str, None] = {}
        """Unknown files and folders that were found among the queues so far."""

    # --- finding

    def open(self, deleted_topics: dict[str, int]) -> bool:
        """Find the topics that have queues, and finish interrupted deletions; return whether the folder existed.

        Raises: OSError.
        """
        existed = self._files.exists(self._folder)
        self._files.make_folder(self._folder)
        self._topics_on_disk = set(self._files.list_folder(self._folder))
        for topic, position in deleted_topics.items():
            if topic in self._topics_on_disk:
                self._finish_deletion(topic, position)
        return existed

    def _finish_deletion(self, topic: str, position: int) -> None:
        for queue_id in self._look_into(topic)[0]:
            folder = f"{self._folder}/{topic}/{queue_id}"
            try:
                first = self._entries.first_position(folder)
            except NotADirectoryError:
                self.strays[folder] = None
                continue
            if first is None or first < position:
                self._remove_queue(folder)

    def _ids_on_disk(self, topic: str) -> list[int]:
        """Return the ids of a topic's queues that had files at the start, and still do. Raises: OSError.

        After a deletion, foreign files may keep the folder of a queue.
        """
        if topic not in self._topics_on_disk:
            return []
        return [
            queue_id for queue_id in self._look_into(topic)[0] if self._has_files(f"{self._folder}/{topic}/{queue_id}")
        ]

    def _has_files(self, folder: str) -> bool:
        try:
            return self._entries.has_files(folder)
        except NotADirectoryError:
            return True  # `load` reports it.

    def _look_into(self, topic: str) -> tuple[list[int], bool]:
        """Return the ids of the queues in a topic's folder, and whether nothing else is in it. Raises: OSError."""
        folder = f"{self._folder}/{topic}"
        try:
            names = self._files.list_folder(folder)
        except NotADirectoryError:
            self.strays[folder] = None
            return [], False
        # `int` accepts more names than a queue's folder can have.
        ids = {name: int(name) for name in names if name.isdecimal() and len(name) <= QUEUE_ID_DIGITS_MAX}
        ids = {name: number for name, number in ids.items() if number < QUEUES_OF_TOPIC_MAX and name == str(number)}
        self.strays |= dict.fromkeys(f"{folder}/{name}" for name in names if name not in ids)
        return list(ids.values()), len(ids) == len(names)

    def load(self, topic: str, queue_id: int) -> Queue:
        """Return a queue that isn't loaded yet, from its files or as a new one.

        Raises: OSError, StorageError, QueueShort (its files were removed or cut; it must be rebuilt).
        """
        if not topic or topic in (".", "..") or "/" in topic or "\0" in topic:
            raise NoFolderName(f"can't create a queue for the topic {topic!r}: its name can't be the name of a folder")
        queue = Queue(topic, queue_id, f"{self._folder}/{topic}/{queue_id}", self._entries, self._log)
        try:
            is_cut = topic in self._topics_on_disk and queue.load(self.trusted_below)
        except NotADirectoryError as error:
            words = f"{error.filename} can't be a queue's folder, a file is in its place: move it away"
            raise StorageError(words) from None
        recorded = self.recorded.get(topic)
        if recorded is not None and queue_id in recorded:
            if recorded[queue_id] > queue.max_offset:
                raise QueueShort
            del recorded[queue_id]
        if is_cut:
            self.dirty[queue] = None
        self.by_name[topic, queue_id] = queue
        self._of_topic.setdefault(topic, []).append(queue)
        return queue

    def topics(self) -> list[str]:
        """Return the topics that have queues, sorted."""
        return sorted(self._topics_on_disk.union(self._of_topic))

    def queue_ids(self, topic: str) -> list[int]:
        """Return the ids of a topic's queues that have or had a message, also if only in memory. Raises: OSError."""
        ids = {queue.queue_id for queue in self._of_topic.get(topic, []) if queue.max_offset}
        return sorted(ids.union(self._ids_on_disk(topic)))

    def end_of(self, topic: str, queue_id: int) -> int:
        """Return where a queue ends, without reading its files; the saved end if it isn't loaded."""
        queue = self.by_name.get((topic, queue_id))
        return self.recorded.get(topic, {}).get(queue_id, 0) if queue is None else queue.max_offset

    def load_all(self) -> None:
        """Load every queue that has files, so that obsolete entries are cut off. Raises: OSError."""
        for topic in sorted(self._topics_on_disk):
            for queue_id in self._ids_on_disk(topic):
                if (topic, queue_id) not in self.by_name:
                    self.load(topic, queue_id)

    def without_end(self, names: Iterable[tuple[QueueName, int]]) -> dict[QueueName, int]:
        """Return those of these queues that lack the entry before the given end. Raises: OSError."""
        lacking = {}
        for name, end in names:
            queue = self.by_name.get(name)
            if queue is not None:
                has_end = queue.max_offset >= end
            else:
                has_end = self._entries.has_end(f"{self._folder}/{name[0]}/{name[1]}", end, self.trusted_below)
            if not has_end:
                lacking[name] = end
        return lacking

    def forget(self, name: QueueName) -> None:
        """Remove a queue that isn't in use, to rebuild it from the log. Raises: OSError."""
        self._drop(name)
        self.recorded.get(name[0], {}).pop(name[1], None)
        self._remove_queue(f"{self._folder}/{name[0]}/{name[1]}")

    def leave_short(self, name: QueueName, end: int) -> None:
        """Undo a started rebuild of a queue: loading it raises QueueShort again."""
        self._drop(name)
        self.recorded.setdefault(name[0], {})[name[1]] = end

    def _drop(self, name: QueueName) -> None:
        queue = self.by_name.pop(name, None)
        if queue is not None:
            self.dirty.pop(queue, None)
            self._of_topic[queue.topic].remove(queue)

    def forget_all(self) -> None:
        """Remove all queues, to rebuild them from the log. Raises: OSError."""
        self._entries.close()
        for topic in self._files.list_folder(self._folder):
            self._remove_topic(topic)
        self._topics_on_disk.clear()
        self._of_topic.clear()
        self.by_name.clear()
        self.dirty.clear()

    def delete(self, topic: str) -> None:
        """Remove the queues of a topic and mark the objects as deleted for callers that still hold them.

        Raises: OSError.
        """
        for queue in self._of_topic.pop(topic, []):
            queue.deleted = True
            del self.by_name[topic, queue.queue_id]
            self.dirty.pop(queue, None)
        self.recorded.pop(topic, None)
        self._topics_on_disk.discard(topic)
        self._remove_topic(topic)

    def _remove_topic(self, topic: str) -> None:
        """Remove the queues in a topic's folder, and the folder if nothing else is in it. Raises: OSError."""
        folder = f"{self._folder}/{topic}"
        queue_ids, is_empty = self._look_into(topic)
        for queue_id in queue_ids:
            is_empty = self._remove_queue(f"{folder}/{queue_id}") and is_empty
        if is_empty and not self._files.remove_empty_folder(folder):
            self.strays[folder] = None

    def _remove_queue(self, folder: str) -> bool:
        """Remove a queue's files and its folder; return False if other files are in it: those stay. Raises: OSError."""
        others = self._entries.remove_all(folder)
        self.strays |= dict.fromkeys(others)
        return not others

    # --- writing

    def start_round(self) -> Round:
        """Start a round that writes everything visible of the dirty queues."""
        round_ = Round([(queue, queue.max_offset) for queue in self.dirty])
        self.dirty.clear()
        return round_

    def written(self, batch: QueueBatch) -> None:
        """Note that a batch is safe. Raises: OSError."""
        for queue, up_to_offset in batch.queues:
            if queue.deleted:
                # The queue was deleted while a worker was writing it, and the worker has created the folder again.
                self._remove_queue(queue.folder)
            else:
                queue.flushed(up_to_offset, self._keep_entries)

    def broken_off(self, round_: Round) -> None:
        """Mark the queues of a failed round as dirty again. Raises: OSError."""
        self.dirty.update((queue, None) for queue in round_.queues if not queue.deleted)
        for queue in round_.queues:
            if queue.deleted:
                self._remove_queue(queue.folder)

    def remove_old_files(self) -> None:
        """Remove files of loaded queues that have only entries whose records are gone. Raises: OSError."""
        for queue in self.by_name.values():
            queue.remove_old_files()

    def close(self) -> None:
        """Close the files."""
        self._entries.close()
