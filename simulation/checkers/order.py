"""Order in a queue, and one owner at a time."""

from itertools import pairwise

from staticfire.simulation.checkers.checker import Checker
from staticfire.simulation.checkers.events import (
    CallBegan,
    CallEnded,
    FaultBegan,
    FaultEnded,
    LocksSeen,
    OwnersSeen,
    ProcessBegan,
    ProcessEnded,
    QueuePlace,
    RunEvent,
)
from staticfire.simulation.checkers.unrest import CalmTimes
from staticfire.simulation.workload.description import Workload

# A member checks its lock just before each call. It may have done so this long before it is well again.
THAWING_MS = 1_000
# RocketMQ: rocketmq.client.rebalance.lockMaxLiveTime. A member uses a lock for so long after it has renewed it.
LOCK_USED_MS = 30_000
_EXCUSING = ("freeze member", "isolate member", "cut", "cut one way")


class InOrder(Checker):
    """An ordered group gets the messages of a queue in order: none before all earlier ones are done."""

    promise = "an ordered group skips no message of a queue that isn't consumed"
    hears = (
        CallBegan,
        CallEnded,
        FaultBegan,
    )

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._next: dict[tuple[str, QueuePlace], int] = {}
        self._calls: dict[int, CallBegan] = {}
        self._damaged: set[str] = set()

    def see(self, event: RunEvent) -> None:
        match event:
            case CallBegan(call=call, is_ordered=True):
                self._calls[call] = event
                self._began(event)
            case CallEnded(call=call, is_success=is_success):
                began = self._calls.pop(call, None)
                if began is not None and (is_success or self._is_given_up(began)):
                    at = (began.group, began.place)
                    self._next[at] = max(self._next.get(at, 0), began.messages[-1].offset + 1)
            case FaultBegan(
                what="failing syncs" | "failing writes" | "failing reads" | "misdirected reads", target=broker
            ):
                self._damaged.add(broker)  # It may have gaps from now on, which it reports in its log.
            case _:
                pass

    def _is_given_up(self, began: CallBegan) -> bool:
        retries_max = self.groups[began.group].retries_max
        return retries_max >= 0 and any(seen.reconsume_times >= retries_max for seen in began.messages)

    def _began(self, call: CallBegan) -> None:
        offsets = [seen.offset for seen in call.messages]
        expected = self._next.get((call.group, call.place), 0)
        is_gapless = all(later == earlier + 1 for earlier, later in pairwise(offsets))
        if (offsets[0] > expected or not is_gapless) and call.place[0] not in self._damaged:
            self.broken(call.at_ms, f"{call.member} got {offsets} of {call.place} instead of {expected}")


class OneOwner(Checker):
    """No two members of an ordered group work on a queue at the same time.

    A call of a member that is frozen, or can't be notified that its lock is over, is excused: no lock can stop it. A
    call that begins when the member is well again isn't excused: a member checks its lock before each call, and counts
    the lock's time from its request. Locks are in the memory of a broker: another process doesn't know them, and may
    give a queue to a second member while the first one still uses its lock.
    """

    promise = "no two members of an ordered group work on one queue at once"
    hears = (
        CallBegan,
        CallEnded,
        ProcessBegan,
        ProcessEnded,
        FaultBegan,
        FaultEnded,
    )

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._running: dict[tuple[str, QueuePlace], CallBegan] = {}
        self._places: dict[int, tuple[str, QueuePlace]] = {}
        self._excused_until_ms: dict[str, float] = {}
        self._ended: set[str] = set()
        self._restarted_ms: dict[str, int] = {}

    def see(self, event: RunEvent) -> None:
        match event:
            case CallBegan(call=call, is_ordered=True):
                self._began(event)
            case ProcessBegan(at_ms=at_ms, who=who) if who in self._ended:
                self._restarted_ms[who] = at_ms
            case CallEnded(call=call):
                at = self._places.pop(call, None)
                if at is not None and self._running.get(at) is not None and self._running[at].call == call:
                    del self._running[at]
            case ProcessEnded(who=who):
                self._ended.add(who)
                self._running = {at: call for at, call in self._running.items() if call.member != who}
            case FaultBegan(what=what, target=who) if what in _EXCUSING:
                self._excused_until_ms[who] = float("inf")
            case FaultEnded(at_ms=at_ms, what=what, target=who) if what in _EXCUSING:
                self._excused_until_ms[who] = at_ms + THAWING_MS
            case _:
                pass

    def _began(self, call: CallBegan) -> None:
        at = (call.group, call.place)
        other = self._running.get(at)
        is_known = call.at_ms > self._restarted_ms.get(call.place[0], -LOCK_USED_MS) + LOCK_USED_MS
        if other is not None and is_known and not self._is_excused(call) and not self._is_excused(other):
            self.broken(call.at_ms, f"{call.member} and {other.member} work on {call.place} at once")
        self._running[at] = call
        self._places[call.call] = at

    def _is_excused(self, call: CallBegan) -> bool:
        return call.at_ms <= self._excused_until_ms.get(call.member, -1)


class LocksHeld(Checker):
    """A member that works on a queue in order holds the queue's lock at the broker.

    A member unlocks a queue when its listener has ended; no other member can. Excused are members that are frozen or
    isolated, and all members if the broker has a fault or has started shortly before: they may continue with locks that
    have expired or are forgotten. So may a member that leaves, because it waits for its listeners only for a limited
    time.
    """

    promise = "a member that works on a queue of an ordered group holds its lock at the broker"
    hears = (CallBegan, CallEnded, LocksSeen, FaultBegan, FaultEnded, ProcessBegan, ProcessEnded)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._calm = CalmTimes(workload)
        self._running: dict[int, CallBegan] = {}

    def see(self, event: RunEvent) -> None:
        match event:
            case CallBegan(call=call, is_ordered=True):
                self._running[call] = event
            case CallEnded(call=call):
                self._running.pop(call, None)
            case LocksSeen():
                self._check(event)
            case ProcessEnded(who=who):
                self._running = {number: call for number, call in self._running.items() if call.member != who}
                self._calm.see(event)
            case _:
                self._calm.see(event)

    def _check(self, seen: LocksSeen) -> None:
        for call in self._running.values():
            broker, topic, queue_id = call.place
            holder = seen.holders.get((topic, queue_id), "nobody")
            if (broker, call.group) != (seen.broker, seen.group) or holder == call.member:
                continue
            until_ms = self._calm.excused_until((broker, call.member, "nameserver", ""))
            if self._calm.is_well(call.member) and seen.at_ms > until_ms:
                self.broken(seen.at_ms, f"{call.member} works on {call.place}, whose lock {holder} holds")


class OwnersAgree(Checker):
    """At rest, each queue has one owner in each group."""

    promise = "at rest, each queue has exactly one owner in each group"
    hears = (OwnersSeen,)

    def see(self, event: RunEvent) -> None:
        match event:
            case OwnersSeen(at_ms, group, owners):
                for place, members in owners.items():
                    if len(members) != 1:
                        words = " and ".join(members) or "nobody"
                        self.broken(at_ms, f"{place} belongs to {words} in {group}")
            case _:
                pass
