"""Recalled messages, and requests with their replies."""

from staticfire.simulation.checkers.checker import Checker
from staticfire.simulation.checkers.events import (
    CallBegan,
    FaultBegan,
    FaultEnded,
    MessageFound,
    ProcessBegan,
    ProcessEnded,
    RecallBegan,
    RecallEnded,
    ReplyReceived,
    RunEvent,
    SendAcknowledged,
    SendBegan,
    SendFailed,
)
from staticfire.simulation.checkers.lateness import TIMERS_SCAN_MS
from staticfire.simulation.checkers.losses import FAILED_OVER, takes_acknowledged
from staticfire.simulation.checkers.unrest import TroubledTimes
from staticfire.simulation.workload.description import Workload

# A send that waits for a sync which began on a slow disk is retried, and its message is stored twice.
SLOW_SYNC_MS = 2_500
# RocketMQ: syncFlushTimeout, after which a response doesn't wait for the disk any longer.
SYNC_TIMEOUT_MS = 5_000
# RocketMQ: slaveTimeout, after which a response doesn't wait for slaves any longer.
SLAVE_TIMEOUT_MS = 3_000


class RecallsKept(Checker):
    """A message whose recall a broker has confirmed is never delivered. NothingLost checks refused recalls.

    A broker refuses a recall only if the time of delivery has come, or if there was a fault since the send.
    A message that was sent twice, because of a fault during the send, has two handles, and its producer has only one of
    them. With ASYNC_FLUSH, a power loss may destroy recalls that were just stored. With SYNC_FLUSH, a broker that gives
    up its disk confirms the recalls that wait for a sync: the response has no code for a late disk. Nor has it one for
    slaves that don't answer: a recall that was confirmed after slaveTimeout may be lost in a failover.
    """

    promise = "a message can be recalled until its time, and is never delivered then"
    hears = (
        SendBegan, SendAcknowledged, RecallBegan, RecallEnded, CallBegan, MessageFound, FaultBegan, FaultEnded,
        ProcessBegan, ProcessEnded,
    )  # fmt: skip

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._began_ms: dict[str, int] = {}
        self._due_ms: dict[str, int] = {}
        self._sent: dict[str, SendAcknowledged] = {}
        self._recalled: dict[str, int] = {}
        self._delivered: dict[str, tuple[int, str]] = {}
        self._rewound_ms: dict[str, int] = {}
        """When a broker last lost what it hadn't synced."""
        self._gave_up_ms: dict[str, list[int]] = {}
        """When a broker gave up its disk, with SYNC_FLUSH."""
        self._recall_began_ms: dict[str, int] = {}
        self._not_copied: set[str] = set()
        """Messages whose recall was confirmed although too few slaves may have it."""
        self._failed_over_ms: dict[str, int] = {}
        self._times = TroubledTimes()

    def see(self, event: RunEvent) -> None:
        match event:
            case SendBegan(at_ms=at_ms, name=name):
                self._began_ms[name] = at_ms
                self._due_ms[name] = event.due_ms
            case SendAcknowledged(name=name):
                self._sent[name] = event
            case RecallEnded(at_ms=at_ms, name=name, outcome="refused"):
                self._refused(at_ms, name)
            case RecallBegan(at_ms=at_ms, name=name):
                self._recall_began_ms[name] = at_ms
            case RecallEnded(at_ms=at_ms, name=name, outcome="recalled"):
                self._recalled[name] = at_ms
                brokers = self.workload.brokers
                timeout_ms = int(brokers.settings.get("slave_timeout", SLAVE_TIMEOUT_MS))
                if brokers.copies_awaited > 1 and at_ms - self._recall_began_ms.get(name, at_ms) >= timeout_ms:
                    self._not_copied.add(name)
            case CallBegan(at_ms=at_ms, group=group, messages=messages):
                for seen in messages:
                    self._delivered.setdefault(seen.name, (at_ms, f"was delivered to {group}"))
            case MessageFound(at_ms=at_ms, name=name, place=(_, topic, _)) if not topic.startswith("%"):
                self._delivered.setdefault(name, (at_ms, f"is stored in {topic}"))
            case ProcessEnded(at_ms=at_ms, who=who, how=how):
                self._times.see(event)
                if how == FAILED_OVER:
                    self._failed_over_ms[who] = at_ms
                if takes_acknowledged(event, self.workload.brokers):
                    self._rewound_ms[who] = at_ms
                elif how == "crashed":
                    self._gave_up_ms.setdefault(who, []).append(at_ms)
            case _:
                self._times.see(event)

    def finish(self) -> None:
        for name, recalled_ms in self._recalled.items():
            sent, delivered = self._sent.get(name), self._delivered.get(name)
            if sent is None or delivered is None or self._may_be_lost(name, sent.place[0], recalled_ms):
                continue
            if self._times.during(self._began_ms[name] - SLOW_SYNC_MS, sent.at_ms) is None:
                at_ms, words = delivered
                self.broken(at_ms, f"{name} was recalled at {recalled_ms} ms, and {words}")

    def _refused(self, at_ms: int, name: str) -> None:
        due_ms, began_ms = self._due_ms.get(name, 0), self._began_ms.get(name, 0)
        if due_ms and at_ms < due_ms - TIMERS_SCAN_MS and self._times.during(began_ms, at_ms) is None:
            self.broken(at_ms, f"the recall of {name} was refused {due_ms - at_ms} ms before its time")

    def _may_be_lost(self, name: str, broker: str, recalled_ms: int) -> bool:
        """Return whether a recall that was confirmed then may be on no disk of its broker, or of the next master."""
        if name in self._not_copied and self._failed_over_ms.get(broker, -1) >= recalled_ms:
            return True
        gave_up_ms = self._gave_up_ms.get(broker, ())
        is_late = any(recalled_ms <= at_ms <= recalled_ms + SYNC_TIMEOUT_MS for at_ms in gave_up_ms)
        return is_late or self._rewound_ms.get(broker, -1) >= recalled_ms


class RepliesKept(Checker):
    """A request gets its own reply, in time unless there was a fault."""

    promise = "each request gets its own reply in time, unless a fault, a start or a leave explains its absence"
    hears = (SendBegan, SendFailed, ReplyReceived, FaultBegan, FaultEnded, ProcessBegan, ProcessEnded)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._asking = {one.topic for one in workload.producers if one.asks_ms}
        self._began_ms: dict[str, int] = {}
        self._times = TroubledTimes()

    def see(self, event: RunEvent) -> None:
        match event:
            case SendBegan(at_ms=at_ms, name=name, topic=topic):
                if topic in self._asking:
                    self._began_ms[name] = at_ms
            case ReplyReceived(at_ms=at_ms, name=name, answers=answers):
                if answers != name:
                    self.broken(at_ms, f"{name} got the reply to {answers}")
            case SendFailed(at_ms=at_ms, name=name, reason=reason):
                began_ms = self._began_ms.get(name)
                if began_ms is not None and self._times.cause(began_ms, at_ms) is None:
                    self.broken(at_ms, f"{name} got no reply, and nothing was broken: {reason}")
            case _:
                self._times.see(event)
