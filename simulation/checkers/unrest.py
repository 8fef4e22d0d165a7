"""The times of faults: which of them excuse a duplicate or a delay, and which don't."""

from bisect import bisect_left
from collections.abc import Iterable
from math import inf

from staticfire.simulation.checkers.events import (
    FaultBegan,
    FaultEnded,
    GoneForGood,
    ProcessBegan,
    ProcessEnded,
    RunEvent,
)
from staticfire.simulation.workload.description import Group, Workload

# A group notices a dead member after 120 s, and a dead lock after 60 s.
AFTERMATH_MS = 150_000


class TroubledTimes:
    """The moments at which faults and processes began or ended, and the times of the faults."""

    def __init__(self) -> None:
        self._moments: list[tuple[int, str]] = []
        self._open: dict[tuple[str, str], int] = {}
        self._times: list[tuple[int, int, str]] = []

    def see(self, event: RunEvent) -> None:
        match event:
            case FaultBegan(at_ms, what, target):
                self._open[what, target] = at_ms
                self._moments.append((at_ms, f"{what} {target}".rstrip()))
            case FaultEnded(at_ms, what, target):
                words = f"{what} {target}".rstrip()
                self._times.append((self._open.pop((what, target), at_ms), at_ms, words))
                self._moments.append((at_ms, f"end of {words}"))
            case ProcessBegan(at_ms, who):
                self._moments.append((at_ms, f"start of {who}"))
            case ProcessEnded(at_ms, who, how):
                self._moments.append((at_ms, f"{who} {how}"))
            case _:
                pass

    def cause(self, from_ms: int, to_ms: int) -> str | None:
        """Return what can explain that something from the first time is repeated at the second; None: nothing.

        `to_ms`: now.
        """
        if self._open:
            return next(f"{what} {target}" for what, target in self._open)
        return self._moment(from_ms - AFTERMATH_MS, to_ms)

    def during(self, from_ms: int, to_ms: int) -> str | None:
        """Return what was broken at any moment between two times; None: nothing."""
        for begin_ms, end_ms, words in self._times:
            if begin_ms <= to_ms and from_ms <= end_ms:
                return words
        still_open = (words for (words, _), begin_ms in self._open.items() if begin_ms <= to_ms)
        return next(still_open, None) or self._moment(from_ms, to_ms)

    def _moment(self, from_ms: int, to_ms: int) -> str | None:
        at = bisect_left(self._moments, (from_ms, ""))
        return self._moments[at][1] if at < len(self._moments) and self._moments[at][0] <= to_ms else None


def senders_of(workload: Workload) -> list[str]:
    """Return the machines that send."""
    return [f"{one.program}-{number + 1}" for one in workload.producers for number in range(one.clients)]


class GroupTroubles:
    """The same for each group: the faults of its members, the servers and the links.

    Producers and members of other groups have none of its offsets, so their faults explain nothing. In a group that
    takes locks, neither do members that join and leave gracefully: the former owner stores a queue's offset before it
    unlocks the queue, and the new owner requests the offset after it has the lock.
    """

    def __init__(self, workload: Workload) -> None:
        self._times = {group.name: TroubledTimes() for group in workload.groups}
        self._senders = frozenset(senders_of(workload))
        self._groups = {member: group for group in workload.groups for member in group.member_names}
        self._killed: set[str] = set()

    def see(self, event: RunEvent) -> None:
        match event:
            case FaultBegan(what=what, target=who) | FaultEnded(what=what, target=who):
                is_orderly = what == "restart member"
            case ProcessEnded(who=who, how=how):
                is_orderly = how in ("stopping", "stopped")
                if not is_orderly:
                    self._killed.add(who)
            case ProcessBegan(who=who):
                is_orderly = who not in self._killed
                self._killed.discard(who)
            case _:
                return
        if who in self._groups:
            if not (is_orderly and self._groups[who].ordered):
                self._times[self._groups[who].name].see(event)
        elif who not in self._senders:
            for times in self._times.values():
                times.see(event)

    def of(self, group: str) -> TroubledTimes:
        """Return the times of the faults that affect a group."""
        return self._times[group]


# RocketMQ: rocketmq.client.rebalance.waitInterval. Members that miss a notification rebalance after this time.
REBALANCE_MS = 20_000
# The time after a graceful join or leave: one round in which the former owner gives up a queue, one for the new owner,
# whose lock was refused before, and the requests of both.
SHARED_ANEW_MS = 2 * REBALANCE_MS + 5_000
# The same if brokers notify members, which then rebalance at once. The rest is for listeners that must end first.
NOTIFIED_MS = 5_000
# RocketMQ: rocketmq.broker.rebalance.lockMaxLiveTime. A member that was killed doesn't unlock its queues.
LOCK_LIFE_MS = 60_000
# RocketMQ: popInvisibleTime.
POP_INVISIBLE_MS = 60_000
# RocketMQ: a scan every 10 s removes clients that have sent no heartbeat for 120 s.
MEMBER_EXPIRES_MS = 120_000 + 10_000
# These faults are ignored, because the ends and starts of their processes are reported, too, with more details.
MEMBERS_COME_AND_GO = ("kill member", "restart member")
SILENCING = ("freeze member", "isolate member")


