"""Popped messages: no other member gets them before their time, and what is acknowledged in time isn't redelivered."""

from bisect import bisect_right
from collections import Counter, defaultdict
from math import inf
from typing import ClassVar, NamedTuple

from staticfire.simulation.checkers.checker import Checker
from staticfire.simulation.checkers.events import (
    CallBegan,
    CallEnded,
    FaultBegan,
    FaultEnded,
    MasterSeen,
    MessageFound,
    ProcessBegan,
    ProcessEnded,
    QueuePlace,
    RunEvent,
    Seen,
)
from staticfire.simulation.checkers.losses import FAILED_OVER, GONE, LOST_MORE
from staticfire.simulation.checkers.older_masters import OlderMasters
from staticfire.simulation.checkers.returning import ROUTE_MS
from staticfire.simulation.checkers.unrest import TroubledTimes
from staticfire.simulation.workload.description import Workload

# A listener that returns this shortly before the invisible time of its messages is over may be too late for them.
ACK_MS = 1_000


class _Popped(NamedTuple):
    """A message as a member got it."""

    member: str
    broker: str
    seen: Seen


class PoppedMessages(Checker):
    """The base of both promises about popped messages.

    A message whose send was retried is stored twice, and it is unknown which of the two was delivered. How often it is
    stored is known only at the end; until then a violation is a suspicion. Two copies on a broker that is gone by then
    are known by the places from which they were delivered.

    Another master may not know how far the group was. Then the message and its retry are two copies, too: it is known
    by a second delivery from the same place, popped after that master began. A call may begin much later: a listener
    that is busy is called with what was popped before.
    """

    hears: ClassVar[tuple[type[RunEvent], ...]] = (
        CallBegan, CallEnded, FaultBegan, FaultEnded, ProcessBegan, ProcessEnded, MessageFound,
    )  # fmt: skip

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._calls: dict[int, CallBegan] = {}
        self._suspicions: list[tuple[int, str, str]] = []
        self._copies: Counter[str] = Counter()
        self._delivered_from: defaultdict[str, set[tuple[QueuePlace, int, int]]] = defaultdict(set)
        """By message: places, each with the number of masters that the broker had had when the message was popped."""
        self._masters_ms: defaultdict[str, list[int]] = defaultdict(list)

    def see(self, event: RunEvent) -> None:
        match event:
            case CallBegan(call=call) if event.messages[0].popped_ms >= 0:
                self._calls[call] = event
                for seen in event.messages:
                    if not seen.is_retry:
                        masters = bisect_right(self._masters_ms[event.place[0]], seen.popped_ms)
                        self._delivered_from[seen.name].add((event.place, seen.offset, masters))
                    self.came(event, seen)
            case CallEnded(call=call) if call in self._calls:
                began = self._calls.pop(call)
                for seen in began.messages:
                    self.ended(began, seen, event)
            case MessageFound(name=name, place=(_, topic, _)) if not topic.startswith("%"):
                self._copies[name] += 1
            case _:
                if isinstance(event, ProcessEnded) and event.how == FAILED_OVER:
                    self._masters_ms[event.who].append(event.at_ms)
                self.went_on(event)

    def came(self, call: CallBegan, seen: Seen) -> None:
        """Called when a listener is called with a message."""

    def ended(self, call: CallBegan, seen: Seen, ended: CallEnded) -> None:
        """Called when the listener has returned."""

    def went_on(self, event: RunEvent) -> None:
        """Called for every other event, such as a fault that begins or ends."""

    def suspect(self, at_ms: int, seen: Seen, words: str) -> None:
        """Note a violation that is reported if the message is stored only once."""
        self._suspicions.append((at_ms, seen.name, words))

    def finish(self) -> None:
        for at_ms, name, words in self._suspicions:
            if max(self._copies[name], len(self._delivered_from[name])) <= 1:
                self.broken(at_ms, words)


