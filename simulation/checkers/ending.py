"""What must be true at the end of a run."""

from staticfire.simulation.checkers.checker import Checker
from staticfire.simulation.checkers.events import NotSettled, QueuesAdded, RunEvent, TablesSeen, WentWrong
from staticfire.simulation.workload.description import Group, Workload

SLACK = {"tasks": 28}
# By how much a table may be larger at the end than at the beginning. A consumer starts its 20 workers when they are
# needed, and producers connect when they send.
SLACK_OTHERWISE = 4


class Settles(Checker):
    """After the last fault the cluster settles within the time limit of the workload."""

    promise = "after the last fault, the cluster comes to rest in time: all messages are consumed, nothing waits"
    hears = (NotSettled,)

    def see(self, event: RunEvent) -> None:
        if isinstance(event, NotSettled):
            self.broken(event.at_ms, "the cluster didn't come to rest: " + "; ".join(event.reasons))


class TablesComeBack(Checker):
    """With the same clients at rest, tables have the same size as at the beginning."""

    promise = "tables, tasks and connections return to their initial size"
    hears = (TablesSeen, QueuesAdded)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._first: dict[str, dict[str, int]] = {}
        self._queues = {topic.name: topic.queues for topic in workload.topics}

    def see(self, event: RunEvent) -> None:
        if isinstance(event, QueuesAdded):
            self._queues[event.topic] = event.queues
        if not isinstance(event, TablesSeen) or not event.sizes:
            return  # A process without sizes isn't there: a group that joins later begins when it is seen first.
        first = self._first.setdefault(event.who, event.sizes)
        for name, size in event.sizes.items():
            slack = SLACK.get(name, SLACK_OTHERWISE) + self._more(name)
            if size > first.get(name, 0) + slack:
                self.broken(event.at_ms, f"{event.who} has {size} {name}; at the beginning it had {first.get(name, 0)}")

    def _more(self, name: str) -> int:
        """Return by how much a table may have grown because of the workload."""
        if name == "connections":
            # Members that reply have a producer, too.
            later = [one.members * (one.replies + bool(one.joins_after_seconds)) for one in self.workload.groups]
            return sum(one.clients for one in self.workload.producers) + sum(later)
        if name == "queue locks":
            added = {topic.name: self._queues[topic.name] - topic.queues for topic in self.workload.topics}
            more = sum(added[topic] for group in self.workload.groups for topic in group.topics)
            return more + sum(self._locks(group) for group in self.workload.groups if group.joins_after_seconds)
        if name == "held pulls":  # In the beginning they may just have been answered.
            return sum(self._pulls(group) for group in self.workload.groups)
        return 0

    def _pulls(self, group: Group) -> int:
        """Return how many pulls of a group a broker may hold: one for each queue, and each member if it broadcasts."""
        return sum(self._queues[topic] for topic in group.topics) * (group.members if group.broadcasts else 1)

    def _locks(self, group: Group) -> int:
        """Return how many queues a group may lock at a broker, with that of its retries."""
        return 1 + sum(self._queues[topic] for topic in group.topics) if group.ordered else 0


class NothingUnnoticed(Checker):
    """Nothing crashes, no exception goes unnoticed, nothing is left over."""

    promise = "no process crashes, no exception is lost, no resource is left at the end"
    hears = (WentWrong,)

    def see(self, event: RunEvent) -> None:
        if isinstance(event, WentWrong):
            self.broken(event.at_ms, f"{event.who}: {event.words}")
