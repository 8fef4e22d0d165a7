"""Which member has which queues, indexed by queue: a group may have thousands of queues. Pure."""

from collections.abc import Iterable, Iterator

from staticfire.client.admin.group_view import GroupMember, HeldQueue
from staticfire.client.cluster.queues import MessageQueue


class Holdings:
    """The queues of the members of a group, as they reported them."""

    def __init__(self, group: str, members: Iterable[GroupMember]) -> None:
        self._group = group
        self._by_queue: dict[MessageQueue, list[tuple[GroupMember, HeldQueue]]] = {}
        # By broker: each popped queue may deliver messages of other queues, too.
        self._popped: dict[str, list[tuple[GroupMember, HeldQueue]]] = {}
        for member in members:
            for held in member.queues:
                self._by_queue.setdefault(held.queue, []).append((member, held))
                if held.popped:
                    self._popped.setdefault(held.broker_name, []).append((member, held))

    def of(self, queue: MessageQueue) -> Iterator[tuple[GroupMember, HeldQueue]]:
        """Yield the members that get a queue's messages, each with the queue by which it gets them."""
        yield from self._by_queue.get(queue, ())
        for member, held in self._popped.get(queue.broker_name, ()):
            if held.queue != queue and held.covers(queue, self._group):
                yield member, held

    def owners(self, queue: MessageQueue) -> tuple[list[str], bool]:
        """Return the client ids of the members that have a queue, and whether any of them pops it."""
        having = list(self.of(queue))
        owners = sorted({member.client_id for member, _ in having})
        return owners, any(held.popped for _, held in having)
