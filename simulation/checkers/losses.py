"""Which acknowledged messages the end of a process may destroy.

With ASYNC_FLUSH, a power loss may destroy what wasn't on the disk yet. So may any end of a broker that has responded
that the disk was slow, but not what a later sync covered.

A broker with slaves is one broker for checkers (`simulation/runs/replicas.py`). Its process ends with GONE when it has
no master any more, and then with FAILED_OVER when a machine serves again: messages from `safe_position` on are gone.
These may be acknowledged ones unless acknowledgements wait for copies. LOST_MORE: as many machines have lost data as
have each message, or an administrator has accepted the loss.

What a failing disk has is unknown.
"""

from collections import defaultdict

from staticfire.simulation.checkers.events import FaultBegan, FaultEnded, ProcessEnded, SendAcknowledged
from staticfire.simulation.workload.description import Brokers, Workload

GONE, FAILED_OVER, LOST_MORE = "gone", "failed over", "lost more"
DECIDES = "an administrator decides"
"""The fault of a broker whose slave has refused to copy its master for long: the slave takes over."""
WITHOUT_DATA = ("without power", "crashed")
"""Ends of a machine after which its log may be shorter."""
LOSING_FAULTS = ("lose disk", "failing syncs", "failing writes", "failing reads", "misdirected reads")
"""Faults of a machine after which its log may lack something, also while its process continues."""
SHORTENING = (*WITHOUT_DATA, FAILED_OVER, LOST_MORE)


def takes_acknowledged(ended: ProcessEnded, brokers: Brokers) -> bool:
    """Return whether acknowledged messages may be gone after the end of a process."""
    if ended.how == LOST_MORE:
        return True
    if ended.how == FAILED_OVER:
        return brokers.copies_awaited == 1
    if brokers.replicas and ended.who in brokers.machines:
        return False  # Its broker has other machines: what is lost is seen when one of them serves.
    return ended.how in WITHOUT_DATA and not brokers.flushes_at_once


class Losses:
    """The ends of brokers, and what each of them may have destroyed."""

    def __init__(self, workload: Workload) -> None:
        self._brokers = workload.brokers
        self._ends: dict[str, list[tuple[int, int, bool]]] = {}
        """For each broker and end: the time, the synced position, whether acknowledged messages may be lost by it."""

    def see(self, ended: ProcessEnded) -> None:
        """Note the end of a process."""
        is_taken = takes_acknowledged(ended, self._brokers)
        self._ends.setdefault(ended.who, []).append((ended.at_ms, ended.safe_position, is_taken))

    def may_have_taken(self, sent: SendAcknowledged, began_ms: int) -> bool:
        """Return whether a message may be lost by an end of its broker; the response may have been in flight then."""
        return any(
            end_ms >= began_ms and sent.log_position >= safe_position and (is_taken or not sent.is_safe)
            for end_ms, safe_position, is_taken in self._ends.get(sent.place[0], ())
        )


class RetriesAtRisk:
    """Messages whose retry only their master may have: they failed while a machine of their broker had a fault.

    If slaves don't confirm a send-back in time, it is refused, and the client sends the message to the retry topic
    instead. It takes FLUSH_SLAVE_TIMEOUT, too, as the end of that. So does RocketMQ's client.
    """

    def __init__(self, workload: Workload) -> None:
        self._brokers = workload.brokers
        self._open: defaultdict[str, int] = defaultdict(int)
        self._failed: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)

    def see(self, event: FaultBegan | FaultEnded) -> None:
        """Note that a fault began or ended."""
        self._open[self._brokers.set_of(event.target)] += 1 if isinstance(event, FaultBegan) else -1

    def failed(self, group: str, broker: str, name: str) -> None:
        """Note that a message of a broker failed in a group."""
        if self._open[broker] > 0:
            self._failed[broker].add((group, name))

    def taken_by(self, ended: ProcessEnded) -> set[tuple[str, str]]:
        """Return the groups and messages whose retries may be gone after the end of a process."""
        return self._failed[ended.who] if ended.how == FAILED_OVER else set()
