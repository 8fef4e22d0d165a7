"""Committed offsets of groups, and where the new owner of a queue begins."""

from collections import deque

from staticfire.simulation.checkers.checker import Checker
from staticfire.simulation.checkers.events import (
    CallBegan,
    FaultBegan,
    FaultEnded,
    OffsetSeen,
    ProcessBegan,
    ProcessEnded,
    QueuePlace,
    RunEvent,
)
from staticfire.simulation.checkers.rewinds import Rewinds
from staticfire.simulation.checkers.unrest import TroubledTimes
from staticfire.simulation.workload.description import Workload

# Members rebalance every 20 s, and report their offsets every 5 s.
CHANGING_HANDS_MS = 45_000
RESET = "reset offsets"
_MEMBERS_COME_AND_GO = ("kill member", "restart member")


class OffsetsGrow(Checker):
    """While a broker runs, a group's offset never decreases; and it never exceeds the end of its queue.

    In groups without locks, a queue that changes its owner is excused: the new owner may have requested the offset
    before the former one reported its progress, and then reports its own offsets from there, as in RocketMQ. A power
    loss makes a queue shorter than its readers assume (rewinds.py): the offsets that they then report are kept over a
    start. An administrator's reset decreases offsets intentionally, at once or when its members are notified.
    """

    promise = (
        "while its broker and its members stay, a group's offsets never decrease, and they never exceed the end of the "
        "queue"
    )
    hears = (OffsetSeen, CallBegan, FaultBegan, FaultEnded, ProcessBegan, ProcessEnded)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._last: dict[tuple[str, QueuePlace], OffsetSeen] = {}
        self._troubled = TroubledTimes()
        self._rewinds = Rewinds(workload)
        self._committed_by_readers: dict[tuple[str, QueuePlace], int] = {}
        self._reset_until_ms: dict[str, float] = {}
        self._read: dict[tuple[str, QueuePlace], int] = {}
        """The offset after the last message that each group has read."""
        self._read_before: dict[tuple[str, QueuePlace], int] = {}
        """The same at the end of the broker's last process but one: members may have reported it unseen in the last."""
        self._read_last: dict[str, dict[tuple[str, QueuePlace], int]] = {}
        """The same at the end of a broker's last process, by broker."""

    def see(self, event: RunEvent) -> None:
        if isinstance(event, CallBegan):
            key = event.group, event.place
            self._read[key] = max(self._read.get(key, 0), event.messages[-1].offset + 1)
        elif isinstance(event, OffsetSeen):
            self._stands(event)
        else:
            self._troubled.see(event)
            self._rewinds.see(event)
            if isinstance(event, FaultBegan) and event.what == RESET:
                self._reset_until_ms[event.target] = float("inf")
            elif isinstance(event, FaultEnded) and event.what == RESET:
                self._reset_until_ms[event.target] = event.at_ms + CHANGING_HANDS_MS
            if isinstance(event, ProcessEnded):
                self._ended(event.who)

    def _ended(self, broker: str) -> None:
        self._read_before |= self._read_last.pop(broker, {})
        self._read_last[broker] = {key: offset for key, offset in self._read.items() if key[1][0] == broker}

    def _stands(self, event: OffsetSeen) -> None:
        key = event.group, event.place
        before = self._last.get(key)
        self._last[key] = event
        if not event.is_own and self._rewinds.matter(event.group, event.place, event.at_ms):
            self._committed_by_readers[key] = event.offset
            return
        if event.is_own and (self._committed_by_readers.get(key) == event.offset or self._was_committed_unseen(event)):
            return
        if event.offset > event.end:
            self.broken(event.at_ms, f"{event.group} is at {event.offset} of {event.place}, which ends at {event.end}")
        if before is None or before.life != event.life or event.offset >= before.offset:
            return
        if event.at_ms <= self._reset_until_ms.get(event.group, -1):
            return
        is_in_order = self.groups[event.group].ordered
        if is_in_order or self._troubled.during(event.at_ms - CHANGING_HANDS_MS, event.at_ms) is None:
            self.broken(event.at_ms, f"{event.group} went back from {before.offset} to {event.offset} of {event.place}")

    def _was_committed_unseen(self, event: OffsetSeen) -> bool:
        key = event.group, event.place
        return self._rewinds.have_been(*key) and event.end < event.offset <= self._read_before.get(key, 0)


