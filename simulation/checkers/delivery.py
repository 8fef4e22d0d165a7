"""Nothing is lost, and nothing is redelivered without a cause."""

from staticfire.protocol.names import CHECK_MAX_TIME_TOPIC
from staticfire.simulation.checkers.checker import Checker
from staticfire.simulation.checkers.events import (
    CallBegan,
    CallEnded,
    FaultBegan,
    FaultEnded,
    GoneForGood,
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
    SendFailed,
    TransactionEnded,
)
from staticfire.simulation.checkers.losses import Losses, takes_acknowledged
from staticfire.simulation.checkers.rewinds import Rewinds
from staticfire.simulation.checkers.unrest import GroupTroubles, TroubledTimes
from staticfire.simulation.workload.description import Workload

# A sync that began on a slow disk may still take this long after the disk is fast again.
SLOW_SYNC_MS = 2_500
# RocketMQ: transactionCheckInterval.
TRANSACTION_CHECK_MS = 30_000


class NothingLost(Checker):
    """Every message that a broker has acknowledged is in its queue at the end, whatever happened to the broker.

    What an end of the broker may have destroyed is excused (losses.py). For a disk that fails to read, or reads from a
    wrong place, only a report is promised: what was read so counts as damaged. If a run doesn't settle, messages that
    are due after its end are still stored elsewhere; Settles reports that.
    """

    promise = "acknowledged messages are stored at the end; with ASYNC_FLUSH, unless a loss of power destroyed them"
    hears = (
        SendBegan, SendAcknowledged, FaultBegan, GoneForGood, ProcessEnded, MessageFound, NotSettled, RecallBegan,
        RecallEnded,
    )  # fmt: skip

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._acknowledged: dict[str, SendAcknowledged] = {}
        self._halves: set[str] = set()
        self._recalled: set[str] = set()
        self._began_ms: dict[str, int] = {}
        self._due_ms: dict[str, int] = {}
        self._gave_up_ms: int | None = None
        """When the cluster should have settled and hadn't."""
        self._losses = Losses(workload)
        self._found: set[str] = set()
        self._lying: set[str] = set()
        """Brokers whose disk has returned wrong data, or that are gone with their disk."""

    def see(self, event: RunEvent) -> None:
        match event:
            case SendBegan(name=name, is_half=True):
                self._halves.add(name)  # TransactionsKept checks these.
            case RecallBegan(name=name):
                self._recalled.add(name)
            case RecallEnded(name=name, outcome="refused"):
                self._recalled.discard(name)
            case SendBegan(at_ms=at_ms, name=name, due_ms=due_ms):
                self._began_ms[name] = at_ms
                if due_ms:
                    self._due_ms[name] = due_ms
            case SendAcknowledged(name=name):
                self._acknowledged[name] = event
            case NotSettled(at_ms=at_ms):
                self._gave_up_ms = at_ms
            case FaultBegan(what="misdirected reads" | "failing reads", target=who):
                self._lying.add(who)
            case GoneForGood(who=who):
                self._lying.add(who)
            case ProcessEnded():
                self._losses.see(event)
            case MessageFound(name=name, place=place) if not place[1].startswith("%"):
                self._found.add(name)
            case _:
                pass

    def _still_waits(self, name: str) -> bool:
        return self._gave_up_ms is not None and self._due_ms.get(name, 0) > self._gave_up_ms

    def finish(self) -> None:
        for name, sent in self._acknowledged.items():
            broker, topic, queue_id = sent.place
            if name in self._found or name in self._halves or name in self._recalled or broker in self._lying:
                continue
            may_be_gone = self._losses.may_have_taken(sent, self._began_ms.get(name, 0))
            if not self._still_waits(name) and not may_be_gone:
                self.broken(
                    sent.at_ms, f"{name} was acknowledged at offset {sent.offset} of {topic} {queue_id} on {broker} "
                        "and isn't stored at the end",
                )  # fmt: skip


