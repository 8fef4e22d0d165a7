"""Groups in which each member gets all messages."""

from staticfire.simulation.checkers.checker import Checker
from staticfire.simulation.checkers.events import (
    BroadcastReceived,
    FaultBegan,
    FaultEnded,
    MessageFound,
    NotSettled,
    ProcessBegan,
    ProcessEnded,
    QueuePlace,
    RunEvent,
)
from staticfire.simulation.checkers.rewinds import Rewinds
from staticfire.simulation.checkers.unrest import TroubledTimes
from staticfire.simulation.workload.description import Workload


class ReachesEach(Checker):
    """Each member of a broadcasting group gets each message, and only once if there is no fault.

    A member keeps its own offsets in a file of its machine: after a kill it continues where that was last written. A
    broker's power loss makes offsets available again; a member that was running then may skip the new messages at them
    (rewinds.py). If a run doesn't settle, missing messages aren't reported; Settles does that.
    """

    promise = "in a broadcasting group, each running member gets each message"
    hears = (
        BroadcastReceived, MessageFound, NotSettled, FaultBegan, FaultEnded, ProcessBegan, ProcessEnded,
    )  # fmt: skip

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._groups = [group for group in workload.groups if group.broadcasts]
        self._got: dict[str, dict[tuple[QueuePlace, int], tuple[int, str]]] = {}
        self._found: dict[str, list[MessageFound]] = {}
        self._up: set[str] = set()
        self._has_settled = True
        self._times = TroubledTimes()
        self._rewinds = Rewinds(workload)

    def see(self, event: RunEvent) -> None:
        match event:
            case BroadcastReceived():
                self._received(event)
            case MessageFound(place=(_, topic, _)):
                self._found.setdefault(topic, []).append(event)
            case NotSettled():
                self._has_settled = False
            case ProcessBegan(who=who):
                self._up.add(who)
                self._went_on(event)
            case ProcessEnded(who=who):
                if not self._found:  # All members are stopped after the messages were read.
                    self._up.discard(who)
                self._went_on(event)
            case _:
                self._times.see(event)

    def _went_on(self, event: RunEvent) -> None:
        self._times.see(event)
        self._rewinds.see(event)

    def _received(self, event: BroadcastReceived) -> None:
        got = self._got.setdefault(event.member, {})
        for seen in event.messages:
            before_ms, name = got.get((event.place, seen.offset), (0, ""))
            if name == seen.name and self._times.cause(before_ms, event.at_ms) is None:
                words = f"{name} was redelivered to {event.member}, {event.at_ms - before_ms} ms after it was consumed"
                self.broken(event.at_ms, f"{words}, and nothing was broken")
            got[event.place, seen.offset] = event.at_ms, seen.name

    def finish(self) -> None:
        for group in self._groups if self._has_settled else ():
            for member in group.member_names:
                for topic in group.topics if member in self._up else ():
                    for found in self._found.get(topic, ()):
                        self._check(group.name, member, found)

    def _check(self, group: str, member: str, found: MessageFound) -> None:
        _, name = self._got.get(member, {}).get((found.place, found.offset), (0, ""))
        if name == found.name or (name and self._rewinds.have_been(group, found.place)):
            return
        self.broken(
            found.at_ms, f"{found.name}, at offset {found.offset} of {found.place}, was never delivered to {member}"
        )
