"""Actions of administrators: what they forbid doesn't happen, and what they reset is redelivered."""

from staticfire.simulation.checkers.checker import Checker
from staticfire.simulation.checkers.events import (
    CallBegan,
    CallEnded,
    FaultBegan,
    FaultEnded,
    NotSettled,
    OffsetsReset,
    PermissionRestored,
    PermissionWithdrawn,
    ProcessBegan,
    ProcessEnded,
    QueuePlace,
    RunEvent,
    SendAcknowledged,
    SendBegan,
)
from staticfire.simulation.checkers.losses import FAILED_OVER, LOST_MORE
from staticfire.simulation.checkers.unrest import TroubledTimes, senders_of
from staticfire.simulation.workload.description import Workload
from staticfire.simulation.workload.strikes import ADMINISTRATION

# Clients request routes every 30 s, and a waiting send may have begun before.
ROUTES_KNOWN_MS = 40_000
# A reset is carried out by brokers and members together. Members are notified within the time of a rebalance, and a
# fault until then may prevent it.
AROUND_RESET_MS = 60_000
# Times of events are rounded.
ROUNDED_MS = 2


KEEPS_FROM_READING = ("forbid reading", "fewer read queues", "switch off group")
# What an administrator does to a topic or a group so that a member may not read what its offsets were reset to.


class ForbiddenKept(Checker):
    """Nothing is stored in a topic that isn't writable, and nothing new is consumed where that is forbidden.

    A message is new if its send began after all brokers had confirmed; what was pulled before may still be consumed. As
    in RocketMQ, brokers accept sends to a topic that isn't writable: producers must see that in the routes, which they
    request every 30 s. A fault or a start that prevents this is an excuse. A new master has the topics and groups of
    its last copy, so what was forbidden before it took over may be allowed again.
    """

    promise = "forbidden operations don't happen until an administrator allows them again"
    hears = (
        PermissionWithdrawn, PermissionRestored, SendBegan, SendAcknowledged, CallBegan, FaultBegan, FaultEnded,
        ProcessBegan, ProcessEnded,
    )  # fmt: skip

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._since_ms: dict[tuple[str, str], int] = {}
        self._first_queues: dict[str, int] = {}
        """By topic: the first queue that can't be written to."""
        self._began: dict[str, SendBegan] = {}
        self._times = TroubledTimes()

    def see(self, event: RunEvent) -> None:
        match event:
            case PermissionWithdrawn(at_ms, what, target, first_queue):
                self._since_ms[what, target] = at_ms
                if first_queue:
                    self._first_queues[target] = first_queue
            case PermissionRestored(what=what, target=target):
                self._since_ms.pop((what, target), None)
            case FaultBegan(what=what, target=who) | FaultEnded(what=what, target=who) if what in ADMINISTRATION:
                # Each change of a topic sets the numbers of its queues again.
                self._since_ms.pop(("writing queues", who), None)
            case ProcessEnded(how=how) if how in (FAILED_OVER, LOST_MORE):
                self._since_ms.clear()
                self._times.see(event)
            case SendBegan(name=name):
                self._began[name] = event
            case SendAcknowledged(at_ms=at_ms, name=name, place=(broker, topic, queue_id)):
                if self._is_forbidden("writing", event):
                    self.broken(at_ms, f"{name} was stored in {topic} on {broker}, where writing was forbidden")
                first = self._first_queues.get(topic, queue_id + 1)
                if queue_id >= first and self._is_forbidden("writing queues", event):
                    words = f"{name} was stored in queue {queue_id} of {topic} on {broker}"
                    self.broken(at_ms, f"{words}, where only the first {first} can be written to")
            case CallBegan(at_ms=at_ms, group=group, messages=messages):
                for seen in messages:
                    self._consumed(at_ms, group, seen.name)
            case _:
                self._times.see(event)

    def _is_forbidden(self, what: str, sent: SendAcknowledged) -> bool:
        """Return whether something was forbidden for a topic, and its producer must have known that."""
        since_ms = self._since_ms.get((what, sent.place[1]), sent.at_ms)
        is_known = self._began[sent.name].at_ms > since_ms + ROUTES_KNOWN_MS
        return is_known and self._times.during(since_ms - ROUTES_KNOWN_MS, sent.at_ms) is None

    def _consumed(self, at_ms: int, group: str, name: str) -> None:
        if self._is_new(name, "consuming", group):
            self.broken(at_ms, f"{group} got {name}, which was sent after the group had been switched off")
        began = self._began.get(name)
        if began is not None and self._is_new(name, "reading", began.topic):
            self.broken(at_ms, f"{group} got {name}, which was sent after reading {began.topic} had been forbidden")

    def _is_new(self, name: str, what: str, target: str) -> bool:
        since_ms, began = self._since_ms.get((what, target)), self._began.get(name)
        return since_ms is not None and began is not None and began.at_ms > since_ms


