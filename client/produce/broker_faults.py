"""Which brokers a producer keeps away from, and until when. Pure. RocketMQ: MQFaultStrategy, LatencyFaultToleranceImpl.

Invariant: an entry of `avoided` only ever moves to a later time, until its time is over.
"""

from bisect import bisect_right

from staticfire.protocol.times import UptimeMs

LATENCY_MAX_MS = (50, 100, 550, 1_800, 3_000, 5_000, 15_000)
NOT_AVAILABLE_MS = (0, 0, 2_000, 5_000, 6_000, 10_000, 30_000)
"""For how long a broker isn't available whose answer took at least as long as the entry of LATENCY_MAX_MS."""
ISOLATED_LATENCY_MS = 10_000
"""What counts as the latency of a send that failed."""


def not_available_ms(latency_ms: int) -> int:
    """Return for how long others are preferred to a broker that took so long."""
    place = bisect_right(LATENCY_MAX_MS, latency_ms) - 1
    return NOT_AVAILABLE_MS[place] if place >= 0 else 0


class BrokerFaults:
    """What is known against brokers, by their name."""

    def __init__(self) -> None:
        self.avoided: dict[str, UptimeMs] = {}
        """Until when other brokers are preferred to these; may hold some whose time is over."""
        self.unreachable: dict[str, UptimeMs] = {}
        """Brokers that are the last to be chosen, until a send or the detector reaches them: when to look again."""

    def avoid(self, broker_name: str, for_ms: int, uptime_ms: UptimeMs) -> None:
        """Prefer other brokers for so long."""
        until_ms = UptimeMs(uptime_ms + for_ms)
        if for_ms > 0 and until_ms > self.avoided.get(broker_name, 0):
            self.avoided[broker_name] = until_ms

    def answered(self, broker_name: str, latency_ms: int, uptime_ms: UptimeMs) -> None:
        """Note how long a broker took for a send."""
        self.avoid(broker_name, not_available_ms(latency_ms), uptime_ms)
        self.unreachable.pop(broker_name, None)

    def failed(self, broker_name: str, is_reachable: bool, uptime_ms: UptimeMs) -> None:
        """Note that a broker didn't take a message."""
        self.avoid(broker_name, not_available_ms(ISOLATED_LATENCY_MS), uptime_ms)
        if is_reachable:
            self.unreachable.pop(broker_name, None)
        else:
            self.unreachable.setdefault(broker_name, uptime_ms)

    def lapse(self, uptime_ms: UptimeMs) -> None:
        """Forget what is over."""
        for broker_name in [name for name, until_ms in self.avoided.items() if until_ms <= uptime_ms]:
            del self.avoided[broker_name]

    def to_look_at(self, interval_ms: int, uptime_ms: UptimeMs) -> list[str]:
        """Return the unreachable brokers whose turn it is to be looked at, and give each its next turn."""
        due = [name for name, look_ms in self.unreachable.items() if look_ms <= uptime_ms]
        for broker_name in due:
            self.unreachable[broker_name] = UptimeMs(uptime_ms + interval_ms)
        return due

    def reached(self, broker_name: str) -> None:
        """Note that an unreachable broker answers again, or that there is none of that name."""
        self.unreachable.pop(broker_name, None)
