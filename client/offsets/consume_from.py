"""Where the consumption of a queue starts. Pure. RocketMQ: RebalancePushImpl.computePullFromWhereWithException.

A stored offset is always used. Consume-from-where is only for a group without one in the queue.

    consume from    stored   none, normal topic             none, %RETRY% topic
    LAST_OFFSET     use it   the queue's end                0
    FIRST_OFFSET    use it   0                              0
    TIMESTAMP       use it   the first offset at that time  the queue's end
"""

from enum import Enum

from staticfire.client.settings.push_settings import ConsumeFromWhere
from staticfire.protocol.errors import ClientError

NO_OFFSET = -1


class Start(Enum):
    """A start offset that must be queried from a broker."""

    QUEUE_END = "max offset"
    TIMESTAMP = "offset at the consume timestamp"


class IllegalStoredOffset(ClientError):
    """A stored offset below -1: some client stored an invalid value."""


def find_start(where: ConsumeFromWhere, stored_offset: int, is_retry: bool) -> int | Start:
    """Return the offset to start at, or what to query.

    `stored_offset`: -1 if there is none. Raises: IllegalStoredOffset.
    """
    if stored_offset >= 0:
        return stored_offset
    if stored_offset != NO_OFFSET:
        raise IllegalStoredOffset(f"the stored offset is {stored_offset}")
    if where is ConsumeFromWhere.TIMESTAMP:
        return Start.QUEUE_END if is_retry else Start.TIMESTAMP
    if where is ConsumeFromWhere.FIRST_OFFSET or is_retry:
        return 0
    return Start.QUEUE_END
