"""Topics of a broker with slaves: what was acknowledged to an administrator is there after a failover."""

from staticfire.simulation.checkers.checker import Checker
from staticfire.simulation.checkers.events import (
    FaultBegan,
    FaultEnded,
    NotSettled,
    ProcessEnded,
    RunEvent,
    TopicChanged,
    TopicsSeen,
)
from staticfire.simulation.checkers.losses import LOST_MORE
from staticfire.simulation.workload.description import Workload

CHANGES = "change topics"
# A slave that isn't in sync any more, or a new master without slaves, is noticed within this time.
NOTICED_MS = 250


class TopicsKept(Checker):
    """What an administrator created is there at the end, with its queues, and what he deleted isn't.

    As for messages: if as many machines have lost data as have a message, topics may be lost. And unlike a send, a
    change of a topic is acknowledged after slaveTimeout although too few slaves have it. So only those count that were
    acknowledged while nothing else was broken.
    """

    promise = "with inSyncReplicas=2, a topic that was created, changed or deleted remains so, whatever machine is lost"
    hears = (FaultBegan, FaultEnded, ProcessEnded, TopicChanged, TopicsSeen, NotSettled)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._is_checked = workload.brokers.copies_awaited > 1
        self._known: dict[tuple[str, str], TopicChanged] = {}
        self._open: dict[str, int] = {}
        """The number of faults by broker; of all links: by the empty name."""
        self._troubled_ms: dict[str, int] = {}
        """When the last of them began or ended."""
        self._has_settled = True

    def see(self, event: RunEvent) -> None:
        match event:
            case FaultBegan(at_ms=at_ms, what=what, target=target) if what != CHANGES:
                self._note_trouble(at_ms, target, 1)
            case FaultEnded(at_ms=at_ms, what=what, target=target) if what != CHANGES:
                self._note_trouble(at_ms, target, -1)
            case ProcessEnded(at_ms=at_ms, who=who, how=how):
                self._note_trouble(at_ms, who, 0)
                if how == LOST_MORE:
                    self._known = {place: one for place, one in self._known.items() if place[0] != who}
            case TopicChanged() if self._is_checked:
                self._note(event)
            case NotSettled():
                self._has_settled = False
            case TopicsSeen() if self._has_settled:
                self._compare(event)
            case _:
                pass

    def _note_trouble(self, at_ms: int, target: str, more: int) -> None:
        where = self.workload.brokers.set_of(target)
        self._open[where] = max(0, self._open.get(where, 0) + more)
        self._troubled_ms[where] = at_ms

    def _note(self, event: TopicChanged) -> None:
        places = (event.broker, "")
        is_calm = not any(
            self._open.get(where) or self._troubled_ms.get(where, -NOTICED_MS) >= event.began_ms - NOTICED_MS
            for where in places
        )
        if event.is_acknowledged and is_calm:
            self._known[event.broker, event.topic] = event
        else:
            self._known.pop((event.broker, event.topic), None)

    def _compare(self, event: TopicsSeen) -> None:
        for (broker, topic), last in self._known.items():
            queues = event.queues.get(topic, 0)
            if broker == event.broker and queues != last.queues:
                words = f"{broker} acknowledged {topic} with {last.queues} queues, and it has {queues} at the end"
                self.broken(last.at_ms, words)
