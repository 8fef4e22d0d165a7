"""Masters and slaves: what several acknowledged survives one of them, one master at a time, equal logs, offsets."""

from collections import deque

from staticfire.simulation.checkers.checker import Checker
from staticfire.simulation.checkers.events import (
    FaultBegan,
    FaultEnded,
    MasterSeen,
    MessageFound,
    NotSettled,
    OffsetSeen,
    ProcessEnded,
    QueuePlace,
    RecallEnded,
    ReplicasSeen,
    RunEvent,
    SendAcknowledged,
    SendBegan,
)
from staticfire.simulation.checkers.losses import DECIDES, LOSING_FAULTS, LOST_MORE, WITHOUT_DATA
from staticfire.simulation.workload.description import SYNC_PERIOD_MS, Workload

# A slave learns the offsets of its master each slaveSyncPeriod; the rest is for requests that are late.
COPIED_LATE_MS = 3_000
WRITTEN_PERIOD_MS = 5_000
RESET = "reset offsets"


class QuorumKept(Checker):
    """What inSyncReplicas machines have stored is there at the end, also if one of them was lost with its disk.

    Only if as many machines have lost data as have a message, and none of them got it back in between, or if an
    administrator has accepted the loss, a message may be gone. How the disks are flushed doesn't matter.
    """

    promise = "with SYNC_MASTER and inSyncReplicas=2, what was acknowledged is there, whatever single machine is lost"
    hears = (SendBegan, SendAcknowledged, RecallEnded, ProcessEnded, MessageFound, NotSettled)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._is_checked = workload.brokers.copies_awaited > 1
        self._open: dict[str, SendAcknowledged] = {}
        self._elsewhere: set[str] = set()
        """Half and delayed messages, which others check: they are somewhere else until they are committed or due."""
        self._found: set[str] = set()
        self._has_settled = True

    def see(self, event: RunEvent) -> None:
        match event:
            case SendBegan(name=name, is_half=is_half, due_ms=due_ms) if is_half or due_ms:
                self._elsewhere.add(name)
            case SendAcknowledged(name=name, is_safe=True) if self._is_checked and name not in self._elsewhere:
                self._open[name] = event
            case RecallEnded(name=name):
                self._open.pop(name, None)
            case ProcessEnded(who=who, how=how, safe_position=kept) if how == LOST_MORE:
                self._open = {
                    name: sent for name, sent in self._open.items() if sent.place[0] != who or sent.log_position < kept
                }
            case MessageFound(name=name, place=(_, topic, _)) if not topic.startswith("%"):
                self._found.add(name)
            case NotSettled():
                self._has_settled = False
            case _:
                pass

    def finish(self) -> None:
        for name, sent in self._open.items() if self._has_settled else ():
            if name not in self._found:
                words = f"{self.workload.brokers.copies_awaited} machines of {sent.place[0]} acknowledged {name}"
                self.broken(sent.at_ms, f"{words} (position {sent.log_position}), and it is gone at the end")


class OneMaster(Checker):
    """In each epoch of a broker one machine accepts messages: the one that takes over begins a newer one.

    Another log, with an epoch that there was already, is begun only after as many machines as have a message lost data,
    or if the one before had no message: a master with an empty disk can't know that there was one.
    """

    promise = "in each epoch, one machine of a broker is the master"
    hears = (MasterSeen, ProcessEnded)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._masters: dict[tuple[str, int], MasterSeen] = {}
        """The first one that was seen, by broker and epoch."""
        self._lost_ms: dict[str, int] = {}
        self._is_empty: dict[tuple[str, str], bool] = {}
        """Whether a log, by broker and id, had no message when it was seen last."""

    def see(self, event: RunEvent) -> None:
        match event:
            case ProcessEnded(at_ms=at_ms, who=who, how=how) if how == LOST_MORE:
                self._lost_ms[who] = at_ms
            case MasterSeen(broker=broker, epoch=epoch) if epoch:
                self._is_empty[broker, event.set_id] = event.end == 0
                self._compare(event, self._masters.setdefault((broker, epoch), event))
            case _:
                pass

    def _compare(self, event: MasterSeen, first: MasterSeen) -> None:
        may_begin = self._lost_ms.get(event.broker, -1) >= first.at_ms or self._is_empty[event.broker, first.set_id]
        if event.set_id != first.set_id and may_begin:
            self._masters[event.broker, event.epoch] = event
        elif (event.machine, event.set_id) != (first.machine, first.set_id):
            words = f"{event.machine} is the master of {event.broker} in epoch {event.epoch}"
            log = "" if event.set_id == first.set_id else " of another log"
            self.broken(event.at_ms, f"{words}, in which {first.machine} was the master{log}")


