"""Half messages that were moved to another topic because they were not ended for too long. A later commit still counts.

RocketMQ stores the message in that case, whatever happened to its half before. Here an end counts only once. So a half
message that was moved must be distinguished from one that was committed or rolled back: by its unique id in
TRANS_CHECK_MAX_TIME_TOPIC. The topic also has those that were committed after they were moved. These have two ends: so
a start finds them in transactions.json, and in the ends that it reads from the log (recovery.py).
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from staticfire.broker.store.store import MessageStore
from staticfire.protocol.errors import StorageError
from staticfire.protocol.names import CHECK_MAX_TIME_TOPIC
from staticfire.protocol.properties import UNIQ_KEY, find_property
from staticfire.protocol.record import peek_topic_and_properties

# The number of the newest ones that are known. They are read once, at the first end of a half that is no longer open.
KNOWN_MAX = 10_000
_READ_MAX = 512


class ExpiredHalves:
    """The half messages of one broker that were moved and may still be committed."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        # The oldest first; None: not read yet.
        self._ids: dict[bytes, None] | None = None
        # The queue offsets of the newest ones that were committed after they were moved, in the order of their commits.
        self._committed: dict[int, None] = {}

    def add(self, properties: bytes) -> None:
        """Add a half message."""
        if self._ids is not None:
            self._ids[find_property(properties, UNIQ_KEY) or b""] = None
            if len(self._ids) > KNOWN_MAX:
                del self._ids[next(iter(self._ids))]

    def has(self, offset: int, properties: bytes) -> bool:
        """Return whether a half message was moved, and not committed since. `offset`: its queue offset."""
        if offset in self._committed:
            return False
        if self._ids is None:
            self._ids = dict.fromkeys(self._read())
        return (find_property(properties, UNIQ_KEY) or b"") in self._ids

    def committed(self, offsets: Iterable[int]) -> None:
        """Note half messages whose second ends are stored: they were moved, then committed."""
        for offset in offsets:
            self._committed[offset] = None
            if len(self._committed) > KNOWN_MAX:
                del self._committed[next(iter(self._committed))]

    def committed_offsets(self) -> list[int]:
        """Return what `committed` has noted."""
        return list(self._committed)

    def forget(self) -> None:
        """Reset everything, because the queues were deleted."""
        self._ids = None
        self._committed.clear()

    def _read(self) -> Iterator[bytes]:
        """Yield the unique ids of the topic's messages, without those of damaged records.

        Raises: StorageError, OSError (they can't be read now: a commit must fail then, or it would seem repeated).
        """
        queue = self._store.queue(CHECK_MAX_TIME_TOPIC, 0)
        offset = max(queue.min_offset, queue.max_offset - KNOWN_MAX)
        while offset < queue.max_offset:
            entries = self._store.entries(queue, offset, _READ_MAX)
            for entry in entries:
                with suppress(StorageError):
                    data = self._store.record_at(entry.log_position) if entry.record_bytes else None
                    if data is not None:
                        yield find_property(peek_topic_and_properties(data)[1], UNIQ_KEY) or b""
            if not entries:
                return
            offset += len(entries)
