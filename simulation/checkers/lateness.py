"""That nothing is late while nothing is broken; here: messages that come for the first time.

Each promise has an upper bound, made of RocketMQ's own intervals. It counts from the time that all works which the
group needs, with the time that RocketMQ takes to get over what was broken (unrest.py: `CalmTimes`). Where listeners
have no time for a message, it counts from when they have.
"""

from typing import ClassVar, NamedTuple

from staticfire.simulation.checkers.busy import BusyMembers
from staticfire.simulation.checkers.checker import Checker
from staticfire.simulation.checkers.events import (
    CallBegan,
    CallEnded,
    FaultBegan,
    FaultEnded,
    NotSettled,
    ProcessBegan,
    ProcessEnded,
    QueuePlace,
    RunEvent,
    Seen,
    SendAcknowledged,
    SendBegan,
    Settled,
    TransactionEnded,
)
from staticfire.simulation.checkers.unrest import CalmTimes
from staticfire.simulation.workload.description import Group, Workload

ARRIVES_MS = 500
# A held pull is answered when a message arrives. The rest is for requests, and for pauses of flow control (50 ms).
SHORT_POLLING_MS = 1_000
# RocketMQ: shortPollingTimeMills. Without long polling a broker looks for messages so often.
TIMERS_SCAN_MS = 1_000
# RocketMQ: timerPrecisionMs.
TROUBLE = (FaultBegan, FaultEnded, ProcessBegan, ProcessEnded)


class Waiting(NamedTuple):
    """Something that has to come to a group."""

    what: str
    due_ms: float
    place: QueuePlace | None = None
    """Where it lies, if that is known."""
    machines: tuple[str, ...] = ()
    """Those that it depends on beside its group's."""


class Lateness(Checker):
    """What the checkers of lateness are made of: what each group waits for, and whether it came in time.

    Whatever waits is looked at when it comes, and just before something breaks.
    """

    hears: ClassVar[tuple[type[RunEvent], ...]] = (CallBegan, CallEnded, *TROUBLE, NotSettled, Settled)
    looks_ahead: ClassVar[bool] = True
    """Whether what hasn't come yet is looked at; else only what comes."""

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        is_polled = workload.brokers.settings.get("long_polling_enable", True)
        self._arrives_ms = ARRIVES_MS + (0 if is_polled else SHORT_POLLING_MS)
        self.calm = CalmTimes(workload)
        self.busy = BusyMembers(workload)
        self._waiting: dict[str, dict[object, Waiting]] = {name: {} for name in self.groups}

    def see(self, event: RunEvent) -> None:
        match event:
            case CallBegan():
                for seen in event.messages:
                    self.came(event, seen)
                self.busy.began(event)
            case CallEnded():
                began = self.busy.ended(event)
                if began is not None:
                    self.ended(began, event)
            case FaultBegan() | FaultEnded() | ProcessBegan() | ProcessEnded():
                self._look(event)
                self.calm.see(event)
                self.busy.see(event)
                if isinstance(event, ProcessEnded) and event.how not in ("stopping", "stopped"):
                    self._forget(event.who)
            case NotSettled() | Settled():
                # At rest nothing waits: what never came is lost, or was handed to a member that had no time for it.
                if isinstance(event, NotSettled):
                    self._look(event)
                self._waiting = {name: {} for name in self.groups}
            case _:
                self.went_on(event)

    def came(self, call: CallBegan, seen: Seen) -> None:
        """A listener is called with a message."""

    def ended(self, began: CallBegan, ended: CallEnded) -> None:
        """It has answered."""

    def went_on(self, event: RunEvent) -> None:
        """Something else has happened."""

    def queued_until(self, group: Group) -> float:
        """Return until when others were before what waits: where few are handed out at a time."""
        return 0

    def expect(self, group: str, key: object, waiting: Waiting) -> None:
        """Note that something has to come to a group."""
        self._waiting[group][key] = waiting

    def arrived(self, call: CallBegan, key: object) -> None:
        """Note that it came."""
        waiting = self._waiting[call.group].pop(key, None)
        if waiting is not None:
            self._check(self.groups[call.group], waiting, call.at_ms)

    def _forget(self, broker: str) -> None:
        """Expect nothing of what may be gone with a broker: others say whether it is."""
        if broker in self.workload.brokers.names:
            for waiting in self._waiting.values():
                for key in [key for key, one in waiting.items() if one.place is None or one.place[0] == broker]:
                    del waiting[key]

    def _look(self, event: RunEvent) -> None:
        """Look at what still waits; what has been told is forgotten."""
        for name, waiting in self._waiting.items() if self.looks_ahead else ():
            group = self.groups[name]
            if not isinstance(event, TROUBLE) or self.calm.concerns(event, group):
                late = [key for key, one in waiting.items() if self._check(group, one, event.at_ms)]
                for key in late:
                    del waiting[key]

    def _check(self, group: Group, waiting: Waiting, at_ms: int) -> bool:
        """Tell whether it is late now."""
        if at_ms <= waiting.due_ms + self._arrives_ms:
            return False
        from_ms = max(
            waiting.due_ms,
            self.calm.group_excused_until(group),
            self.calm.excused_until(waiting.machines),
            self.busy.until(group, waiting.place),
            self.queued_until(group),
        )
        if at_ms <= from_ms + self._arrives_ms:
            return False
        late_ms = round(at_ms - from_ms)
        self.broken(at_ms, f"{waiting.what} is {late_ms} ms late in {group.name}, and nothing was broken")
        return True