class ResetsCarriedOut(Checker):
    """After a reset, a group gets again what it had consumed from there on, and the reset begins at its time.

    A fault from a moment before the reset until all members must be notified excuses a lost reset: the administrator
    sees that in the group's offsets. Members that come and go excuse nothing, and neither do actions on other topics
    and groups.
    """

    promise = "after a reset of its offsets, a group receives all messages stored since that time again"
    hears = (
        SendBegan, SendAcknowledged, CallBegan, CallEnded, OffsetsReset, FaultBegan, FaultEnded, ProcessBegan,
        ProcessEnded, NotSettled,
    )  # fmt: skip

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._times = TroubledTimes()
        self._forbidden: dict[str, TroubledTimes] = {}
        """When a topic or a group could not be read, by its name."""
        self._members = {member for group in workload.groups for member in group.member_names}
        self._senders = frozenset(senders_of(workload))
        self._had_begun: set[str] = set()
        self._began_ms: dict[str, int] = {}
        self._stored_ms: dict[str, int] = {}
        """When the response came: a message was stored before."""
        self._lies: dict[QueuePlace, dict[int, str]] = {}
        self._calls: dict[int, CallBegan] = {}
        self._done: dict[str, set[tuple[QueuePlace, int]]] = {group: set() for group in self.groups}
        self._again_ms: dict[tuple[str, QueuePlace, int], int] = {}
        """When a group last got again what it had consumed: maybe before the administrator gets the answer."""
        self._due: list[tuple[OffsetsReset, set[tuple[QueuePlace, int]]]] = []
        self._has_settled = True

    def see(self, event: RunEvent) -> None:
        match event:
            case SendBegan(at_ms=at_ms, name=name, due_ms=due_ms, is_half=is_half):
                if not due_ms and not is_half:  # What waits has another offset at first.
                    self._began_ms[name] = at_ms
            case SendAcknowledged(at_ms=at_ms, name=name, place=place, offset=offset):
                if name in self._began_ms:
                    self._lies.setdefault(place, {})[offset] = name
                    self._stored_ms[name] = at_ms
            case CallBegan(at_ms=at_ms, call=call, group=group, place=place):
                self._calls[call] = event
                for seen in event.messages:
                    if (place, seen.offset) in self._done[group]:
                        self._again_ms[group, place, seen.offset] = at_ms
                for reset, due in self._due:
                    if reset.group == group:
                        due.difference_update((place, seen.offset) for seen in event.messages)
            case CallEnded(call=call, is_success=is_success):
                began = self._calls.pop(call, None)
                if began is not None and is_success:
                    self._done[began.group] |= {(began.place, seen.offset) for seen in began.messages}
            case OffsetsReset():
                self._reset(event)
            case NotSettled():
                self._has_settled = False
            case FaultBegan(what=what, target=who) | FaultEnded(what=what, target=who) if what in ADMINISTRATION:
                if what in KEEPS_FROM_READING:
                    self._forbidden.setdefault(who, TroubledTimes()).see(event)
            case FaultBegan(what=what) | FaultEnded(what=what) if what.endswith("member"):
                if not what.startswith(("kill", "restart")):
                    self._times.see(event)
            case FaultBegan(target=who) | FaultEnded(target=who) if who in self._senders:
                pass
            case ProcessBegan(who=who) | ProcessEnded(who=who) if who in self._members or who in self._senders:
                pass
            case ProcessBegan(who=who) if who not in self._had_begun:
                self._had_begun.add(who)
            case _:
                self._times.see(event)

    def _reset(self, reset: OffsetsReset) -> None:
        due = {
            (place, offset)
            for place, offset in self._done[reset.group]
            if place in reset.offsets
            and offset >= reset.offsets[place]
            and self._again_ms.get((reset.group, place, offset), -1) < reset.requested_ms
        }
        self._due.append((reset, due))
        for place, first in reset.offsets.items():
            self._check_begin(reset, place, first)

    def _check_begin(self, reset: OffsetsReset, place: QueuePlace, first: int) -> None:
        skipped = (name for offset, name in self._lies.get(place, {}).items() if offset < first)
        for name in skipped:
            if self._began_ms.get(name, 0) > reset.since_ms and not self._times.during(0, reset.at_ms):
                self.broken(
                    reset.at_ms, f"{reset.group} was reset to {reset.since_ms} ms, which is {first} in {place}, after "
                        f"{name}, sent at {self._began_ms[name]} ms",
                )  # fmt: skip

        for offset, name in self._lies.get(place, {}).items():
            is_before = self._stored_ms[name] < reset.since_ms - ROUNDED_MS
            if is_before and offset >= first and not self._times.during(0, reset.at_ms):
                self.broken(
                    reset.at_ms, f"{reset.group} was reset to {reset.since_ms} ms, which is {first} in {place}, before "
                        f"{name}, stored until {self._stored_ms[name]} ms",
                )  # fmt: skip
                return

    def finish(self) -> None:
        for reset, due in self._due if self._has_settled else ():
            from_ms, until_ms = reset.requested_ms - AROUND_RESET_MS, reset.at_ms + AROUND_RESET_MS
            forbidden = [self._forbidden[name] for name in (reset.topic, reset.group) if name in self._forbidden]
            if due and not any(times.during(from_ms, until_ms) for times in (self._times, *forbidden)):
                place, offset = min(due)
                words = f"{len(due)} messages were not redelivered; the first has offset {offset} of {place}"
                self.broken(reset.at_ms, f"{reset.group} was reset in {reset.topic}, and {words}")
