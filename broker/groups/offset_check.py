"""Correct the offsets at the start if they are after the end of their queue.

consumerOffset.json is always saved after the log, so a loss of power alone never causes this. It happens when the disk
lost data that it had confirmed, when a user put files there, and when topics were deleted and the broker was killed
before the file was written. With such an offset a group would skip as many new messages as are missing. So the group is
set back to the end of the queue, and the file is written before the next message is stored.
"""

from typing import NamedTuple

from staticfire.broker.groups.offsets import OffsetTable
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.errors import StorageError


class TakenBack(NamedTuple):
    """A group whose offset was after the end of a queue."""

    group: str
    topic: str
    queue_id: int
    offset: int
    end_offset: int


def take_back_offsets(offsets: OffsetTable, store: MessageStore, is_doubtful: bool) -> list[TakenBack]:
    """Correct the restored offsets and return those that were wrong. Raises: OSError.

    `is_doubtful`: whether the log may have lost data; if not, any offset is kept, as in RocketMQ. A queue is read only
    if it isn't known to be long enough, because that costs a read of its files.
    """
    taken_back = []
    saved_position = offsets.saved_position
    for topic, deleted_at in store.deletions.items():
        if saved_position is not None and saved_position <= deleted_at:
            offsets.forget_topic(topic)
    is_ahead = saved_position is not None and saved_position > store.max_position
    for group, topic, queue_id, offset in offsets.all_committed() if is_doubtful or is_ahead else ():
        if offset <= store.end_at_least(topic, queue_id):
            continue
        try:
            end_offset = store.queue(topic, queue_id).max_offset
        except StorageError:
            continue  # No queue can have such a name.
        if offset > end_offset:
            offsets.commit(group, topic, queue_id, end_offset)
            taken_back.append(TakenBack(group, topic, queue_id, offset, end_offset))
    return taken_back
