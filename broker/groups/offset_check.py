"""What a start does with offsets that say more than there is.

consumerOffset.json is saved behind the log, so it never does after a loss of power. It does when the disk lost what it
had promised, when somebody put files there, and when topics were deleted and the broker killed before the file was
written. A group left there would skip as many new messages as are missing: it is taken back, and the file is written
before the next message is stored.
"""

from typing import NamedTuple

from staticfire.broker.groups.offsets import OffsetTable
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.errors import StorageError


class TakenBack(NamedTuple):
    """A group that stood behind the end of a queue."""

    group: str
    topic: str
    queue_id: int
    offset: int
    end_offset: int


def take_back_offsets(offsets: OffsetTable, store: MessageStore, is_doubtful: bool) -> list[TakenBack]:
    """Correct the restored offsets and return what was wrong. Raises: OSError.

    `is_doubtful`: the log may have lost something; else any offset stays, as RocketMQ has it. A queue is looked at only
    where it isn't known to end behind the offset: that costs a read of its files.
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