class OffsetsSaved(Checker):
    """A broker that stops gracefully has the offsets of all groups after its start.

    Except if it had a fault when it stopped: then writing the file may have failed. Offsets after the end of their
    queue are set back (rewinds.py). What was seen before or during a reset by an administrator isn't what the broker
    has when it stops.
    """

    promise = "after an orderly stop and a restart, a broker has the offsets of all groups"
    hears = (OffsetSeen, FaultBegan, FaultEnded, ProcessEnded)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._last: dict[tuple[str, QueuePlace], OffsetSeen] = {}
        self._open: dict[str, set[str]] = {name: set() for name in workload.brokers.names}
        self._is_sound: dict[str, bool] = {}
        """Whether the last end of a broker was graceful and without a fault."""
        self._resets: set[str] = set()
        """Groups whose offsets are being reset."""

    def see(self, event: RunEvent) -> None:
        match event:
            case FaultBegan(what=what, target=group) if what == RESET:
                self._resets.add(group)
                self._last = {key: seen for key, seen in self._last.items() if key[0] != group}
            case FaultEnded(what=what, target=group) if what == RESET:
                self._resets.discard(group)
            case FaultBegan(what=what, target=who) if who in self._open and what != "restart broker":
                self._open[who].add(what)
                self._is_sound[who] = False
            case FaultEnded(what=what, target=who) if who in self._open:
                self._open[who].discard(what)
            case ProcessEnded(who=who, how=how) if who in self._open:
                self._is_sound[who] = how in ("stopping", "stopped") and not self._open[who]
            case OffsetSeen():
                self._check(event)
            case _:
                pass

    def _check(self, event: OffsetSeen) -> None:
        if event.group in self._resets:
            return
        key = event.group, event.place
        before = self._last.get(key)
        self._last[key] = event
        if before is None or before.life == event.life or not event.is_own or before.offset > event.end:
            return
        if event.offset < before.offset and self._is_sound.get(event.place[0]) and event.life == before.life + 1:
            words = f"was at {before.offset} of {event.place} when its broker stopped, and at {event.offset} after it"
            self.broken(event.at_ms, f"{event.group} {words} had started")


class BeginsWhereItStands(Checker):
    """No member gets messages that its group has passed a while ago, on a broker that has been running since.

    Members that were frozen or isolated, or couldn't see each other, still have messages that others have finished. So
    this is checked only if nothing else has happened than members that came and went.
    """

    promise = (
        "the new owner of a queue begins at the group's offset, if there are no faults except joining and leaving "
        "members"
    )
    hears = (OffsetSeen, CallBegan, FaultBegan, FaultEnded, ProcessBegan, ProcessEnded)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._stood: dict[tuple[str, QueuePlace], deque[OffsetSeen]] = {}
        self._brokers = workload.brokers.names
        self._ended: set[str] = set()
        self._troubled = TroubledTimes()

    def see(self, event: RunEvent) -> None:
        match event:
            case OffsetSeen(group=group, place=place):
                stood = self._stood.setdefault((group, place), deque())
                if stood and stood[-1].life != event.life:
                    stood.clear()
                stood.append(event)
            # With POP, the offset moves when messages are delivered.
            case CallBegan(group=group) if not self.groups[group].popped:
                self._began(event)
            case FaultBegan(what=what) | FaultEnded(what=what) if what not in _MEMBERS_COME_AND_GO:
                self._troubled.see(event)
            case ProcessEnded(who=who) if who in self._brokers:
                self._ended.add(who)
                self._troubled.see(event)
            case ProcessBegan(who=who) if who in self._ended:
                self._troubled.see(event)
            case _:
                pass

    def _began(self, call: CallBegan) -> None:
        stood, then_ms = self._stood.get((call.group, call.place)), call.at_ms - CHANGING_HANDS_MS
        while stood and len(stood) > 1 and stood[1].at_ms <= then_ms:
            stood.popleft()
        if not stood or stood[0].at_ms > then_ms or call.messages[0].offset >= stood[0].offset:
            return
        if self._troubled.cause(call.at_ms, call.at_ms) is not None:
            return
        offset, least = call.messages[0].offset, min(seen.offset for seen in stood)
        if offset < least:
            self.broken(
                call.at_ms,
                f"{call.member} got offset {offset} of {call.place}, where {call.group} has been at {least} for "
                f"{CHANGING_HANDS_MS // 1000} s",
            )
