"""Store copies of messages in a retry topic, so that they are redelivered.

A hundred thousand messages may be due in the same second. So the copies are packed next to each other from the stored
bytes. A copy that doesn't fit at the current end of the log, and any copy on an IPv6 host, is stored as a normal
record.

A message whose properties have no room for those of a pop isn't copied: no RocketMQ client could read the response to
the pop that takes its copy. RocketMQ: PROPERTIES_SIZE_EXCEEDED.
"""

from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.new_record import NewRecord
from staticfire.broker.store.queue_files import ENTRY
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.limits import PROPERTIES_BYTES_MAX
from staticfire.protocol.properties import FIRST_POP_TIME, POP_CK, find_property, with_property, without_property
from staticfire.protocol.record import IPV4_HOST_BYTES, decode_record
from staticfire.protocol.record_copies import CopyOf, Parts, consumed_again
from staticfire.protocol.sys_flag import BORN_HOST_V6
from staticfire.protocol.tags import tags_code
from staticfire.protocol.times import MessageMs

_pack_entry = ENTRY.pack


class Copies:
    """Makes copies for one retry queue. `flush` adds them to the burst; after that more can be added."""

    def __init__(
        self, store: MessageStore, target: Queue, host: bytes, handle_bytes_max: int, now_ms: MessageMs
    ) -> None:
        """`host`: the broker's, which is the born host of the copies. `handle_bytes_max`: what a pop adds to a copy."""
        self._store = store
        self._target = target
        self._host = host
        self._is_v4 = len(host) == IPV4_HOST_BYTES
        self._handle_bytes_max = handle_bytes_max
        self._properties_bytes_max = PROPERTIES_BYTES_MAX - handle_bytes_max
        self._now_ms = now_ms
        self._begin()

    def _begin(self) -> None:
        self._start, self._end, self._bytes_max = self._store.room
        self._position = self._last = self._start
        self._records: list[bytes] = []
        self._entries: list[bytes] = []

    def add(self, parts: Parts, first_pop: bytes) -> None:
        """Copy a message. `first_pop`: when it was popped, in ms. Raises: ProtocolError, StorageError."""
        properties = without_property(parts.properties, POP_CK)
        if parts.reconsume_times == 0 or find_property(properties, FIRST_POP_TIME) is None:
            properties = with_property(properties, FIRST_POP_TIME, first_pop)
        if len(properties) > self._properties_bytes_max:
            words = (
                f"a copy has {len(properties)} bytes of properties, and a pop adds up to {self._handle_bytes_max}: the "
                f"limit is {PROPERTIES_BYTES_MAX}"
            )
            raise ProtocolError(words)
        target, position = self._target, self._position
        sys_flag = parts.sys_flag & ~BORN_HOST_V6
        if not self._is_v4 or target.deleted:
            self._put(parts, properties)
            return
        new = CopyOf(
            position, target.queue_id, target.next_offset + len(self._records), self._now_ms, sys_flag, self._host,
            target.packed_topic, properties,
        )  # fmt: skip
        record = consumed_again(parts, new)
        size = len(record)
        if position + size > self._end or size > self._bytes_max:
            self._put(parts, properties)
            return
        self._records.append(record)
        self._entries.append(_pack_entry(position, size, tags_code(properties)))
        self._last, self._position = position, position + size

    def _put(self, parts: Parts, properties: bytes) -> None:
        self.flush()
        record = decode_record(parts.data)
        sys_flag = record.sys_flag & ~BORN_HOST_V6 | (0 if self._is_v4 else BORN_HOST_V6)
        copy = NewRecord(
            self._target, properties, tags_code(properties), record.body, record.born_ms, self._host, sys_flag,
            record.flag, record.reconsume_times + 1, wait_flush=False,
        )  # fmt: skip
        self._store.put(copy, self._now_ms)
        self._begin()

    def flush(self) -> None:
        """Add the copies to the burst."""
        if self._records:
            records = b"".join(self._records)
            rows = [(self._target, b"".join(self._entries), len(records))]
            self._store.put_packed((records, self._last, rows), self._now_ms, None, None)
        self._begin()
