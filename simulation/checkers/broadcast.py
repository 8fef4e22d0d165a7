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
from staticfire.simulation.checkers.unrest import MEMBERS_COME_AND_GO, TroubledTimes
from staticfire.simulation.workload.description import Workload

# RocketMQ: persistConsumerOffsetInterval, and the delay of MQClientInstance before the first time.
PERSISTS_MS, FIRST_PERSISTS_MS = 5_000, 10_000
# For the write itself, and for calls that have ended out of order.
PERSISTED_MS = 1_000


class ReachesEach(Checker):
    """Each member of a broadcasting group gets each message, and only once if there is no fault.

    A member keeps its own offsets in a file of its machine: after a kill it continues where that was last written, at
    most one interval before, unless it was frozen, an administrator has reset its group, or a queue became shorter. A
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
        members = [(member, group.settings) for group in self._groups for member in group.member_names]
        self._persists_ms = {
            member: int(settings.get("persist_interval_ms", PERSISTS_MS)) for member, settings in members
        }
        self._first_ms = {
            member: int(settings.get("persist_first_ms", FIRST_PERSISTS_MS)) for member, settings in members
        }
        self._began_ms: dict[str, int] = {}
        self._lives: dict[str, list[tuple[int, int]]] = {member: [] for member in self._persists_ms}
        """When each process of a member began and ended."""
        self._disturbed_ms: dict[str, int] = {}
        """When something else than an end happened last to a member's offsets; empty name: to those of all members."""

    def see(self, event: RunEvent) -> None:
        match event:
            case BroadcastReceived():
                self._received(event)
            case MessageFound(place=(_, topic, _)):
                self._found.setdefault(topic, []).append(event)
            case NotSettled():
                self._has_settled = False
            case ProcessBegan(at_ms=at_ms, who=who):
                self._began_ms[who] = at_ms
                self._up.add(who)
                self._went_on(event)
            case ProcessEnded(at_ms=at_ms, who=who):
                if who in self._lives:
                    self._lives[who].append((self._began_ms.get(who, 0), at_ms))
                if not self._found:  # All members are stopped after the messages were read.
                    self._up.discard(who)
                self._went_on(event)
            case FaultBegan(at_ms=at_ms, what=what, target=who) | FaultEnded(at_ms=at_ms, what=what, target=who):
                if what not in MEMBERS_COME_AND_GO and (who in self._lives or what == "reset offsets"):
                    self._disturbed_ms[who if who in self._lives else ""] = at_ms
                self._times.see(event)
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
            elif name == seen.name and self._was_written(event, before_ms):
                words = f"{name} was redelivered to {event.member}, although it was consumed at {before_ms} ms"
                self.broken(event.at_ms, f"{words}, and its offset must have been written before the member ended")
            got[event.place, seen.offset] = event.at_ms, seen.name

    def _was_written(self, event: BroadcastReceived, consumed_ms: int) -> bool:
        """Return whether a member must have written the offset of what it had consumed before it ended."""
        lives = (life for life in self._lives[event.member] if life[1] >= consumed_ms)
        began_ms, ended_ms = next(lives, (0, 0))
        written_ms = max(consumed_ms + self._persists_ms[event.member], began_ms + self._first_ms[event.member])
        disturbed_ms = max(self._disturbed_ms.get(event.member, -1), self._disturbed_ms.get("", -1))
        return (
            written_ms + PERSISTED_MS < ended_ms
            and disturbed_ms < consumed_ms
            and not self._rewinds.have_been(event.group, event.place)
        )

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
