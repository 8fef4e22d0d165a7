"""When a broker with slaves had an older master beside its present one.

A machine that was frozen, or whose disk is new while the nameserver has just started, takes itself for the master until
it learns of the other one. Meanwhile it accepts requests of clients that know it: consumers pass offsets of a log that
isn't kept, or are notified that their group doesn't pop. RocketMQ's machines do the same.
"""

from collections import defaultdict

from staticfire.simulation.checkers.events import MasterSeen

# Masters are looked at several times a second.
SEEN_AGAIN_MS = 1_000


class OlderMasters:
    """The times of older masters, by broker."""

    def __init__(self) -> None:
        self._epochs: dict[str, int] = {}
        self._times: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)

    def see(self, event: MasterSeen) -> None:
        """Note a machine that takes itself for the master."""
        newest = max(event.epoch, self._epochs.get(event.broker, 0))
        self._epochs[event.broker] = newest
        if event.epoch == newest:
            return
        times = self._times[event.broker]
        if times and event.at_ms <= times[-1][1] + SEEN_AGAIN_MS:
            times[-1] = (times[-1][0], event.at_ms)
        else:
            times.append((event.at_ms, event.at_ms))

    def were_beside(self, at_ms: int, after_ms: int, broker: str | None = None) -> bool:
        """Return whether a broker, or any, had an older master then, or in the `after_ms` before."""
        names = self._times if broker is None else (broker,)
        return any(
            first <= at_ms <= last + after_ms
            for name in names
            if name in self._times
            for first, last in self._times[name]
        )
