"""Records to append, as values."""

from collections.abc import Sequence

import msgspec

from staticfire.broker.store.consume_queue import Queue
from staticfire.protocol.batch_rows import Row


class NewRecord(msgspec.Struct, frozen=True, gc=False):
    """The content of a new record and its queue; `MessageStore.put` adds the position and the stored time."""

    queue: Queue
    properties: bytes
    tags_code: int
    """The i64 that is stored in the queue's entry."""
    body: bytes
    born_ms: int
    born_host: bytes
    sys_flag: int = 0
    flag: int = 0
    reconsume_times: int = 0
    prepared_position: int = 0
    wait_flush: bool = True
    """With SYNC_FLUSH: whether the append is settled only after the fsync."""


class NewRows(msgspec.Struct, frozen=True, gc=False):
    """Records of one queue that are appended next to each other, all of them or none."""

    queue: Queue
    born_ms: int
    born_host: bytes
    rows: Sequence[Row]
    sys_flag: int = 0
