"""What groups have been given of each queue, and what of it came back: three integers and a set per group and queue.

Kept at one dictionary look-up per pull. quiescence.py judges it.
"""

import msgspec

FORMER_OWNERS_MAX = 8
# Members that share a queue one after the other, newest last; of an older one a late commit counts.


class Progress(msgspec.Struct, gc=False):
    """What a group has been given of a queue."""

    asked_offset: int = -1
    """Where its last pull looked in vain."""
    delivered_from: int = 0
    delivered_to: int = 0
    sent_back: set[int] = set()
    owner: str = ""
    """The client whose pull came last."""
    former_owners: tuple[str, ...] = ()
    """Those whose pulls came before."""

    def change_hands(self, client: str) -> str:
        """Note that another client pulls; return the one before."""
        before, self.owner = self.owner, client
        others = [one for one in (*self.former_owners, before) if one and one != client]
        self.former_owners = tuple(others[-FORMER_OWNERS_MAX:])
        return before


class ProgressTable:
    """Follows pulls, commits and send-backs of all groups."""

    def __init__(self) -> None:
        self._progress: dict[tuple[str, str, int], Progress] = {}
        self.activity = 0
        """Counts stores, deliveries, commits and send-backs."""

    def _of(self, group: str, topic: str, queue_id: int) -> Progress:
        key = (group, topic, queue_id)
        progress = self._progress.get(key)
        if progress is None:
            progress = self._progress[key] = Progress()
        return progress

    def asked_in_vain(self, group: str, topic: str, queue_id: int, offset: int) -> Progress:
        """A pull found nothing from there on. Return what the group has of the queue."""
        progress = self._of(group, topic, queue_id)
        progress.asked_offset = offset
        return progress

    def delivered(self, group: str, topic: str, queue_id: int, first_offset: int, end_offset: int) -> Progress:
        """Messages from `first_offset` to before `end_offset` are on their way to a member. Return what it has."""
        self.activity += 1
        progress = self._of(group, topic, queue_id)
        if first_offset > progress.delivered_to or first_offset < progress.delivered_from:
            # A new owner starts where the group stands; what an old one was given before that no longer counts.
            progress.delivered_from = first_offset
            progress.delivered_to = end_offset
        elif end_offset > progress.delivered_to:
            progress.delivered_to = end_offset
        return progress

    def sent_back(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """A member gave a message back."""
        self.activity += 1
        self._of(group, topic, queue_id).sent_back.add(offset)

    def committed(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """A group stands there now."""
        self.activity += 1
        progress = self._progress.get((group, topic, queue_id))
        if progress is not None and progress.sent_back:
            progress.sent_back = {one for one in progress.sent_back if one >= offset}

    def forget_all(self) -> None:
        """Start anew: the broker was reset."""
        self._progress.clear()
        self.activity += 1

    def find(self, group: str, topic: str, queue_id: int) -> Progress | None:
        """Return what a group has been given of a queue, None if it never pulled it."""
        return self._progress.get((group, topic, queue_id))