class HeldUntilItsTime(PoppedMessages):
    """No other member gets a popped message before its invisible time is over.

    For a message that has failed, and for those of a member that leaves, another time counts: the first is delayed, the
    others are put back. What was popped during a fault of its broker or its member, or before it, is excused: the
    broker may have forgotten it.

    While a broker has no master, members can't pop, and pull from its slaves instead, as RocketMQ's do. Each of them
    pops again when it has another route, and first commits where it was: behind what others have popped meanwhile. The
    same happens if a broker has lost all copies of its data, also the mode of the group, until that is set again, and
    if a machine with a new disk takes itself for the master beside the present one.
    """

    promise = "a popped message is delivered to no other member before its invisible time ends"
    hears = (*PoppedMessages.hears, MasterSeen)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._held: dict[tuple[str, str, str], _Popped] = {}
        self._troubled_until_ms: dict[str, float] = {}
        self._open: Counter[str] = Counter()
        """The faults that continue, by machine."""
        self._gone_ms: dict[str, int] = {}
        self._lost_all_ms: float = inf
        """When a broker lost all copies first. Members ask any broker for the mode, for all brokers."""
        self._failed_over_ms: dict[str, int] = {}
        self._older_masters = OlderMasters()
        self._pulled_ms: dict[tuple[str, str], int] = {}
        """When a group that pops was last called with a message that it had pulled from a broker."""

    def came(self, call: CallBegan, seen: Seen) -> None:
        key = _key(call, seen)
        before = self._held.get(key)
        if before is None or seen.popped_ms > before.seen.popped_ms:  # Responses may arrive out of order.
            self._held[key] = _Popped(call.member, call.place[0], seen)
            if (
                before is not None
                and seen.popped_ms < before.seen.until_ms
                and not self._is_excused(call.group, before)
            ):
                words = (
                    f"{seen.name} was delivered to {call.member} at {seen.popped_ms} ms, and {before.member} had it "
                    f"in {call.group} until {before.seen.until_ms} ms"
                )
                self.suspect(call.at_ms, seen, words)

    def ended(self, call: CallBegan, seen: Seen, ended: CallEnded) -> None:
        if not ended.is_success:
            self._held.pop(_key(call, seen), None)

    def went_on(self, event: RunEvent) -> None:
        match event:
            case MasterSeen():
                self._older_masters.see(event)
            case FaultBegan(target=who):
                self._open[who] += 1
            case FaultEnded(at_ms, _, who):
                self._open[who] -= 1
                self._troubled_until_ms[who] = at_ms
            case ProcessBegan(at_ms, who) | ProcessEnded(at_ms, who):
                self._troubled_until_ms[who] = at_ms
                if isinstance(event, ProcessEnded) and event.how == LOST_MORE:
                    self._lost_all_ms = min(self._lost_all_ms, at_ms)
                if isinstance(event, ProcessEnded) and event.how in (GONE, FAILED_OVER):
                    (self._gone_ms if event.how == GONE else self._failed_over_ms)[who] = at_ms
            case CallBegan(at_ms=at_ms, group=group, place=(broker, _, _)):
                self._pulled_ms[group, broker] = at_ms
            case _:
                pass

    def _is_excused(self, group: str, taken: _Popped) -> bool:
        popped_ms, gone_ms = taken.seen.popped_ms, self._gone_ms.get(taken.broker)
        failed_over_ms = self._failed_over_ms.get(taken.broker, -ROUTE_MS)
        pulled_ms = self._pulled_ms.get((group, taken.broker), -1)
        if self._lost_all_ms <= pulled_ms and popped_ms <= pulled_ms + ROUTE_MS:
            return True
        if self._older_masters.were_beside(popped_ms, ROUTE_MS):
            return True
        was_pulled = gone_ms is not None and pulled_ms >= gone_ms
        return (was_pulled and popped_ms <= failed_over_ms + ROUTE_MS) or any(
            self._open[who] > 0 or self._troubled_until_ms.get(who, -1) >= popped_ms
            for who in (taken.member, taken.broker)
        )


class AcknowledgedForGood(PoppedMessages):
    """A message that a listener has consumed in time is acknowledged and not redelivered, unless there was a fault.

    A member learns of another master when it requests its routes again. Until then, its acknowledgements go to the old
    one, which is a slave meanwhile and refuses them.
    """

    promise = (
        "a message that was popped and consumed in time is redelivered only if a fault, a start or a leave explains it"
    )

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._times = TroubledTimes()
        self._done: dict[tuple[str, str, str], int] = {}
        self._failed_over_ms: dict[str, int] = {}

    def came(self, call: CallBegan, seen: Seen) -> None:
        done_ms = self._done.get(_key(call, seen))
        if done_ms is None or done_ms <= self._failed_over_ms.get(call.place[0], -ROUTE_MS) + ROUTE_MS:
            return
        if self._times.during(done_ms - ACK_MS, call.at_ms) is None:
            words = (
                f"{seen.name} was redelivered to {call.group}, by {call.member}, {call.at_ms - done_ms} ms after it "
                "was consumed in time, and nothing was broken"
            )
            self.suspect(call.at_ms, seen, words)

    def ended(self, call: CallBegan, seen: Seen, ended: CallEnded) -> None:
        if ended.is_success and ended.at_ms + ACK_MS < seen.until_ms:
            self._done[_key(call, seen)] = ended.at_ms

    def went_on(self, event: RunEvent) -> None:
        if isinstance(event, ProcessEnded) and event.how == FAILED_OVER:
            self._failed_over_ms[event.who] = event.at_ms
        self._times.see(event)


def _key(call: CallBegan, seen: Seen) -> tuple[str, str, str]:
    """Return the key of a message that is independent of its topic: a retry is in another topic of the same broker."""
    return call.group, call.place[0], seen.name
