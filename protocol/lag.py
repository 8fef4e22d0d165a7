"""The lag of a consumer group in a queue: the one formula for metrics, administrators, `explain` and tests. Pure.

    stored:     first ........................ end
    consumed:            consumed                       the next message that the group needs; -1: none so far
    lag:                 |<-------------------->|       and the messages that it has popped, but not acknowledged

Messages that are no longer stored don't count: the group can't get them. Those that were popped are before `consumed`.
"""


def lag_of(end: int, consumed: int, first: int = 0, unacknowledged: int = 0) -> int:
    """Return how many messages of a queue a group must still consume."""
    return max(0, end - max(consumed, first)) + unacknowledged
