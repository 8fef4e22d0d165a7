"""Brokers check open transactions in time, and no send fails without a fault."""

from staticfire.simulation.checkers.checker import Checker
from staticfire.simulation.checkers.delivery import TRANSACTION_CHECK_MS
from staticfire.simulation.checkers.events import (
    GoneForGood,
    NotSettled,
    ProcessEnded,
    RunEvent,
    SendAcknowledged,
    SendBegan,
    SendFailed,
    Settled,
    TransactionEnded,
)
from staticfire.simulation.checkers.lateness import ARRIVES_MS, TROUBLE, fellows_of
from staticfire.simulation.checkers.losses import Losses
from staticfire.simulation.checkers.unrest import CalmTimes
from staticfire.simulation.workload.description import Workload

# RocketMQ: transactionTimeOut.
TRANSACTION_TIME_OUT_MS = 6_000


class ChecksInTime(Checker):
    """A transaction that its producer hasn't ended is checked by the broker after its timeout.

    If all machines of a program are gone for good, no producer can get checks of its transactions. Nor does a broker
    check a half message that an end of its process may have destroyed (losses.py). A client rolls back at once what was
    stored with another status than SEND_OK.
    """

    promise = "a broker checks an open transaction within its time-out and one check interval"
    hears = (SendBegan, SendAcknowledged, TransactionEnded, *TROUBLE, Settled, NotSettled)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._calm = CalmTimes(workload)
        settings = workload.brokers.settings
        self._takes_ms = (
            settings.get("transaction_time_out", TRANSACTION_TIME_OUT_MS)
            + settings.get("transaction_check_interval", TRANSACTION_CHECK_MS)
            + ARRIVES_MS
        )
        self._losses = Losses(workload)
        self._halves: dict[str, int] = {}
        """Half messages, and when their sends began."""
        self._ended: set[str] = set()
        self._open: dict[str, SendAcknowledged] = {}
        self._fellows = fellows_of(workload)
        self._gone: set[str] = set()

    def see(self, event: RunEvent) -> None:
        match event:
            case SendBegan(at_ms=at_ms, name=name, is_half=True):
                self._halves[name] = at_ms
            case SendBegan():
                pass
            case SendAcknowledged(name=name):
                if event.is_safe and name in self._halves and name not in self._ended:
                    self._open[name] = event
            case TransactionEnded(at_ms=at_ms, name=name):
                self._ended.add(name)
                sent = self._open.pop(name, None)
                if sent is not None:
                    self._check(sent, at_ms)
            case GoneForGood(who=who):
                self._gone.add(who)
                for name in [name for name in self._open if self._gone.issuperset(self._fellows_at(name))]:
                    del self._open[name]
                self._calm.see(event)
            case _:
                if isinstance(event, ProcessEnded):
                    self._losses.see(event)
                for name in [name for name, sent in self._open.items() if self._check(sent, event.at_ms)]:
                    del self._open[name]
                self._calm.see(event)

    def _fellows_at(self, name: str) -> tuple[str, ...]:
        """Return the machines that can get a check of a message's transaction."""
        return self._fellows.get(name.partition("/")[0], ())

    def _check(self, sent: SendAcknowledged, at_ms: int) -> bool:
        """Return whether a transaction should have been checked earlier, and report that, or whether it may be lost."""
        if at_ms <= sent.at_ms + self._takes_ms:
            return False
        if self._losses.may_have_taken(sent, self._halves[sent.name]):
            return True
        machines = (sent.place[0], "nameserver", "", *self._fellows_at(sent.name))
        late_ms = at_ms - max(sent.at_ms, self._calm.excused_until(machines)) - self._takes_ms
        if late_ms <= 0:
            return False
        self.broken(at_ms, f"no check of {sent.name} for {at_ms - sent.at_ms} ms, {round(late_ms)} ms too long")
        return True


class SendsSucceed(Checker):
    """A send succeeds unless servers, links, or the program itself have a fault.

    A request, which waits for a reply, also needs the group that replies.
    """

    promise = "no send fails while nothing is broken"
    hears = (SendBegan, SendFailed, *TROUBLE)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._calm = CalmTimes(workload)
        self._servers = (*workload.brokers.names, "nameserver", "")
        requested = {one.topic for one in workload.producers if one.asks_ms}
        self._replying = {topic: group for group in workload.groups for topic in requested.intersection(group.topics)}
        self._began: dict[str, SendBegan] = {}

    def see(self, event: RunEvent) -> None:
        match event:
            case SendBegan(name=name):
                self._began[name] = event
            case SendFailed(at_ms=at_ms, name=name, reason=reason):
                began = self._began.get(name)
                if began is not None and began.at_ms > self._excused_until(began):
                    self.broken(at_ms, f"the send of {name} failed, and nothing was broken: {reason}")
            case _:
                self._calm.see(event)

    def _excused_until(self, began: SendBegan) -> float:
        until_ms = self._calm.excused_until((*self._servers, began.name.partition("/")[0]))
        group = self._replying.get(began.topic)
        return until_ms if group is None else max(until_ms, self._calm.group_excused_until(group))
