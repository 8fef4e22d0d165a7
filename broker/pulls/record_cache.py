"""RocketMQ's form of the records that were pulled last, for the next group that pulls them.

To make it of a stored record takes longer than to find it here, and the end of a queue is pulled by every group of its
topic, message by message or 32 at a time. What is pulled for the first time isn't kept: most messages are pulled once.
Kept by log position, which is never given to another record, and by the store host that stands in it. Two generations:
what is asked for moves into the young one; when that is full it becomes the old one, and the old one goes. So the
newest `generation_bytes` are always there, and at most twice that.
"""

from staticfire.broker.store.outcomes import ReadResult
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.command import Records, RocketmqRecords
from staticfire.protocol.rocketmq_record import rocketmq_records

GENERATION_BYTES = 16 * 1024 * 1024
_ENTRY_BYTES = 150
# What a record takes besides its bytes: object, key and place in the dictionary.

Generation = dict[bytes, dict[int, bytes]]
"""By store host, then by log position."""


QueueName = tuple[str, int]
"""Topic and queue id."""


class RecordCache:
    """Records in RocketMQ's form, made on demand."""

    def __init__(self, store: MessageStore, generation_bytes: int = GENERATION_BYTES) -> None:
        self._store = store
        self._generation_bytes = generation_bytes
        self._young: Generation = {}
        self._old: Generation = {}
        self._young_bytes = 0
        self._pulled_ends: dict[QueueName, int] = {}
        # Up to which offset each queue was pulled.

    def records(self, queue: QueueName, pulled: ReadResult, store_host: bytes) -> Records | RocketmqRecords:
        """Return what was pulled, for a client of the broker at `store_host`; the first time as it is stored.

        Raises: StorageError, OSError (it can't be read), ProtocolError (RocketMQ has no such record).
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
        """Bring what is missing into the young generation."""
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
