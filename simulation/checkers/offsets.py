"""Offsets that groups have committed, and where who takes over a queue begins."""

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

CHANGING_HANDS_MS = 45_000
# Members share queues anew every 20 s, and tell their offsets every 5 s.
RESET = "reset offsets"
_MEMBERS_COME_AND_GO = ("kill member", "restart member")


class OffsetsGrow(Checker):
    """As long as a broker lives, no group goes back; and no group ever stands behind the end of a queue.

    A queue that changes hands is excused, in groups that take no locks: the new owner may have asked where to begin
    before the old one told how far it had come, and tells its own offsets from there on, as with RocketMQ. A
    loss of power makes a queue shorter than its readers know (rewinds.py): what they tell then is kept over a start.
    An administrator who resets a group's offsets sends it back on purpose, at once or when its members hear of it.
    """

    promise = "a group never goes back while its broker and its members stay, and never stands beyond what exists"
    hears = (OffsetSeen, CallBegan, FaultBegan, FaultEnded, ProcessBegan, ProcessEnded)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._last: dict[tuple[str, QueuePlace], OffsetSeen] = {}
        self._troubled = TroubledTimes()
        self._rewinds = Rewinds(workload)
        self._told_by_readers: dict[tuple[str, QueuePlace], int] = {}
        self._reset_until_ms: dict[str, float] = {}
        self._read: dict[tuple[str, QueuePlace], int] = {}
        """Behind what each group has read."""
        self._read_before: dict[tuple[str, QueuePlace], int] = {}
        """The same when the broker's last life but one ended: members may have told it unseen in its last."""
        self._read_last: dict[str, dict[tuple[str, QueuePlace], int]] = {}
        """The same when its last life ended, by brokers."""

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
            self._told_by_readers[key] = event.offset
            return
        if event.is_own and (self._told_by_readers.get(key) == event.offset or self._was_told_unseen(event)):
            return
        if event.offset > event.end:
            self.broken(
                event.at_ms, f"{event.group} stands at {event.offset} of {event.place}, which ends at {event.end}"
            )
        if before is None or before.life != event.life or event.offset >= before.offset:
            return
        if event.at_ms <= self._reset_until_ms.get(event.group, -1):
            return
        is_in_order = self.groups[event.group].ordered
        if is_in_order or self._troubled.during(event.at_ms - CHANGING_HANDS_MS, event.at_ms) is None:
            self.broken(event.at_ms, f"{event.group} went back from {before.offset} to {event.offset} of {event.place}")

    def _was_told_unseen(self, event: OffsetSeen) -> bool:
        key = event.group, event.place
        return self._rewinds.have_been(*key) and event.end < event.offset <= self._read_before.get(key, 0)


class OffsetsSaved(Checker):
    """A broker that stops in order knows after its start where each group stood.

    Unless something was broken there when it stopped: then the file may have failed to be written. What lay behind the
    end of its queue is taken back (rewinds.py).
    """

    promise = "a broker that stops in order has the offsets of all groups when it starts again"
    hears = (OffsetSeen, FaultBegan, FaultEnded, ProcessEnded)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._last: dict[tuple[str, QueuePlace], OffsetSeen] = {}
        self._open: dict[str, set[str]] = {name: set() for name in workload.brokers.names}
        self._is_sound: dict[str, bool] = {}
        """Whether the last end of a broker was in order, with nothing broken."""

    def see(self, event: RunEvent) -> None:
        match event:
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
        key = event.group, event.place
        before = self._last.get(key)
        self._last[key] = event
        if before is None or before.life == event.life or not event.is_own or before.offset > event.end:
            return
        if event.offset < before.offset and self._is_sound.get(event.place[0]) and event.life == before.life + 1:
            words = f"stood at {before.offset} of {event.place} when its broker stopped, and at {event.offset} after it"
            self.broken(event.at_ms, f"{event.group} {words} had started")


class BeginsWhereItStands(Checker):
    """Nobody gets what its group had left behind a while ago, on a broker that has been up since.

    Members that were frozen or cut off, or could not learn of each other, still have what others are through with: only
    where nothing else has happened than that members came and went is anything said.
    """

    promise = "who takes over a queue begins where its group stands, while members come and go and all else is well"
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
            case CallBegan(group=group) if not self.groups[group].popped:  # It moves on when they are handed out.
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
                f"{call.member} got offset {offset} of {call.place}, where {call.group} has stood at {least} for "
                f"{CHANGING_HANDS_MS // 1000} s",
            )
