"""Counts interesting states of a run: so it is noticed, for example, if no broker ever died in a thousand seeds."""

from collections import Counter

from staticfire.protocol.names import DLQ_PREFIX, is_retry_topic
from staticfire.simulation.checkers.events import (
    CallBegan,
    CallEnded,
    FaultBegan,
    FaultEnded,
    MessageFound,
    OffsetSeen,
    ProcessEnded,
    QueuePlace,
    RunEvent,
    SendAcknowledged,
    SendBegan,
    SendFailed,
    TransactionEnded,
)

# After these times a lock can be taken by other members, and a silent client is removed from its group.
LOCK_MS, SILENT_MS = 60_000, 120_000
_CUTTING_OFF = ("freeze member", "isolate member", "cut", "cut one way")


class Interest:
    """Gets the events of a run, and counts states by name."""

    def __init__(self) -> None:
        self.states: Counter[str] = Counter()
        self._calls: dict[int, CallBegan] = {}
        self._failed_by: dict[tuple[str, str], str] = {}
        self._done: set[tuple[str, QueuePlace, int]] = set()
        self._running: dict[tuple[str, QueuePlace], str] = {}
        self._under_way: set[str] = set()
        self._open: dict[str, str] = {}
        self._unsure: set[str] = set()
        self._found: set[str] = set()
        self._faults: dict[tuple[str, str], int] = {}
        self._offsets: dict[tuple[str, QueuePlace], int] = {}

    def see(self, event: RunEvent) -> None:
        match event:
            case CallBegan():
                self._began(event)
            case CallEnded(call=call, is_success=is_success):
                self._ended(call, is_success)
            case SendBegan(name=name) | SendAcknowledged(name=name) | SendFailed(name=name):
                self._sent(event, name)
            case TransactionEnded(name=name):
                self._transaction(name)
            case ProcessEnded(who=who, how=how):
                self._died(who, how)
            case MessageFound(name=name, place=(_, topic, _)):
                self._lies(name, topic)
            case FaultBegan(at_ms=at_ms, what=what, target=target):
                self._faults[what, target] = at_ms
            case FaultEnded(at_ms=at_ms, what=what, target=target):
                self._fault_ended(what, at_ms - self._faults.pop((what, target), at_ms))
            case OffsetSeen(group=group, place=place, offset=offset):
                if offset < self._offsets.get((group, place), 0):
                    self.states["a group has lower offsets after a start"] += 1
                self._offsets[group, place] = offset
            case _:
                pass

    def _began(self, call: CallBegan) -> None:
        self._calls[call.call] = call
        at = (call.group, call.place)
        if call.is_ordered and self._running.get(at, call.member) != call.member:
            self.states["an ordered queue changed its owner while its listener ran"] += 1
        self._running[at] = call.member
        for seen in call.messages:
            if (call.group, call.place, seen.offset) in self._done:
                self.states["a message was redelivered after it was consumed"] += 1
            if seen.popped_ms >= 0 and seen.is_retry:
                self.states["a popped message was redelivered"] += 1
            failed_by = self._failed_by.get((call.group, seen.name))
            if failed_by not in (None, call.member):
                self.states["a retry went to another member"] += 1

    def _ended(self, call: int, is_success: bool) -> None:
        began = self._calls.pop(call, None)
        if began is None:
            return
        self._running.pop((began.group, began.place), None)
        for seen in began.messages:
            if is_success:
                self._done.add((began.group, began.place, seen.offset))
            else:
                self._failed_by[began.group, seen.name] = began.member

    def _sent(self, event: RunEvent, name: str) -> None:
        if isinstance(event, SendBegan):
            self._under_way.add(name)
            return
        self._under_way.discard(name)
        if isinstance(event, SendFailed):
            self._unsure.add(name)
            self.states["a send failed finally"] += 1

    def _transaction(self, name: str) -> None:
        self.states["a transaction was checked" if name in self._open else "a transaction ended"] += 1
        self._open[name] = ""

    def _died(self, who: str, how: str) -> None:
        if how == "crashed":
            self.states["a broker gave up its disk"] += 1
        if how not in ("killed", "without power"):
            return
        own = [call for call in self._calls.values() if call.member == who]
        if own:
            self.states["a member died in a listener"] += 1
        self._calls = {number: call for number, call in self._calls.items() if call.member != who}
        lost = {name for name in self._under_way if name.startswith(f"{who}/")}
        if lost:
            self.states["a producer died with sends in flight"] += 1
        elif self._under_way and who.startswith("broker"):
            self.states["a broker died with sends in flight"] += 1
        self._unsure |= lost
        self._under_way -= lost

    def _lies(self, name: str, topic: str) -> None:
        if topic.startswith(DLQ_PREFIX):
            self.states["a message became a dead letter"] += 1
            return
        if is_retry_topic(topic):
            return
        if name in self._found:
            self.states["a message was stored twice: its send was tried again"] += 1
        elif name in self._unsure:
            self.states["a message is stored, but its producer got no response"] += 1
        self._found.add(name)

    def _fault_ended(self, what: str, took_ms: int) -> None:
        if what in _CUTTING_OFF and took_ms > LOCK_MS:
            self.states["a client was away for longer than its locks"] += 1
        if what in _CUTTING_OFF and took_ms > SILENT_MS:
            self.states["a client was away for longer than its membership"] += 1
