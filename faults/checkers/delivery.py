"""That nothing is lost, that all is delivered, and that nothing comes twice without a cause."""

from staticfire.faults.checkers.checker import Checker
from staticfire.faults.checkers.events import (
    CallBegan,
    CallEnded,
    MessageFound,
    ProcessEnded,
    RunEvent,
    SendAcknowledged,
    SendBegan,
    TransactionEnded,
)
from staticfire.faults.checkers.unrest import TroubledTimes
from staticfire.faults.workload.description import Workload
from staticfire.protocol.names import DLQ_PREFIX


class NothingLost(Checker):
    """What a broker has acknowledged lies in its queue at the end, whatever happened to it.

    With ASYNC_FLUSH a loss of power takes what the disk hadn't got yet.
    """

    promise = "what was acknowledged is there at the end; with ASYNC_FLUSH but for what a loss of power took"

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._acknowledged: dict[str, SendAcknowledged] = {}
        self._waiting: set[str] = set()
        self._excused: set[str] = set()
        self._found: set[str] = set()

    def see(self, event: RunEvent) -> None:
        match event:
            case SendBegan(name=name, due_ms=due_ms, is_half=is_half) if due_ms or is_half:
                self._waiting.add(name)  # Its place is another one than that of the answer; ReachesAll has it.
            case SendAcknowledged(name=name):
                self._acknowledged[name] = event
            case ProcessEnded(who=who, how="without power" | "crashed", safe_position=safe):
                if not self.workload.brokers.flushes_at_once:
                    self._excuse(who, safe)
            case MessageFound(name=name, place=place) if not place[1].startswith("%"):
                self._found.add(name)
            case _:
                pass

    def _excuse(self, broker: str, safe_position: int) -> None:
        self._excused |= {
            name
            for name, sent in self._acknowledged.items()
            if sent.place[0] == broker and sent.log_position >= safe_position
        }

    def finish(self) -> None:
        for name, sent in self._acknowledged.items():
            if name not in self._found and name not in self._excused and name not in self._waiting and sent.is_safe:
                broker, topic, queue_id = sent.place
                self.broken(
                    sent.at_ms, f"{name} was acknowledged at offset {sent.offset} of {topic} {queue_id} on {broker} "
                    "and isn't there at the end",
                )  # fmt: skip


class ReachesAll(Checker):
    """What lies in a topic at the end has been consumed by each group, or is dead."""

    promise = "each group has consumed, or buried, all that is in its topics at the end"

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._consumed: dict[str, set[str]] = {group: set() for group in self.groups}
        self._calls: dict[int, CallBegan] = {}
        self._found: dict[str, list[MessageFound]] = {}
        self._dead: set[tuple[str, str]] = set()

    def see(self, event: RunEvent) -> None:
        match event:
            case CallBegan(call=call):
                self._calls[call] = event
            case CallEnded(call=call, is_success=is_success):
                began = self._calls.pop(call, None)
                if began is not None and is_success:
                    self._consumed[began.group] |= {seen.name for seen in began.messages}
            case MessageFound(name=name, place=(_, topic, _)):
                self._found.setdefault(topic, []).append(event)
                if topic.startswith(DLQ_PREFIX):
                    self._dead.add((topic.removeprefix(DLQ_PREFIX), name))
            case _:
                pass

    def finish(self) -> None:
        for group in self.groups.values():
            if group.expression != "*":
                continue
            for topic in group.topics:
                for found in self._found.get(topic, []):
                    self._check(group.name, found)

    def _check(self, group: str, found: MessageFound) -> None:
        if found.name not in self._consumed[group] and (group, found.name) not in self._dead:
            words = f"{found.name} lies at offset {found.offset} of {found.place}"
            self.broken(found.at_ms, f"{words}, and {group} has neither consumed nor buried it")


class DuplicatesExplained(Checker):
    """What a group has consumed doesn't come to it again, unless something was broken around that time.

    A message that lies in two places was sent twice, which is another thing.
    """

    promise = "what was consumed comes again only where a fault, a start or a leave explains it"

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._times = TroubledTimes()
        self._done: dict[tuple[str, object, int], int] = {}
        self._calls: dict[int, CallBegan] = {}

    def see(self, event: RunEvent) -> None:
        self._times.see(event)
        match event:
            case CallBegan(call=call):
                self._calls[call] = event
                for seen in event.messages:
                    self._came(event, seen.name, seen.offset)
            case CallEnded(at_ms, call, is_success):
                began = self._calls.pop(call, None)
                if began is not None and is_success:
                    for seen in began.messages:
                        self._done[began.group, began.place, seen.offset] = at_ms
            case _:
                pass

    def _came(self, call: CallBegan, name: str, offset: int) -> None:
        before_ms = self._done.get((call.group, call.place, offset))
        if before_ms is not None and self._times.cause(before_ms, call.at_ms) is None:
            self.broken(
                call.at_ms,
                f"{name} (offset {offset} of {call.place}) came to {call.group} again, by {call.member}, "
                f"{call.at_ms - before_ms} ms after it was consumed, and nothing was broken",
            )


class NothingEarly(Checker):
    """Nobody gets a delayed message before it is due."""

    promise = "no delayed message is consumed before it is due"

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._due: dict[str, int] = {}

    def see(self, event: RunEvent) -> None:
        match event:
            case SendBegan(name=name, due_ms=due_ms) if due_ms:
                self._due[name] = due_ms
            case CallBegan(at_ms=at_ms, group=group, messages=messages):
                for seen in messages:
                    due_ms = self._due.get(seen.name, 0)
                    if at_ms < due_ms:
                        self.broken(at_ms, f"{group} got {seen.name} {due_ms - at_ms} ms before it was due")
            case _:
                pass


class TransactionsKept(Checker):
    """A message counts when its transaction was committed, and never when that was rolled back."""

    promise = "what was committed is delivered, what was rolled back never is"

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._halves: set[str] = set()
        self._acknowledged: dict[str, SendAcknowledged] = {}
        self._ended: dict[str, bool] = {}
        self._found: set[str] = set()
        self._excused: set[str] = set()

    def see(self, event: RunEvent) -> None:
        match event:
            case SendBegan(name=name, is_half=True):
                self._halves.add(name)
            case SendAcknowledged(name=name) if name in self._halves:
                self._acknowledged[name] = event
            case TransactionEnded(name=name, is_commit=is_commit):
                self._ended[name] = is_commit
            case CallBegan(at_ms=at_ms, group=group, messages=messages):
                for seen in messages:
                    if seen.name in self._halves and self._ended.get(seen.name) is not True:
                        is_ended = seen.name in self._ended
                        words = "was rolled back" if is_ended else "has not been ended"
                        self.broken(at_ms, f"{group} got {seen.name}, whose transaction {words}")
            case MessageFound(name=name, place=(_, topic, _)) if not topic.startswith("%"):
                self._found.add(name)
            case ProcessEnded(who=who, how="without power" | "crashed") if not self.workload.brokers.flushes_at_once:
                # What had been committed a moment ago is open again, or gone with its half.
                self._excused |= {
                    name for name, sent in self._acknowledged.items() if sent.place[0] == who
                }  # fmt: skip
            case _:
                pass

    def finish(self) -> None:
        for name, sent in self._acknowledged.items():
            if self._ended.get(name) and name not in self._found and name not in self._excused and sent.is_safe:
                self.broken(sent.at_ms, f"{name} was committed and never came to its topic")
