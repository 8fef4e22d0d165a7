"""What was delivered to groups from each queue, and what they sent back: three integers and a set per group and queue.

It costs one dictionary lookup per pull. quiescence.py evaluates it.
"""

import msgspec

# The number of former owners of a queue that are remembered, newest last. A late commit of an older one is accepted.
FORMER_OWNERS_MAX = 8


class Progress(msgspec.Struct, gc=False):
    """What was delivered to a group from a queue."""

    empty_pull_offset: int = -1
    """The offset of its last pull that found no message."""
    delivered_from: int = 0
    delivered_to: int = 0
    sent_back: set[int] = set()
    owner: str = ""
    """The client of the last pull."""
    former_owners: tuple[str, ...] = ()
    """The clients of earlier pulls."""

    def change_hands(self, client: str) -> str:
        """Note that another client pulls; return the one before."""
        before, self.owner = self.owner, client
        others = [one for one in (*self.former_owners, before) if one and one != client]
        self.former_owners = tuple(others[-FORMER_OWNERS_MAX:])
        return before


class ProgressTable:
    """Tracks pulls, commits and send-backs of all groups."""

    def __init__(self) -> None:
        self._progress: dict[tuple[str, str, int], Progress] = {}
        self.activity = 0
        """The number of stores, deliveries, commits and send-backs."""

    def _of(self, group: str, topic: str, queue_id: int) -> Progress:
        key = (group, topic, queue_id)
        progress = self._progress.get(key)
        if progress is None:
            progress = self._progress[key] = Progress()
        return progress

    def found_end(self, group: str, topic: str, queue_id: int, offset: int) -> Progress:
        """Note that a pull has come to the end of the queue. Return the group's progress in the queue."""
        progress = self._of(group, topic, queue_id)
        progress.empty_pull_offset = offset
        return progress

    def delivered(self, group: str, topic: str, queue_id: int, first_offset: int, end_offset: int) -> Progress:
        """Note that the messages from `first_offset` to `end_offset` - 1 were delivered.

        Return the group's progress.
        """
        self.activity += 1
        progress = self._of(group, topic, queue_id)
        if first_offset > progress.delivered_to or first_offset < progress.delivered_from:
            # A new owner starts at the group's offset. Earlier deliveries to the old owner no longer count.
            progress.delivered_from = first_offset
            progress.delivered_to = end_offset
        elif end_offset > progress.delivered_to:
            progress.delivered_to = end_offset
        return progress

    def sent_back(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Note that a member sent a message back."""
        self.activity += 1
        self._of(group, topic, queue_id).sent_back.add(offset)

    def committed(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Note the committed offset of a group."""
        self.activity += 1
        progress = self._progress.get((group, topic, queue_id))
        if progress is not None and progress.sent_back:
            progress.sent_back = {one for one in progress.sent_back if one >= offset}

    def forget_all(self) -> None:
        """Reset everything, because the broker was reset."""
        self._progress.clear()
        self.activity += 1

    def find(self, group: str, topic: str, queue_id: int) -> Progress | None:
        """Return the group's progress in a queue; None if it never pulled from it."""
        return self._progress.get((group, topic, queue_id))