class ReplicasEqual(Checker):
    """At rest, the machines of a broker have the same log, byte by byte, and all slaves copy.

    A slave that refuses to copy its master until an administrator decides needs a reason: since all were in sync, one
    of the machines has lost data, or its disk has failed.
    """

    promise = "at rest, the logs of a master and of its slaves are equal, byte by byte"
    hears = (ReplicasSeen, ProcessEnded, FaultBegan, FaultEnded, NotSettled)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._spoiled: set[str] = set()
        """Brokers one of whose machines may have lost data since all were in sync."""
        self._failing: set[tuple[str, str]] = set()
        self._has_settled = True

    def see(self, event: RunEvent) -> None:
        match event:
            case NotSettled():
                self._has_settled = False
            case ReplicasSeen() if self._has_settled:
                self._compare(event)
            case ProcessEnded(who=who, how=how) if how in WITHOUT_DATA:
                self._spoiled.add(self.workload.brokers.set_of(who))
            case FaultBegan(what=what, target=who) if what in LOSING_FAULTS:
                self._failing.add((what, who))
                self._spoiled.add(self.workload.brokers.set_of(who))
            case FaultEnded(what=what, target=who) if what in LOSING_FAULTS:
                self._failing.discard((what, who))
            case FaultEnded(what="replication", target=name):
                if all(self.workload.brokers.set_of(who) != name for _, who in self._failing):
                    self._spoiled.discard(name)
            case FaultBegan(at_ms=at_ms, what=what, target=name) if what == DECIDES and name not in self._spoiled:
                self.broken(at_ms, f"a slave of {name} refuses to copy its master, and no machine of it has lost data")
            case _:
                pass

    def _compare(self, event: ReplicasSeen) -> None:
        for machine in self.workload.brokers.machines_of(event.broker):
            log = event.logs.get(machine)
            if log is None:
                self.broken(event.at_ms, f"{machine} isn't up at the end")
            elif log.problem:
                self.broken(event.at_ms, f"{machine} doesn't copy its master: {log.problem}")
        contents = {(log.epoch, log.end, log.digest): machine for machine, log in event.logs.items()}
        if len(contents) > 1:
            words = "; ".join(f"{machine}: epoch {at[0]}, end {at[1]}" for at, machine in contents.items())
            self.broken(event.at_ms, f"the logs of {event.broker} differ: {words}")


class OffsetsCopied(Checker):
    """After a failover, a group isn't further back than its offset was a slaveSyncPeriod before.

    If the same master comes back, it has the offsets that it wrote last: flushConsumerOffsetInterval. Only while
    nothing else was broken: a slave that was held or cut off has the offsets of then, and members that were connected
    to it may have committed others there. The end of a queue that has become shorter is a limit.
    """

    promise = (
        "after a failover, offsets are at most slaveSyncPeriod or flushConsumerOffsetInterval older than before it"
    )
    hears = (OffsetSeen, FaultBegan, FaultEnded, ProcessEnded)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        settings = workload.brokers.settings
        period_ms = int(settings.get("slave_sync_period", SYNC_PERIOD_MS))
        written_ms = int(settings.get("flush_consumer_offset_interval", WRITTEN_PERIOD_MS))
        self._kept_ms = max(period_ms, written_ms) + COPIED_LATE_MS
        self._is_checked = bool(workload.brokers.replicas)
        self._seen: dict[tuple[str, QueuePlace], deque[OffsetSeen]] = {}
        self._troubled_until_ms: dict[str, float] = {}
        self._open: dict[str, int] = {}
        self._ended_ms: dict[str, int] = {}

    def see(self, event: RunEvent) -> None:
        if not self._is_checked:
            return
        match event:
            case OffsetSeen():
                self._look(event)
            case FaultBegan(at_ms=at_ms, what=what, target=target):
                where = self.workload.brokers.set_of(target)
                if what not in ("replication", "kill master") or at_ms > self._ended_ms.get(where, at_ms) + 1:
                    self._open[where] = self._open.get(where, 0) + 1
                    self._troubled_until_ms[where] = at_ms
            case FaultEnded(at_ms=at_ms, target=target):
                where = self.workload.brokers.set_of(target)
                self._open[where] = max(0, self._open.get(where, 0) - 1)
                self._troubled_until_ms[where] = at_ms
            case ProcessEnded(at_ms=at_ms, who=who, how="gone"):
                self._ended_ms[who] = at_ms
            case _:
                pass

    def _look(self, event: OffsetSeen) -> None:
        seen = self._seen.setdefault((event.group, event.place), deque(maxlen=64))
        if seen and seen[-1].life != event.life:
            self._compare(event, seen)
            seen.clear()
        seen.append(event)

    def _compare(self, event: OffsetSeen, seen: deque[OffsetSeen]) -> None:
        name = event.place[0]
        ended_ms = self._ended_ms.get(name, 0)
        from_ms = ended_ms - 2 * self._kept_ms
        is_troubled = any(
            self._troubled_until_ms.get(where, -1) > from_ms or self._open.get(where, 0) for where in (name, "")
        )
        known = [one.offset for one in seen if one.at_ms <= ended_ms - self._kept_ms]
        if is_troubled or not known:
            return
        least = min(known[-1], event.end)
        if event.offset < least:
            words = f"{event.group} was at {known[-1]} of {event.place} for {self._kept_ms} ms before the failover"
            self.broken(event.at_ms, f"{words}, and is at {event.offset} after it")
