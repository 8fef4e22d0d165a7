"""Cache the newest pulled records in RocketMQ's format, for the next group that pulls them.

To convert a stored record takes longer than to find it here, and every group of a topic pulls the end of its queues,
message by message or 32 at a time. A record isn't cached when it is pulled the first time, since most messages are
pulled only once. The key is the log position, which no other record ever gets, and the store host, which is part of the
record. There are two generations. A record that is requested is moved to the young one. When the young generation is
full, it becomes the old one, and the previous old one is dropped. So the newest `generation_bytes` are always in the
cache, and at most twice as much.
"""

from staticfire.broker.store.outcomes import ReadResult
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.command import Records, RocketmqRecords
from staticfire.protocol.rocketmq_record import rocketmq_records

GENERATION_BYTES = 16 * 1024 * 1024
# The memory that a record takes besides its bytes: the object, the key and the slot in the dictionary.
_ENTRY_BYTES = 150

Generation = dict[bytes, dict[int, bytes]]
"""Records by store host, then by log position."""


QueueName = tuple[str, int]
"""Topic and queue id."""


class RecordCache:
    """Records in RocketMQ's format, converted on demand."""

    def __init__(self, store: MessageStore, generation_bytes: int = GENERATION_BYTES) -> None:
        self._store = store
        self._generation_bytes = generation_bytes
        self._young: Generation = {}
        self._old: Generation = {}
        self._young_bytes = 0
        # Up to which offset each queue was pulled.
        self._pulled_ends: dict[QueueName, int] = {}

    def records(self, queue: QueueName, pulled: ReadResult, store_host: bytes) -> Records | RocketmqRecords:
        """Return the pulled records for a client that reaches the broker at `store_host`; the first time as they are
        stored.

        Raises: StorageError, OSError (they can't be read), ProtocolError (RocketMQ has no such record).
        """
        pulled_end = self._pulled_ends.get(queue, 0)
        if pulled.end_offset > pulled_end:
            self._pulled_ends[queue] = pulled.end_offset
        if pulled.first_offset >= pulled_end:
            return Records(self._store.records(pulled), len(pulled.positions))
        young = self._young.get(store_host)
        if young is None:
            young = self._young[store_host] = {}
        found = list(map(young.get, pulled.positions))
        if not all(found):
            self._find_or_make(young, pulled, store_host)
            found = list(map(young.get, pulled.positions))
            if self._young_bytes > self._generation_bytes:
                self._old, self._young, self._young_bytes = self._young, {}, 0
        return RocketmqRecords(found)  # type: ignore[arg-type]  # none is missing any more

    def _find_or_make(self, young: dict[int, bytes], pulled: ReadResult, store_host: bytes) -> None:
        """Add the missing records to the young generation: from the old one, or converted."""
        old = self._old.get(store_host, {})
        missing: list[int] = []
        missing_sizes: list[int] = []
        for position, size in zip(pulled.positions, pulled.sizes, strict=True):
            if position not in young:
                self._young_bytes += size + _ENTRY_BYTES
                record = old.get(position)
                if record is None:
                    missing.append(position)
                    missing_sizes.append(size)
                else:
                    young[position] = record
        if missing:
            made = rocketmq_records(self._store.some_records(pulled, missing, missing_sizes), store_host)
            young.update(zip(missing, made, strict=True))
