"""That nothing is late while nothing is broken: messages, retries, what was popped, questions about transactions.

Each promise has an upper bound, made of RocketMQ's own intervals. It counts from the time that all works which the
group needs, with the time that RocketMQ takes to get over what was broken (unrest.py: `CalmTimes`). Where listeners
have no time for a message, it counts from when they have.
"""

from typing import NamedTuple

from staticfire.faults.checkers.busy import BusyMembers
from staticfire.faults.checkers.checker import Checker
from staticfire.faults.checkers.events import (
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
    SendFailed,
    Settled,
    TransactionEnded,
)
from staticfire.faults.checkers.unrest import SHARED_ANEW_MS, CalmTimes
from staticfire.faults.workload.description import Group, Workload
from staticfire.protocol.delay_levels import DELAY_LEVELS_DEFAULT, DelayLevels, retry_level

ARRIVES_MS = 500
# A held pull is answered when a message arrives. The rest is for requests, and for pauses of flow control (50 ms).
SHORT_POLLING_MS = 1_000
# RocketMQ: shortPollingTimeMills. Without long polling a broker looks for messages so often.
LEVELS_SCAN_MS = 100
# RocketMQ: ScheduleMessageService looks so often at what is due at a level.
TIMERS_SCAN_MS = 1_000
# RocketMQ: timerPrecisionMs.
RETURNS_SCAN_MS = 1_000
# RocketMQ: reviveInterval, at which it looks for popped messages that come again.
ROUTE_MS = 30_000
# RocketMQ: pollNameServerInterval. A client learns by then of a topic that a broker has just made: that of POP retries.
POP_FAILED_DELAYS_S = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200)
# RocketMQ: ConsumeMessagePopConcurrentlyService puts a failed message off for so long, by its reconsumptions.
TRANSACTION_TIME_OUT_MS, TRANSACTION_CHECK_MS = 6_000, 30_000
# RocketMQ: transactionTimeOut, transactionCheckInterval.

_TROUBLE = (FaultBegan, FaultEnded, ProcessBegan, ProcessEnded)


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

    hears = (CallBegan, CallEnded, FaultBegan, FaultEnded, ProcessBegan, ProcessEnded, NotSettled, Settled)

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
            case NotSettled() | Settled():
                self._look(event)
            case _:
                self.went_on(event)

    def came(self, call: CallBegan, seen: Seen) -> None:
        """A listener is called with a message."""

    def ended(self, began: CallBegan, ended: CallEnded) -> None:
        """It has answered."""

    def went_on(self, event: RunEvent) -> None:
        """Something else has happened."""

    def expect(self, group: str, key: object, waiting: Waiting) -> None:
        """Note that something has to come to a group."""
        self._waiting[group][key] = waiting

    def arrived(self, call: CallBegan, key: object) -> None:
        """Note that it came."""
        waiting = self._waiting[call.group].pop(key, None)
        if waiting is not None:
            self._check(self.groups[call.group], waiting, call.at_ms)

    def _look(self, event: RunEvent) -> None:
        """Look at what still waits; what has been told is forgotten."""
        for name, waiting in self._waiting.items():
            group = self.groups[name]
            if not isinstance(event, _TROUBLE) or self.calm.concerns(event, group):
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
        for group in self._groups_of[began.topic]:
            if (group, began.name) not in self._came:
                self.expect(group, began.name, Waiting(began.name, due_ms, sent.place, machines))

    def came(self, call: CallBegan, seen: Seen) -> None:
        self._came.add((call.group, seen.name))
        self.arrived(call, seen.name)


def _takes_all(group: Group) -> bool:
    return group.expression == "*" and getattr(group, "condition", None) is None


def fellows_of(workload: Workload) -> dict[str, tuple[str, ...]]:
    """Return who is asked about the transactions of each machine that sends: all of its program."""
    return {
        name: names
        for one in workload.producers
        for names in [tuple(f"{one.program}-{number + 1}" for number in range(one.clients))]
        for name in names
    }


class RetriedInTime(Lateness):
    """A message that has failed comes again when its level says, not before, and soon after.

    Ordered groups try again at once, and popping ones are ReturnsInTime's. A message that failed where nobody could
    give it back is consumed again where it is, which is no retry. A listener of one's own may say another level.
    """

    promise = "a failed message comes again after the delay of its level, within 0.6 s"

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        text = str(workload.brokers.settings.get("message_delay_level", DELAY_LEVELS_DEFAULT))
        self._levels = DelayLevels.parse(text)
        self._first: dict[tuple[str, str, int], int] = {}

    def ended(self, began: CallBegan, ended: CallEnded) -> None:
        group = self.groups[began.group]
        if ended.is_success or group.ordered or group.popped or group.listener is not None:
            return
        for seen in began.messages:
            if not 0 <= group.retries_max <= seen.reconsume_times:
                key = (began.group, seen.name, seen.reconsume_times)
                self._first.setdefault(key, ended.at_ms)
                due_ms = ended.at_ms + self._delay_ms(seen.reconsume_times) + LEVELS_SCAN_MS
                what = f"retry {seen.reconsume_times + 1} of {seen.name}"
                self.expect(began.group, (seen.name, seen.reconsume_times + 1), Waiting(what, due_ms))

    def _delay_ms(self, reconsume_times: int) -> int:
        return self._levels.delay_ms(self._levels.clamp(retry_level(reconsume_times)))

    def came(self, call: CallBegan, seen: Seen) -> None:
        before = (call.group, seen.name, seen.reconsume_times - 1)
        if not seen.is_retry or before not in self._first:
            return
        self.arrived(call, (seen.name, seen.reconsume_times))
        early_ms = self._first[before] + self._delay_ms(seen.reconsume_times - 1) - call.at_ms
        if early_ms > 0:
            words = f"retry {seen.reconsume_times} of {seen.name} came to {call.group} {early_ms} ms early"
            self.broken(call.at_ms, words)