class Intact(Checker):
    """The message that a group gets from a place, or that is stored there at the end, is the one acknowledged for it.

    With ASYNC_FLUSH, a power loss makes offsets available again. With SYNC_FLUSH, it destroys messages that were not
    acknowledged to producers but may already be delivered to members (rewinds.py).
    """

    promise = "each offset has the message whose producer received that offset, and no other"
    hears = (SendBegan, SendAcknowledged, CallBegan, MessageFound, ProcessBegan, ProcessEnded)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._returned: dict[tuple[QueuePlace, int], SendAcknowledged] = {}
        self._elsewhere: set[str] = set()
        brokers = workload.brokers
        self._is_checked = brokers.copies_awaited > 1 if brokers.replicas else brokers.flushes_at_once
        self._rewinds = Rewinds(workload)

    def see(self, event: RunEvent) -> None:
        if not self._is_checked:
            return
        match event:
            case SendBegan(name=name, due_ms=due_ms, is_half=is_half) if due_ms or is_half:
                self._elsewhere.add(name)
            case SendAcknowledged(name=name, place=place, offset=offset) if name not in self._elsewhere:
                if event.is_safe:
                    self._returned[place, offset] = event
            case CallBegan(at_ms=at_ms, group=group, place=place, messages=messages):
                for seen in () if self._rewinds.matter(group, place, at_ms) else messages:
                    self._check(at_ms, place, seen.offset, seen.name, group)
            case MessageFound(at_ms=at_ms, name=name, place=place, offset=offset):
                self._check(at_ms, place, offset, name, "the queue")
            case ProcessEnded(who=who, how="lost more", safe_position=kept):
                self._returned = {
                    at: returned
                    for at, returned in self._returned.items()
                    if at[0][0] != who or returned.log_position < kept
                }
                self._rewinds.see(event)
            case _:
                self._rewinds.see(event)

    def _check(self, at_ms: int, place: QueuePlace, offset: int, name: str, where: str) -> None:
        returned = self._returned.get((place, offset))
        if returned is not None and returned.name != name:
            self.broken(
                at_ms, f"{where} has {name} at offset {offset} of {place}, which was returned to {returned.name}"
            )


class DuplicatesExplained(Checker):
    """A consumed message isn't redelivered, unless something that its group needs had a fault around that time.

    A message that is stored in two places was sent twice, which is something else. A member that joins or leaves
    gracefully is an excuse only in groups without locks: there the new owner may request the offset before the former
    owner has reported it.
    """

    promise = "a consumed message is redelivered only if a fault, a start or a leave explains it"
    hears = (CallBegan, CallEnded, FaultBegan, FaultEnded, ProcessBegan, ProcessEnded)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._troubles = GroupTroubles(workload)
        self._done: dict[tuple[str, object, int], int] = {}
        self._calls: dict[int, CallBegan] = {}

    def see(self, event: RunEvent) -> None:
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
                self._troubles.see(event)

    def _came(self, call: CallBegan, name: str, offset: int) -> None:
        before_ms = self._done.get((call.group, call.place, offset))
        if before_ms is not None and self._troubles.of(call.group).cause(before_ms, call.at_ms) is None:
            self.broken(
                call.at_ms,
                f"{name} (offset {offset} of {call.place}) was redelivered to {call.group}, by {call.member}, "
                f"{call.at_ms - before_ms} ms after it was consumed, and nothing was broken",
            )


