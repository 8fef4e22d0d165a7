"""The brokers that a producer avoids, and until when. Pure. RocketMQ: MQFaultStrategy, LatencyFaultToleranceImpl.

Invariant: an entry of `avoided` only moves to a later time, until that time is over.
"""

from bisect import bisect_right

from staticfire.protocol.times import UptimeMs

LATENCY_MAX_MS = (50, 100, 550, 1_800, 3_000, 5_000, 15_000)
NOT_AVAILABLE_MS = (0, 0, 2_000, 5_000, 6_000, 10_000, 30_000)
"""How long a broker is avoided after a response that took at least as long as the same entry of LATENCY_MAX_MS."""
ISOLATED_LATENCY_MS = 10_000
"""The latency that a failed send counts as."""


def not_available_ms(latency_ms: int) -> int:
    """Return how long other brokers are preferred to one with this latency."""
    place = bisect_right(LATENCY_MAX_MS, latency_ms) - 1
    return NOT_AVAILABLE_MS[place] if place >= 0 else 0


class BrokerFaults:
    """Known faults of brokers, by broker name."""

    def __init__(self) -> None:
        self.avoided: dict[str, UptimeMs] = {}
        """The time until which other brokers are preferred to these. May contain entries whose time is over."""
        self.unreachable: dict[str, UptimeMs] = {}
        """If all brokers are avoided, these are chosen last, until one is reached; with the time of the next check."""

    def avoid(self, broker_name: str, for_ms: int, uptime_ms: UptimeMs) -> None:
        """Prefer other brokers for this time."""
        until_ms = UptimeMs(uptime_ms + for_ms)
        if for_ms > 0 and until_ms > self.avoided.get(broker_name, 0):
            self.avoided[broker_name] = until_ms

    def answered(self, broker_name: str, latency_ms: int, uptime_ms: UptimeMs) -> None:
        """Note a broker's latency for a send."""
        self.avoid(broker_name, not_available_ms(latency_ms), uptime_ms)
        self.unreachable.pop(broker_name, None)

    def failed(self, broker_name: str, is_reachable: bool, uptime_ms: UptimeMs) -> None:
        """Note that a broker didn't accept a message."""
        self.avoid(broker_name, not_available_ms(ISOLATED_LATENCY_MS), uptime_ms)
        if is_reachable:
            self.unreachable.pop(broker_name, None)
        else:
            self.unreachable.setdefault(broker_name, uptime_ms)

    def lapse(self, uptime_ms: UptimeMs) -> None:
        """Remove entries whose time is over."""
        for broker_name in [name for name, until_ms in self.avoided.items() if until_ms <= uptime_ms]:
            del self.avoided[broker_name]

    def to_look_at(self, interval_ms: int, uptime_ms: UptimeMs) -> list[str]:
        """Return the unreachable brokers that are due for a check, and set the time of their next one."""
        due = [name for name, look_ms in self.unreachable.items() if look_ms <= uptime_ms]
        for broker_name in due:
            self.unreachable[broker_name] = UptimeMs(uptime_ms + interval_ms)
        return due

    def reached(self, broker_name: str) -> None:
        """Note that an unreachable broker responds again, or that there is no broker of that name."""
        self.unreachable.pop(broker_name, None)
