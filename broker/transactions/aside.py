"""Half messages that nobody had ended for so long that they were set aside: a commit that comes later still counts.

RocketMQ stores the message then, whatever else was said of its half. Here an end counts once, so who was set aside has
to be told from who was committed or rolled back: by its unique id in TRANS_CHECK_MAX_TIME_TOPIC.
"""

from collections.abc import Iterator

from staticfire.broker.store.store import MessageStore
from staticfire.protocol.errors import StorageError
from staticfire.protocol.names import CHECK_MAX_TIME_TOPIC
from staticfire.protocol.properties import UNIQ_KEY, find_property
from staticfire.protocol.record import peek_topic_and_properties

KNOWN_MAX = 10_000
# Of the newest; read once, when the first end comes of what is no longer open.
_READ_MAX = 512


class SetAside:
    """Those that may still be committed, of one broker."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._ids: dict[bytes, None] | None = None
        # The oldest first; None: not read yet.
        self._committed: dict[int, bytes] = {}
        # Their commits are on the burst at hand, by the queue offset of the half message.

    def add(self, properties: bytes) -> None:
        """Take in one more."""
        if self._ids is not None:
            self._ids[find_property(properties, UNIQ_KEY) or b""] = None
            if len(self._ids) > KNOWN_MAX:
                del self._ids[next(iter(self._ids))]

    def has(self, properties: bytes) -> bool:
        """Whether a half message was set aside, and not committed since."""
        if self._ids is None:
            self._ids = dict.fromkeys(self._read())
        return (find_property(properties, UNIQ_KEY) or b"") in self._ids

    def commit(self, offset: int, properties: bytes) -> None:
        """Note that the burst has the commit of a half message."""
        if self._ids:
            self._committed[offset] = find_property(properties, UNIQ_KEY) or b""

    def committed(self, offsets: list[int]) -> None:
        """Forget those whose commits are stored."""
        for offset in offsets:
            unique_id = self._committed.pop(offset, None)
            if unique_id is not None and self._ids is not None:
                self._ids.pop(unique_id, None)

    def forget(self) -> None:
        """Start anew: the queues were deleted."""
        self._ids = None
        self._committed.clear()

    def _read(self) -> Iterator[bytes]:
        """Yield the unique ids of what lies there; what can't be read is passed over."""
        queue = self._store.queue(CHECK_MAX_TIME_TOPIC, 0)
        offset = max(queue.min_offset, queue.max_offset - KNOWN_MAX)
        while offset < queue.max_offset:
            try:
                entries = self._store.entries(queue, offset, _READ_MAX)
                for entry in entries:
                    data = self._store.record_at(entry.log_position) if entry.record_bytes else None
                    if data is not None:
                        yield find_property(peek_topic_and_properties(data)[1], UNIQ_KEY) or b""
            except (StorageError, OSError):
                return
            if not entries:
                return
            offset += len(entries)
