"""How often the cluster is asked what is new. Pure.

A stream without a trigger interval asks about ninety times a second while nothing comes. So a question that follows one
with nothing new waits a little, and then sees what came meanwhile: no answer is ever older than its question, which
`processAllAvailable` counts on. A busy stream never waits.
"""

from staticfire.protocol.times import UptimeMs

QUIET_MS = 15
# Between "nothing new" and the next question: less than what a micro-batch may take longer than Spark's own.

ROUTE_MS = 1_000
# How long the list of queues is believed: so much later a new queue is seen.


class PollPace:
    """Says when to ask. One per query."""

    def __init__(self) -> None:
        self._quiet_until_ms = UptimeMs(0)
        self._routes_until_ms = UptimeMs(0)

    def wait_ms(self, uptime_ms: UptimeMs) -> int:
        """Return how long the next question has to wait."""
        return max(0, self._quiet_until_ms - uptime_ms)

    def asked(self, uptime_ms: UptimeMs, changed: bool) -> None:
        """Note an answer; `changed`: it said something new."""
        self._quiet_until_ms = UptimeMs(0) if changed else UptimeMs(uptime_ms + QUIET_MS)

    def may_ask_routes(self, uptime_ms: UptimeMs) -> bool:
        """Whether the list of queues is to be fetched anew; noted as done."""
        if uptime_ms < self._routes_until_ms:
            return False
        self._routes_until_ms = UptimeMs(uptime_ms + ROUTE_MS)
        return True