def _popped_ms(group: Group | None) -> int:
    """Return for how long a member that died may have messages that it has popped, and that no listener was given."""
    if group is None or not group.popped:
        return 0
    return int(group.settings.get("pop_invisible_time_ms", POP_INVISIBLE_MS))


class CalmTimes:
    """Since when everything that a group needs has worked, with the time in which RocketMQ recovers from a fault.

    A machine excuses a delay while it has a fault, and for a while after it; the empty name means all links. A broker
    that is gone for good excuses nothing after such a while: clients must use the others. A member that was frozen or
    isolated for good excuses nothing from the time when it must have been removed from its group.
    """

    def __init__(self, workload: Workload) -> None:
        self._brokers = frozenset(workload.brokers.names)
        self._members = {member: group for group in workload.groups for member in group.member_names}
        is_notified = workload.brokers.settings.get("notify_consumer_ids_changed_enable", True)
        self._shared_ms = NOTIFIED_MS if is_notified else SHARED_ANEW_MS
        self._until_ms: dict[str, float] = {}
        self._open: dict[str, dict[str, float]] = {}
        """Faults that continue, by machine, and the time until which each is an excuse at most."""
        self._had_begun: set[str] = set()
        self._gone: set[str] = set()
        self._up: set[str] = set()
        self._servers = (*workload.brokers.names, "nameserver", "")
        self._machines = frozenset((*self._servers, *self._members, *senders_of(workload)))

    def see(self, event: RunEvent) -> None:
        match event:
            case FaultBegan(what=what) | FaultEnded(what=what) if what in MEMBERS_COME_AND_GO:
                pass
            case FaultBegan(at_ms, what, target):
                is_silent = what in SILENCING and target in self._members
                until_ms = at_ms + MEMBER_EXPIRES_MS + SHARED_ANEW_MS if is_silent else inf
                self._open.setdefault(self._machine(target), {})[what] = until_ms
            case FaultEnded(at_ms, what, target):
                self._open.get(self._machine(target), {}).pop(what, None)
                self._excuse(self._machine(target), at_ms + AFTERMATH_MS)
            case ProcessBegan(at_ms, who):
                self._open.get(who, {}).pop("gone", None)
                if who not in self._brokers:
                    self._excuse(who, at_ms + self._shared_ms)
                elif who in self._had_begun:
                    self._excuse(who, at_ms + AFTERMATH_MS)
                self._had_begun.add(who)
                self._up.add(who)
            case ProcessEnded(at_ms, who, how):
                self._ended(at_ms, who, how)
            case GoneForGood(who=who):
                self._gone.add(who)
            case _:
                pass

    def _machine(self, target: str) -> str:
        """Return the machine of a fault. A fault of a topic or a group is everywhere."""
        return target if target in self._machines else ""

    def _ended(self, at_ms: int, who: str, how: str) -> None:
        self._up.discard(who)
        if who in self._gone and who in self._brokers:
            self._excuse(who, at_ms + AFTERMATH_MS)
        elif who in self._brokers:
            self._open.setdefault(who, {})["gone"] = inf
        else:
            group = self._members.get(who)
            is_locking = group is not None and group.ordered and how == "killed"
            is_orderly = how in ("stopping", "stopped")
            shared_ms = self._shared_ms if is_orderly else SHARED_ANEW_MS + _popped_ms(group)
            self._excuse(who, at_ms + shared_ms + (LOCK_LIFE_MS if is_locking else 0))

    def _excuse(self, who: str, until_ms: float) -> None:
        self._until_ms[who] = max(self._until_ms.get(who, 0), until_ms)

    def excused_until(self, machines: Iterable[str]) -> float:
        """Return until when faults of these machines excuse a delay; infinity: as long as they continue."""
        until_ms = 0.0
        for machine in machines:
            until_ms = max(until_ms, self._until_ms.get(machine, 0), *self._open.get(machine, {}).values())
        return until_ms

    def is_well(self, machine: str) -> bool:
        """Return whether a machine's process is running without a fault."""
        return machine in self._up and not self._open.get(machine)

    def group_excused_until(self, group: Group) -> float:
        """Return the same for everything that a group needs: its members (one of them well), the servers and links."""
        is_any_well = any(map(self.is_well, group.member_names))
        return self.excused_until((*group.member_names, *self._servers)) if is_any_well else inf

    def concerns(self, event: RunEvent, group: Group) -> bool:
        """Return whether an event is about something that a group needs."""
        who = getattr(event, "target", getattr(event, "who", None))
        return who not in self._machines or who in self._servers or who in group.member_names
