"""Messages that always fail become dead letters."""

from staticfire.protocol.names import DLQ_PREFIX
from staticfire.simulation.checkers.checker import Checker
from staticfire.simulation.checkers.events import (
    CallBegan,
    CallEnded,
    FaultBegan,
    FaultEnded,
    GoneForGood,
    MessageFound,
    ProcessEnded,
    QueuePlace,
    RunEvent,
    SendAcknowledged,
)
from staticfire.simulation.checkers.losses import FAILED_OVER, RetriesAtRisk, takes_acknowledged
from staticfire.simulation.workload.description import Group, Workload

RETRIES_MAX = 16


class DeadAfterMax(Checker):
    """A message becomes a dead letter when it has failed as often as its group permits, and isn't redelivered then.

    With ASYNC_FLUSH, a power loss may destroy dead letters and retries that were just written. A popped message counts
    each delivery, also one to a member that died with it or had no time for it. So the count in its dead letter must be
    more than its group permits. A message that failed before a broker was gone for good, or that came from that broker,
    may be gone with it; so may one that a failover has taken, because too few machines had it.
    """

    promise = "a message becomes a dead letter after exactly the number of retries that its group allows"
    hears = (
        CallBegan,
        CallEnded,
        FaultBegan,
        FaultEnded,
        GoneForGood,
        MessageFound,
        ProcessEnded,
        SendAcknowledged,
    )

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._failed: dict[tuple[str, str], int] = {}
        self._calls: dict[int, CallBegan] = {}
        self._dead: dict[tuple[str, str], MessageFound] = {}
        self._came_from: set[tuple[str, QueuePlace, int]] = set()
        self._consumed: set[tuple[str, str]] = set()
        self._gone: set[tuple[str, str]] = set()
        self._lost_brokers: set[str] = set()
        self._unsafe: dict[str, SendAcknowledged] = {}
        """Messages that too few machines had when their sends were answered."""
        self._at_risk = RetriesAtRisk(workload)

    def see(self, event: RunEvent) -> None:
        match event:
            case CallBegan(call=call):
                self._calls[call] = event
                self._came(event)
            case CallEnded(call=call, is_success=is_success):
                began = self._calls.pop(call, None)
                if began is not None:
                    self._ended(began, is_success)
            case MessageFound(name=name, place=(_, topic, _)) if topic.startswith(DLQ_PREFIX):
                self._dead[topic.removeprefix(DLQ_PREFIX), name] = event
            case GoneForGood(who=who):
                self._lost_brokers.add(who)
                self._gone |= self._failed.keys()
            case SendAcknowledged(name=name, is_safe=False):
                self._unsafe[name] = event
            case FaultBegan() | FaultEnded():
                self._at_risk.see(event)
            case ProcessEnded(how=how) if how == FAILED_OVER:
                self._failed_over(event)
            case ProcessEnded() if takes_acknowledged(event, self.workload.brokers):
                self._gone |= self._failed.keys()
            case _:
                pass

    def _failed_over(self, ended: ProcessEnded) -> None:
        self._gone |= self._at_risk.taken_by(ended)
        takes_all = takes_acknowledged(ended, self.workload.brokers)
        for group, name in self._failed:
            sent = self._unsafe.get(name)
            is_taken = sent and sent.place[0] == ended.who and sent.log_position >= ended.safe_position
            if takes_all or is_taken:
                self._gone.add((group, name))

    def _came(self, call: CallBegan) -> None:
        retries_max = _retries_max(self.groups[call.group])
        for seen in call.messages:
            at = (call.group, call.place, seen.offset)
            # A message that couldn't be sent back is consumed again from the same place and counts again: that isn't a
            # retry.
            is_again = at in self._came_from
            self._came_from.add(at)
            if retries_max is not None and seen.reconsume_times > retries_max and not is_again:
                words = (
                    f"{seen.name} was delivered to {call.group} with {seen.reconsume_times} retries of {retries_max}"
                )
                self.broken(call.at_ms, words)

    def _ended(self, began: CallBegan, is_success: bool) -> None:
        for seen in began.messages:
            at = (began.group, seen.name)
            if is_success:
                self._consumed.add(at)
            else:
                self._failed[at] = max(self._failed.get(at, -1), seen.reconsume_times)
                self._at_risk.failed(began.group, began.place[0], seen.name)
                if began.place[0] in self._lost_brokers:
                    self._gone.add(at)

    def finish(self) -> None:
        for (name, message), found in self._dead.items():
            group = self.groups.get(name)
            retries_max = None if group is None else _retries_max(group)
            failed = self._failed.get((name, message), -1)
            if group is not None and group.popped:
                failed = max(failed, found.reconsume_times - 1)
            if retries_max is not None and failed < retries_max:
                self.broken(
                    found.at_ms, f"{message} is dead in {name} after {failed + 1} tries instead of {retries_max + 1}"
                )
        for (name, message), failed in self._failed.items():
            retries_max = _retries_max(self.groups[name])
            is_last = retries_max is not None and failed >= retries_max and not self.groups[name].ordered
            is_known = (name, message) in self._dead or (name, message) in self._consumed
            if is_last and not is_known and (name, message) not in self._gone:
                self.broken(0, f"{message} has failed {failed + 1} times in {name} and is not among its dead letters")


def _retries_max(group: Group) -> int | None:
    if group.retries_max >= 0:
        return group.retries_max
    return None if group.ordered else RETRIES_MAX