class ReturnsInTime(Lateness):
    """What was popped and not acknowledged is handed out again when its invisible time is over.

    A message that has failed is put off for as long as RocketMQ's consumers do. The first one of a broker comes as late
    as its group learns of the topic of its retries.
    """

    promise = "what was popped and not acknowledged comes again within 31.5 s of the end of its invisible time"

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._put_off: dict[tuple[str, str, int], int] = {}
        """Until when, of messages that have failed."""

    def ended(self, began: CallBegan, ended: CallEnded) -> None:
        group = self.groups[began.group]
        for seen in began.messages:
            if seen.popped_ms < 0 or (ended.is_success and ended.at_ms < seen.until_ms):
                continue
            if not ended.is_success and 0 <= group.retries_max <= seen.reconsume_times:
                continue
            delay_s = POP_FAILED_DELAYS_S[min(seen.reconsume_times, len(POP_FAILED_DELAYS_S) - 1)]
            is_put_off = not ended.is_success and ended.at_ms < seen.until_ms
            if is_put_off:
                self._put_off.setdefault((began.group, seen.name, seen.reconsume_times), ended.at_ms + 1_000 * delay_s)
            due_ms = ended.at_ms + 1_000 * delay_s if is_put_off else seen.until_ms
            what = f"{seen.name}, popped at {seen.popped_ms} ms,"
            due_ms += RETURNS_SCAN_MS + ROUTE_MS
            self.expect(began.group, (seen.name, seen.reconsume_times + 1), Waiting(what, due_ms))

    def came(self, call: CallBegan, seen: Seen) -> None:
        if seen.popped_ms < 0:
            return
        self.arrived(call, (seen.name, seen.reconsume_times))
        put_off_ms = self._put_off.get((call.group, seen.name, seen.reconsume_times - 1), 0)
        is_excused = self.calm.group_excused_until(self.groups[call.group]) > seen.popped_ms - SHARED_ANEW_MS
        if seen.popped_ms < put_off_ms and not is_excused:
            words = f"{seen.name} failed in {call.group} and comes again {put_off_ms - seen.popped_ms} ms early"
            self.broken(call.at_ms, words)


class AskedInTime(Checker):
    """A transaction that its producer hasn't ended is asked about when its time is over."""

    promise = "a broker asks about an open transaction within its time-out and one check interval"
    hears = (SendBegan, SendAcknowledged, TransactionEnded, *_TROUBLE, Settled, NotSettled)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._calm = CalmTimes(workload)
        settings = workload.brokers.settings
        self._takes_ms = (
            settings.get("transaction_time_out", TRANSACTION_TIME_OUT_MS)
            + settings.get("transaction_check_interval", TRANSACTION_CHECK_MS)
            + ARRIVES_MS
        )
        self._halves: set[str] = set()
        self._ended: set[str] = set()
        self._open: dict[str, SendAcknowledged] = {}
        self._fellows = fellows_of(workload)

    def see(self, event: RunEvent) -> None:
        match event:
            case SendBegan(name=name, is_half=True):
                self._halves.add(name)
            case SendBegan():
                pass
            case SendAcknowledged(name=name):
                if name in self._halves and name not in self._ended:
                    self._open[name] = event
            case TransactionEnded(at_ms=at_ms, name=name):
                self._ended.add(name)
                sent = self._open.pop(name, None)
                if sent is not None:
                    self._check(sent, at_ms)
            case _:
                for name in [name for name, sent in self._open.items() if self._check(sent, event.at_ms)]:
                    del self._open[name]
                self._calm.see(event)

    def _check(self, sent: SendAcknowledged, at_ms: int) -> bool:
        """Tell whether it should have been asked about before."""
        if at_ms <= sent.at_ms + self._takes_ms:
            return False
        machines = (sent.place[0], "nameserver", "", *self._fellows.get(sent.name.partition("/")[0], ()))
        late_ms = at_ms - max(sent.at_ms, self._calm.excused_until(machines)) - self._takes_ms
        if late_ms <= 0:
            return False
        self.broken(at_ms, f"nobody has asked about {sent.name} for {at_ms - sent.at_ms} ms, {round(late_ms)} too many")
        return True


class SendsSucceed(Checker):
    """A send is acknowledged when nothing is broken that it could meet: servers, links, or the program itself."""

    promise = "no send fails while nothing is broken"
    hears = (SendBegan, SendFailed, *_TROUBLE)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._calm = CalmTimes(workload)
        self._servers = (*workload.brokers.names, "nameserver", "")
        self._began_ms: dict[str, int] = {}

    def see(self, event: RunEvent) -> None:
        match event:
            case SendBegan(at_ms=at_ms, name=name):
                self._began_ms[name] = at_ms
            case SendFailed(at_ms=at_ms, name=name, reason=reason):
                until_ms = self._calm.excused_until((*self._servers, name.partition("/")[0]))
                if self._began_ms.get(name, 0) > until_ms:
                    self.broken(at_ms, f"the send of {name} failed, and nothing was broken: {reason}")
            case _:
                self._calm.see(event)
