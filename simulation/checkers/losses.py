"""Which acknowledged messages the end of their broker may have destroyed.

With ASYNC_FLUSH, a power loss may destroy what wasn't on the disk yet. So may any end of a broker that has responded
that the disk was slow, but not what a later sync covered.
"""

from staticfire.simulation.checkers.events import ProcessEnded, SendAcknowledged
from staticfire.simulation.workload.description import Workload


class Losses:
    """The ends of brokers, and what each of them may have destroyed."""

    def __init__(self, workload: Workload) -> None:
        self._flushes_at_once = workload.brokers.flushes_at_once
        self._ends: dict[str, list[tuple[int, int, bool]]] = {}
        """For each broker and end: the time, the synced position, whether acknowledged messages may be lost by it."""

    def see(self, ended: ProcessEnded) -> None:
        """Note the end of a process."""
        is_taken = ended.how in ("without power", "crashed") and not self._flushes_at_once
        self._ends.setdefault(ended.who, []).append((ended.at_ms, ended.safe_position, is_taken))

    def may_have_taken(self, sent: SendAcknowledged, began_ms: int) -> bool:
        """Return whether a message may be lost by an end of its broker; the response may have been in flight then."""
        return any(
            end_ms >= began_ms and sent.log_position >= safe_position and (is_taken or not sent.is_safe)
            for end_ms, safe_position, is_taken in self._ends.get(sent.place[0], ())
        )