class ArrivesInTime(Lateness):
    """A message comes to each group at once: when it is stored, due or committed.

    It is excused while all threads of a member are busy, and while a message of its ordered queue is; groups that
    choose are not looked at.
    """

    promise = "a message comes to each group that has time for it within 0.5 s, or 1.5 s of the time that it is due"
    hears = (*Lateness.hears, SendBegan, SendAcknowledged, TransactionEnded)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._began: dict[str, SendBegan] = {}
        self._committed: set[str] = set()
        self._open: dict[str, SendAcknowledged] = {}
        self._came: set[tuple[str, str]] = set()
        self._fellows = fellows_of(workload)
        self._recalling = {one.program for one in workload.producers if getattr(one, "recalls", 0)}
        self._groups_of = {
            topic.name: [group.name for group in workload.groups if topic.name in group.topics and _takes_all(group)]
            for topic in workload.topics
        }

    def went_on(self, event: RunEvent) -> None:
        match event:
            case SendBegan(name=name):
                self._began[name] = event
            case SendAcknowledged(at_ms=at_ms, name=name):
                began = self._began[name]
                if not began.is_half or name in self._committed:
                    self._stored(began, event, at_ms)
                else:
                    self._open[name] = event
            case TransactionEnded(at_ms=at_ms, name=name, is_commit=True):
                self._committed.add(name)
                if name in self._open:
                    self._stored(self._began[name], self._open.pop(name), at_ms)
            case _:
                pass

    def _stored(self, began: SendBegan, sent: SendAcknowledged, at_ms: int) -> None:
        # A delay counts from when it was stored.
        due_ms = began.due_ms + TIMERS_SCAN_MS + at_ms - began.at_ms if began.due_ms else at_ms
        machines = self._fellows.get(began.name.partition("/")[0], ()) if began.is_half else ()
        if began.name.partition("/")[0].rpartition("-")[0] in self._recalling:
            return  # It may have been called back.
        for group in self._groups_of[began.topic]:
            if (group, began.name) not in self._came:
                self.expect(group, began.name, Waiting(began.name, due_ms, sent.place, machines))

    def came(self, call: CallBegan, seen: Seen) -> None:
        self._came.add((call.group, seen.name))
        self.arrived(call, seen.name)


def is_pushed(group: Group) -> bool:
    """Whether it consumes with push consumers: what drives itself takes its time."""
    return getattr(group, "way", "push") == "push"


def _takes_all(group: Group) -> bool:
    if group.broadcasts:
        return False  # Its calls are told in another way.
    return is_pushed(group) and group.expression == "*" and getattr(group, "condition", None) is None


def fellows_of(workload: Workload) -> dict[str, tuple[str, ...]]:
    """Return who is asked about the transactions of each machine that sends: all of its program."""
    return {
        name: names
        for one in workload.producers
        for names in [tuple(f"{one.program}-{number + 1}" for number in range(one.clients))]
        for name in names
    }
