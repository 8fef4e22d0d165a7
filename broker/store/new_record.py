"""What is to be appended, as one value: for everybody but the hot path of sends, which spares the object."""

from collections.abc import Sequence

import msgspec

from staticfire.broker.store.consume_queue import Queue
from staticfire.protocol.plain_records import Row


class NewRecord(msgspec.Struct, frozen=True, gc=False):
    """What will be stored, and in which queue; `MessageStore.put` adds when and where."""

    queue: Queue
    properties: bytes
    tags_code: int
    """Any i64 that the queue's entry shall carry."""
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
    """Records of one queue that are appended side by side, all of them or none."""

    queue: Queue
    born_ms: int
    born_host: bytes
    rows: Sequence[Row]
    sys_flag: int = 0