class StoredOnce(Checker):
    """A message is stored once in its topic, unless its send was retried because of a fault while it was in flight.

    A producer that died may have retried, too. A broker that died between a commit and its end checks once more: for a
    transaction, a fault until one check interval after its end is an excuse, too.
    """

    promise = "a message is stored once in its topic, unless a fault was active while it was sent or committed"
    hears = (
        SendBegan, SendAcknowledged, SendFailed, TransactionEnded, MessageFound, FaultBegan, FaultEnded, ProcessBegan,
        ProcessEnded,
    )  # fmt: skip

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._times = TroubledTimes()
        self._topics = frozenset(topic.name for topic in workload.topics)
        self._began: dict[str, SendBegan] = {}
        self._returned: dict[str, int] = {}
        """When the send returned, or when the transaction ended last, with one check interval."""
        settings = workload.brokers.settings
        self._check_ms = int(settings.get("transaction_check_interval", TRANSACTION_CHECK_MS))
        self._places: dict[str, list[MessageFound]] = {}

    def see(self, event: RunEvent) -> None:
        match event:
            case SendBegan(name=name):
                self._began[name] = event
            case SendAcknowledged(at_ms=at_ms, name=name):
                self._returned[name] = max(at_ms, self._returned.get(name, 0))
            case TransactionEnded(at_ms=at_ms, name=name):
                self._returned[name] = at_ms + self._check_ms
            case MessageFound(name=name, place=(_, topic, _)) if topic in self._topics:
                self._places.setdefault(name, []).append(event)
            case _:
                self._times.see(event)

    def finish(self) -> None:
        for name, found in self._places.items():
            began, returned_ms = self._began.get(name), self._returned.get(name)
            if len(found) < 2 or began is None or returned_ms is None:
                continue
            if self._times.during(began.at_ms - SLOW_SYNC_MS, returned_ms) is None:
                places = " and ".join(f"offset {each.offset} of {each.place}" for each in found)
                self.broken(began.at_ms, f"{name} is at {places}, and no fault was active while it was sent")


class NothingEarly(Checker):
    """No member gets a delayed message before it is due."""

    promise = "no delayed message is delivered before it is due"
    hears = (SendBegan, CallBegan)

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
    """A message is delivered if its transaction was committed, and never if it was rolled back.

    After `transactionCheckMax` checks without a result, a broker moves the half message to a separate topic, where
    users find it, and logs that. As in RocketMQ, a check also counts if no producer was there to respond.
    """

    promise = "committed messages are delivered, rolled back ones never"
    hears = (
        SendBegan,
        SendAcknowledged,
        TransactionEnded,
        CallBegan,
        MessageFound,
        FaultBegan,
        GoneForGood,
        ProcessEnded,
    )

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._halves: set[str] = set()
        self._acknowledged: dict[str, SendAcknowledged] = {}
        self._ended: dict[str, bool] = {}
        self._found: set[str] = set()
        self._lying: set[str] = set()
        self._excused: set[str] = set()
        self._under_way: set[str] = set()

    def see(self, event: RunEvent) -> None:
        match event:
            case SendBegan(name=name, is_half=True):
                self._halves.add(name)
                self._under_way.add(name)
            case SendAcknowledged(name=name) if name in self._halves:
                self._acknowledged[name] = event
                self._under_way.discard(name)
            case TransactionEnded(name=name, is_commit=is_commit):
                self._ended[name] = is_commit
            case CallBegan(at_ms=at_ms, group=group, messages=messages):
                for seen in messages:
                    if seen.name in self._halves and self._ended.get(seen.name) is not True:
                        is_ended = seen.name in self._ended
                        words = "was rolled back" if is_ended else "has not been ended"
                        self.broken(at_ms, f"{group} got {seen.name}, whose transaction {words}")
            case MessageFound(name=name, place=(_, topic, _)) if topic == CHECK_MAX_TIME_TOPIC:
                self._excused.add(name)
            case MessageFound(name=name, place=(_, topic, _)) if not topic.startswith("%"):
                self._found.add(name)
            case FaultBegan(what="misdirected reads" | "failing reads", target=who):
                self._lying.add(who)
            case GoneForGood(who=who):
                self._lying.add(who)
            case ProcessEnded(who=who) if takes_acknowledged(event, self.workload.brokers):
                # A commit shortly before may be undone, or lost with its half message.
                self._excused |= {name for name, sent in self._acknowledged.items() if sent.place[0] == who}
                self._excused |= self._under_way  # They may have been in flight from this broker.
            case _:
                pass

    def finish(self) -> None:
        for name, sent in self._acknowledged.items():
            excused = name in self._excused or sent.place[0] in self._lying or not sent.is_safe
            if self._ended.get(name) and name not in self._found and not excused:
                self.broken(sent.at_ms, f"{name} was committed but never stored in its topic")
