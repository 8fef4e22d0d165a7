"""Where the consumption of a queue starts. Pure. RocketMQ: RebalancePushImpl.computePullFromWhereWithException.

A stored offset always wins: consume-from-where is for a group that has none in the queue.

    consume from    stored   none, normal topic        none, %RETRY% topic
    LAST_OFFSET     use it   the queue's end           0
    FIRST_OFFSET    use it   0                         0
    TIMESTAMP       use it   what was stored then      the queue's end
"""

from enum import Enum

from staticfire.client.settings.push_settings import ConsumeFromWhere
from staticfire.protocol.errors import ClientError

NO_OFFSET = -1


class Start(Enum):
    """A start that a broker has to be asked for."""

    QUEUE_END = "max offset"
    TIMESTAMP = "offset at the consume timestamp"


class IllegalStoredOffset(ClientError):
    """A stored offset below -1: somebody wrote nonsense."""


def find_start(where: ConsumeFromWhere, stored_offset: int, is_retry: bool) -> int | Start:
    """Return the offset to start at, or what to ask for.

    `stored_offset`: -1 when there is none. Raises: IllegalStoredOffset.
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
