"""Who has which queues, looked up by queue: groups have as many as thousands of them, and hundreds of members. Pure."""

from collections.abc import Iterable, Iterator

from staticfire.client.admin.group_view import GroupMember, HeldQueue
from staticfire.client.cluster.queues import MessageQueue


class Holdings:
    """What the members of a group have, as they said."""

    def __init__(self, group: str, members: Iterable[GroupMember]) -> None:
        self._group = group
        self._by_queue: dict[MessageQueue, list[tuple[GroupMember, HeldQueue]]] = {}
        self._popped: dict[str, list[tuple[GroupMember, HeldQueue]]] = {}
        # By broker: each of them may bring messages of other queues, too.
        for member in members:
            for held in member.queues:
                self._by_queue.setdefault(held.queue, []).append((member, held))
                if held.popped:
                    self._popped.setdefault(held.broker_name, []).append((member, held))

    def of(self, queue: MessageQueue) -> Iterator[tuple[GroupMember, HeldQueue]]:
        """Yield what brings a queue's messages to members."""
        yield from self._by_queue.get(queue, ())
        for member, held in self._popped.get(queue.broker_name, ()):
            if held.queue != queue and held.covers(queue, self._group):
                yield member, held

    def owners(self, queue: MessageQueue) -> tuple[list[str], bool]:
        """Return the client ids of those who have a queue, and whether any of them pops it."""
        having = list(self.of(queue))
        owners = sorted({member.client_id for member, _ in having})
        return owners, any(held.popped for _, held in having)
