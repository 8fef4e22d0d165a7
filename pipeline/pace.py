"""How often the cluster is polled for new messages. Pure.

A stream without a trigger interval polls about ninety times per second while there are no new messages. So after a poll
without news the next one waits a little, and then sees the messages of the meantime. A response is never older than its
request, which `processAllAvailable` relies on. A busy stream never waits.
"""

from staticfire.protocol.times import UptimeMs

# The pause after a poll without news. It is shorter than the time that a micro-batch may take beyond Spark's own.
QUIET_MS = 15

# How long the list of queues is used before it is fetched again. A new queue is found after at most this time.
ROUTE_MS = 1_000


class PollPace:
    """Decides when to poll. One per query."""

    def __init__(self) -> None:
        self._quiet_until_ms = UptimeMs(0)
        self._routes_until_ms = UptimeMs(0)

    def wait_ms(self, uptime_ms: UptimeMs) -> int:
        """Return how long the next poll must wait."""
        return max(0, self._quiet_until_ms - uptime_ms)

    def queried(self, uptime_ms: UptimeMs, changed: bool) -> None:
        """Note a response. `changed`: whether it had news."""
        self._quiet_until_ms = UptimeMs(0) if changed else UptimeMs(uptime_ms + QUIET_MS)

    def may_ask_routes(self, uptime_ms: UptimeMs) -> bool:
        """Return whether the list of queues must be fetched again. If so, note that it is fetched now."""
        if uptime_ms < self._routes_until_ms:
            return False
        self._routes_until_ms = UptimeMs(uptime_ms + ROUTE_MS)
        return True
