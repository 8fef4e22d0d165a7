"""Where messages lie that wait at first: for their time, for the end of a transaction, for a person who ends it."""

from staticfire.broker.settings import BrokerSettings
from staticfire.protocol.names import CHECK_MAX_TIME_TOPIC
from staticfire.simulation.checkers.checker import Checker
from staticfire.simulation.checkers.events import (
    FaultBegan,
    FaultEnded,
    MessageFound,
    NotSettled,
    ProcessBegan,
    ProcessEnded,
    QueuePlace,
    RecallBegan,
    RecallEnded,
    RunEvent,
    SendAcknowledged,
    SendBegan,
)
from staticfire.simulation.checkers.unrest import TroubledTimes, senders_of
from staticfire.simulation.workload.description import Workload

CHANGED_INTERVAL_MS = 2_000
# The shortest transactionCheckInterval that an administrator gives to brokers while they run.


class InItsQueue(Checker):
    """A message is in the queue of its producer's response, also if it had to wait before.

    A send that was tried again is in two queues, and a killed broker may lose the one of the response: what was
    sent before its end isn't looked at, nor what was called back.
    """

    promise = "a message is stored in the queue that its producer received, also after a delay or a transaction"
    hears = (SendBegan, SendAcknowledged, MessageFound, NotSettled, ProcessEnded, RecallBegan, RecallEnded)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._began_ms: dict[str, int] = {}
        self._sent: dict[str, SendAcknowledged] = {}
        self._found: dict[str, set[QueuePlace]] = {}
        self._killed_ms: dict[str, int] = {}
        self._recalled: set[str] = set()
        self._has_settled = True

    def see(self, event: RunEvent) -> None:
        match event:
            case SendBegan(at_ms=at_ms, name=name):
                self._began_ms[name] = at_ms
            case SendAcknowledged(name=name):
                self._sent[name] = event
            case MessageFound(name=name, place=place) if name in self._sent and place[1] == self._sent[name].place[1]:
                self._found.setdefault(name, set()).add(place)
            case RecallBegan(name=name):
                self._recalled.add(name)
            case RecallEnded(name=name, outcome="refused"):
                self._recalled.discard(name)
            case ProcessEnded(at_ms=at_ms, who=who, how=how) if how not in ("stopping", "stopped"):
                self._killed_ms[who] = at_ms
            case NotSettled():
                self._has_settled = False
            case _:
                pass

    def finish(self) -> None:
        for name, places in self._found.items() if self._has_settled else ():
            sent = self._sent.get(name)
            if sent is None or sent.place in places or name in self._recalled:
                continue
            if self._began_ms.get(name, 0) <= self._last_kill_ms(sent):
                continue
            queues = sorted(queue_id for broker, _, queue_id in places if broker == sent.place[0])
            if queues:
                self.broken(
                    sent.at_ms, f"{name} was acknowledged in {sent.place} and is stored in queue {queues[0]} of it"
                )

    def _last_kill_ms(self, sent: SendAcknowledged) -> int:
        return self._killed_ms.get(sent.place[0], -1)


class KeyKeepsQueue(Checker):
    """All messages with one key go to one queue while the topic's queues don't change.

    They change with brokers that come and go, and with what administrators do. Producers learn of it within 30 s.
    """

    promise = "messages with the same key are stored in the same queue, unless brokers or queues change"
    hears = (SendBegan, SendAcknowledged, FaultBegan, FaultEnded, ProcessBegan, ProcessEnded)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        members = {member for group in workload.groups for member in group.member_names}
        self._clients = frozenset((*members, *senders_of(workload)))
        self._had_begun: set[str] = set()
        self._times = TroubledTimes()
        self._began: dict[str, SendBegan] = {}
        self._last: dict[tuple[str, int], SendAcknowledged] = {}

    def see(self, event: RunEvent) -> None:
        match event:
            case SendBegan(name=name, key=key) if key >= 0:
                self._began[name] = event
            case SendAcknowledged(name=name) if name in self._began:
                self._stored(self._began.pop(name), event)
            case SendBegan() | SendAcknowledged():
                pass
            case FaultBegan(target=who) | FaultEnded(target=who) if who in self._clients:
                pass
            case ProcessBegan(who=who) if who not in self._had_begun:
                self._had_begun.add(who)
            case ProcessBegan(who=who) | ProcessEnded(who=who) if who in self._clients:
                pass
            case _:
                self._times.see(event)

    def _stored(self, began: SendBegan, sent: SendAcknowledged) -> None:
        at = began.topic, began.key
        before = self._last.get(at)
        self._last[at] = sent
        if before is None or before.place == sent.place or self._times.cause(before.at_ms, sent.at_ms) is not None:
            return
        words = f"{sent.name} with key {began.key} was stored in {sent.place}"
        self.broken(sent.at_ms, f"{words}, and {before.name} with the same key in {before.place}")


class ChecksOften(Checker):
    """A half message is moved away after as many checks as settings say, and not before."""

    promise = "a broker abandons a transaction only after transactionCheckMax checks"
    hears = (SendAcknowledged, MessageFound, FaultBegan)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        settings = BrokerSettings(**workload.brokers.settings)
        self._questions, self._interval_ms = settings.transaction_check_max, settings.transaction_check_interval
        self._sent: dict[str, SendAcknowledged] = {}

    def see(self, event: RunEvent) -> None:
        if isinstance(event, SendAcknowledged):
            self._sent[event.name] = event
        elif isinstance(event, FaultBegan) and event.what == "change settings":
            self._interval_ms = min(self._interval_ms, CHANGED_INTERVAL_MS)
        elif isinstance(event, MessageFound) and event.place[1] == CHECK_MAX_TIME_TOPIC and event.name in self._sent:
            waited_ms, least_ms = event.at_ms - self._sent[event.name].at_ms, self._questions * self._interval_ms
            if waited_ms < least_ms:
                words = f"{event.name} was abandoned within {waited_ms} ms; {self._questions} checks take {least_ms}"
                self.broken(event.at_ms, words)
