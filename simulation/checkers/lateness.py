"""Nothing is late without a fault; in this module: messages that are delivered for the first time.

Each promise has an upper bound, made of RocketMQ's own intervals. The time counts from the moment at which everything
that the group needs works, including the time that RocketMQ needs to recover from faults (unrest.py: `CalmTimes`). If
listeners have no time for a message, it counts from when they have.
"""

from typing import ClassVar, NamedTuple

from staticfire.simulation.checkers.busy import BusyMembers
from staticfire.simulation.checkers.checker import Checker
from staticfire.simulation.checkers.events import (
    BroadcastReceived,
    CallBegan,
    CallEnded,
    FaultBegan,
    FaultEnded,
    GoneForGood,
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
from staticfire.simulation.checkers.filters import is_wanted
from staticfire.simulation.checkers.losses import FAILED_OVER, GONE, LOSING_FAULTS, Losses, takes_acknowledged
from staticfire.simulation.checkers.rewinds import Rewinds
from staticfire.simulation.checkers.unrest import CalmTimes
from staticfire.simulation.workload.description import SIMPLE, Brokers, Group, Workload

# A held pull is answered when a message arrives. The rest is for requests, and for pauses of flow control (50 ms).
ARRIVES_MS = 500
# RocketMQ: shortPollingTimeMills, the interval at which a broker looks for messages without long polling.
SHORT_POLLING_MS = 1_000
# RocketMQ: timerPrecisionMs. A message with a delivery time is handled as early as that.
TIMERS_SCAN_MS = 1_000
# A failed message is sent back within this time, also by a second attempt. Until then its retry may not be stored.
SENT_BACK_MS = 15_000
# A member that gets all messages has no busy threads if its listener takes at most this time.
BRIEF_MS = 50
# Programs with a simple consumer wait for this time at one topic of one broker, and then look at the next one.
AWAITS_MS = 4_000
TROUBLE = (FaultBegan, FaultEnded, GoneForGood, ProcessBegan, ProcessEnded)


class Waiting(NamedTuple):
    """Something that must be delivered to a group."""

    what: str
    due_ms: float
    place: QueuePlace | None = None
    """The queue in which it is stored, if that is known."""
    machines: tuple[str, ...] = ()
    """Machines on which it depends, in addition to its group's."""
    sent: SendAcknowledged | None = None
    """The response to its send, if it is a message that was sent, and not a retry."""
    began_ms: int = 0
    """When its send began, or when it failed."""


class Lateness(Checker):
    """The base of the checkers of lateness: what each group waits for, and whether it arrived in time.

    What a group waits for is checked when it arrives, just before a fault, and at the end. It is expected over the ends
    of brokers, except for what such an end may have destroyed (losses.py), or what members may pass over after that
    (rewinds.py): other checkers report whether it is lost.
    """

    hears: ClassVar[tuple[type[RunEvent], ...]] = (CallBegan, CallEnded, *TROUBLE, NotSettled, Settled)
    looks_ahead: ClassVar[bool] = True
    """Whether what hasn't arrived yet is checked; otherwise only what arrives."""

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        is_polled = workload.brokers.settings.get("long_polling_enable", True)
        self._arrives_ms = ARRIVES_MS + (0 if is_polled else SHORT_POLLING_MS)
        self.calm = CalmTimes(workload)
        self.busy = BusyMembers(workload)
        self._losses = Losses(workload)
        self._rewinds = Rewinds(workload)
        self._unreliable: set[str] = set()
        """Brokers one of whose disks has failed."""
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
            case FaultBegan() | FaultEnded() | GoneForGood() | ProcessBegan() | ProcessEnded():
                self._look(event)
                self.calm.see(event)
                self.busy.see(event)
                self._rewinds.see(event)
                self._note_losses(event)
            case NotSettled() | Settled():
                self._look(event)
                self._waiting = {name: {} for name in self.groups}
            case _:
                self.went_on(event)

    def came(self, call: CallBegan, seen: Seen) -> None:
        """Called when a listener is called with a message."""

    def ended(self, began: CallBegan, ended: CallEnded) -> None:
        """Called when the listener has returned."""

    def went_on(self, event: RunEvent) -> None:
        """Called for other events."""

    def queued_until(self, group: Group) -> float:
        """Return until when others were before what waits: where few are delivered at a time."""
        return 0

    def expect(self, group: str, key: object, waiting: Waiting) -> None:
        """Note that something must be delivered to a group."""
        self._waiting[group][key] = waiting

    def arrived(self, call: CallBegan | BroadcastReceived, key: object) -> None:
        """Note that it has arrived."""
        waiting = self._waiting[call.group].pop(key, None)
        if waiting is not None:
            self._check(self.groups[call.group], waiting, call.at_ms)

    def give_up(self, group: str, key: object) -> None:
        """Note that something may never be delivered to a group."""
        self._waiting[group].pop(key, None)

    def _note_losses(self, event: RunEvent) -> None:
        """Expect nothing more that a fault or an end may have destroyed."""
        brokers = self.workload.brokers
        if isinstance(event, FaultBegan) and event.what in LOSING_FAULTS:
            self._unreliable.add(brokers.set_of(event.target))
        elif isinstance(event, GoneForGood | ProcessEnded) and event.who in brokers.names:
            if isinstance(event, ProcessEnded):
                self._losses.see(event)
            for waiting in self._waiting.values():
                for key in [key for key, one in waiting.items() if self._may_be_lost(one, event)]:
                    del waiting[key]

    def _may_be_lost(self, waiting: Waiting, event: GoneForGood | ProcessEnded) -> bool:
        """Return whether the end of a broker may have destroyed something."""
        if waiting.place is not None and waiting.place[0] != event.who:
            return False
        if isinstance(event, GoneForGood) or event.who in self._unreliable:
            return True
        if waiting.sent is not None:
            return self._losses.may_have_taken(waiting.sent, waiting.began_ms)
        is_sent_back = waiting.began_ms < event.at_ms - SENT_BACK_MS
        is_replaced = event.how in (GONE, FAILED_OVER)
        return not is_sent_back or is_replaced or takes_acknowledged(event, self.workload.brokers)

    def _may_be_passed_over(self, group: Group, waiting: Waiting) -> bool:
        brokers = self.workload.brokers.names if waiting.place is None else waiting.place[:1]
        return any(self._rewinds.have_been(group.name, (broker, "", 0)) for broker in brokers)

    def _look(self, event: RunEvent) -> None:
        """Check what still waits. What is reported as late is removed."""
        for name, waiting in self._waiting.items() if self.looks_ahead else ():
            group = self.groups[name]
            if not isinstance(event, TROUBLE) or self.calm.concerns(event, group):
                late = [
                    key
                    for key, one in waiting.items()
                    if not self._may_be_passed_over(group, one) and self._check(group, one, event.at_ms)
                ]
                for key in late:
                    del waiting[key]

    def _check(self, group: Group, waiting: Waiting, at_ms: int) -> bool:
        """Return whether something is late now; report it."""
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
    """A message is delivered to each group at once when it is stored, due or committed.

    A delay is excused while all threads of a member are busy, while another message of its ordered queue is consumed,
    or while members have more messages of the queue than their threshold. A group that filters gets what matches. In a
    broadcasting group each member that is well gets each message; those with slow listeners aren't checked. A program
    that receives or polls consumes one call after the other.
    """

    promise = "each message is delivered to each group that is not busy within 0.5 s, or 1.5 s after it is due"
    hears = (*Lateness.hears, SendBegan, SendAcknowledged, TransactionEnded, BroadcastReceived)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._began: dict[str, SendBegan] = {}
        self._committed: set[str] = set()
        self._open: dict[str, SendAcknowledged] = {}
        self._came: set[tuple[str, object]] = set()
        """Groups and keys."""
        self._fellows = fellows_of(workload)
        self._broadcasting = {
            member: group.name for group in workload.groups if group.broadcasts for member in group.member_names
        }
        self._recalling = {one.program for one in workload.producers if getattr(one, "recalls", 0)}
        self._groups_of = {
            topic.name: [group for group in workload.groups if topic.name in group.topics and _is_prompt(group)]
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
            case BroadcastReceived(member=member, messages=messages):
                for seen in messages:
                    self._arrived(event, (member, seen.name))
            case _:
                pass

    def _stored(self, began: SendBegan, sent: SendAcknowledged, at_ms: int) -> None:
        # A delay counts from the time at which the message was stored.
        due_ms = began.due_ms + TIMERS_SCAN_MS + at_ms - began.at_ms if began.due_ms else at_ms
        machines = self._fellows.get(began.name.partition("/")[0], ()) if began.is_half else ()
        if began.name.partition("/")[0].rpartition("-")[0] in self._recalling:
            return  # It may have been recalled.
        for group in self._groups_of[began.topic]:
            takes_ms = _own_time_ms(group, self.workload.brokers)
            waiting = Waiting(began.name, due_ms + takes_ms, sent.place, machines, sent, began.at_ms)
            for key in self._keys(group, began):
                if (group.name, key) not in self._came:
                    self.expect(group.name, key, waiting)

    def _keys(self, group: Group, began: SendBegan) -> list[object]:
        """Return what must come: the message, or for each member that gets all messages its copy."""
        if not is_wanted(group, began):
            return []
        if not group.broadcasts:
            return [began.name]
        return [(member, began.name) for member in group.member_names if self.calm.is_well(member)]

    def see(self, event: RunEvent) -> None:
        super().see(event)
        who = getattr(event, "target", getattr(event, "who", ""))
        if isinstance(event, FaultBegan | ProcessEnded) and who in self._broadcasting:
            waiting = self._waiting[self._broadcasting[who]]
            for key in [key for key in waiting if isinstance(key, tuple) and key[0] == who]:
                del waiting[key]

    def came(self, call: CallBegan, seen: Seen) -> None:
        self._arrived(call, seen.name)

    def _arrived(self, call: CallBegan | BroadcastReceived, key: object) -> None:
        self._came.add((call.group, key))
        self.arrived(call, key)


def is_pushed(group: Group) -> bool:
    """Return whether a group has push consumers: programs with other consumers take their own time."""
    return getattr(group, "way", "push") == "push"


def _is_prompt(group: Group) -> bool:
    """Return whether a group takes its messages at once. When a broadcast call begins, nothing is recorded."""
    return not group.broadcasts or group.takes_ms[1] <= BRIEF_MS


def _own_time_ms(group: Group, brokers: Brokers) -> int:
    """Return how long members take by themselves for a message that has arrived."""
    if group.broadcasts:
        return group.takes_ms[1]
    return AWAITS_MS * len(brokers.names) * len(group.topics) if group.way == SIMPLE else 0


def fellows_of(workload: Workload) -> dict[str, tuple[str, ...]]:
    """Return, for each machine that sends, the machines that get its transaction checks: all of its program."""
    return {
        name: names
        for one in workload.producers
        for names in [tuple(f"{one.program}-{number + 1}" for number in range(one.clients))]
        for name in names
    }
