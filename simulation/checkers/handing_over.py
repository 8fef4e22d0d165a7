"""Members that leave gracefully hand over their progress."""

from math import inf
from typing import NamedTuple

from staticfire.simulation.checkers.checker import Checker
from staticfire.simulation.checkers.events import (
    CallBegan,
    CallEnded,
    FaultBegan,
    FaultEnded,
    ProcessBegan,
    ProcessEnded,
    QueuePlace,
    RunEvent,
)
from staticfire.simulation.checkers.unrest import MEMBERS_COME_AND_GO, SHARED_ANEW_MS, senders_of
from staticfire.simulation.workload.description import Workload

# How long it may take to send back a failed message: RocketMQ's 5 s for a send-back and 3 s for a send to the retry
# topic. Until then the message holds back the offset of its queue.
GIVEN_BACK_MS = 10_000


class _Held(NamedTuple):
    """A message that holds back the offset of its queue until this time."""

    offset: int
    until_ms: float


class HandsOver(Checker):
    """A member that leaves gracefully reports its offsets to the broker, so that the next owner begins there.

    A message that isn't done, or isn't sent back yet, holds back the offset: finished messages after it may be
    redelivered. All may be redelivered if the queue had just changed its owner (the former owner may report its own
    offset later), and if there was any fault other than members that come and go: requests may be lost, and a broker's
    offsets.
    """

    promise = (
        "a member that leaves properly hands over its offsets: consumed messages aren't delivered to the next owner"
    )
    hears = (CallBegan, CallEnded, FaultBegan, FaultEnded, ProcessBegan, ProcessEnded)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._members = {member: group.name for group in workload.groups for member in group.member_names}
        self._producers = frozenset(senders_of(workload))
        self._calls: dict[int, CallBegan] = {}
        self._owners: dict[tuple[str, QueuePlace], str] = {}
        self._next: dict[tuple[str, QueuePlace], int] = {}
        """The offset after the last finished message."""
        self._failed: dict[tuple[str, QueuePlace], list[_Held]] = {}
        self._changed_ms: dict[str, float] = {}
        """The last time at which a member joined or left a group, except the member that is leaving now."""
        self._leaving: dict[str, float] = {}
        """The members that are leaving, and when their group had changed before."""
        self._open: set[tuple[str, str]] = set()
        self._floors: dict[tuple[str, QueuePlace], tuple[int, str]] = {}

    def see(self, event: RunEvent) -> None:
        match event:
            case CallBegan(group=group) if not self.groups[group].popped:
                self._began(event)
            case CallEnded(call=call) if call in self._calls:
                self._ended(self._calls.pop(call), event)
            case FaultBegan(what=what, target=who) if what not in MEMBERS_COME_AND_GO and who not in self._producers:
                self._open.add((what, who))
                self._forget(event.at_ms)
            case FaultEnded(what=what, target=who) if (what, who) in self._open:
                self._open.discard((what, who))
                self._forget(event.at_ms)
            case ProcessBegan(at_ms, who) if who in self._members:
                self._changed_ms[self._members[who]] = at_ms
            case ProcessEnded(at_ms, who, how) if who in self._members:
                self._went(at_ms, who, how)
            case ProcessBegan(who=who) | ProcessEnded(who=who) if who not in self._producers:
                self._forget(event.at_ms)
            case _:
                pass

    def _forget(self, at_ms: int) -> None:
        """Ignore everything that was handed over before this time."""
        self._floors.clear()
        self._leaving.clear()
        self._changed_ms = dict.fromkeys(self.groups, at_ms)

    def _began(self, call: CallBegan) -> None:
        self._calls[call.call] = call
        key = call.group, call.place
        self._owners[key] = call.member
        floor, who = self._floors.get(key, (0, ""))
        offset = call.messages[0].offset
        if offset < floor:
            words = f"{call.member} got offset {offset} of {call.place}, where {who} has left {call.group} at {floor}"
            self.broken(call.at_ms, f"{words}, and nothing else happened")

    def _ended(self, began: CallBegan, ended: CallEnded) -> None:
        key, first, last = (began.group, began.place), began.messages[0].offset, began.messages[-1].offset
        if ended.is_success:
            self._next[key] = max(self._next.get(key, 0), last + 1)
            if key in self._failed:
                self._failed[key] = [one for one in self._failed[key] if not first <= one.offset <= last]
        else:
            until_ms = inf if self.groups[began.group].ordered else ended.at_ms + GIVEN_BACK_MS
            self._failed.setdefault(key, []).append(_Held(began.messages[0].offset, until_ms))

    def _went(self, at_ms: int, who: str, how: str) -> None:
        group = self._members[who]
        if how == "stopping":
            self._leaving[who] = self._changed_ms.get(group, 0)
        elif how == "stopped" and at_ms - self._leaving.pop(who, inf) > SHARED_ANEW_MS and not self._open:
            for key, owner in self._owners.items():
                if owner == who and key in self._next:
                    self._floors[key] = self._floor(key, at_ms), who
        self._changed_ms[group] = at_ms
        self._calls = {number: call for number, call in self._calls.items() if call.member != who or how == "stopping"}

    def _floor(self, key: tuple[str, QueuePlace], at_ms: int) -> int:
        """Return the offset below which nothing may be redelivered."""
        held = [_Held(call.messages[0].offset, inf) for call in self._calls.values() if (call.group, call.place) == key]
        held += self._failed.get(key, ())
        # Messages that have failed for good are done; what failed in an ordered group may have been finished since.
        return min([one.offset for one in held if one.until_ms > at_ms], default=self._next[key])
