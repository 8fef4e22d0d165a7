"""A record that is to be appended, as one value: for everybody but the hot path, which spares the object."""

import msgspec

from staticfire.broker.store.consume_queue import Queue


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
