"""How often the cluster is asked what is new. Pure.

A stream without a trigger interval asks about ninety times a second while nothing comes. The first question after
something came is always passed on, so that a busy stream never waits; only what didn't change is believed for a
moment.
"""

from staticfire.protocol.times import UptimeMs

QUIET_MS = 15
# How long "nothing new" is believed: less than what a micro-batch may take longer than Spark's own.

ROUTE_MS = 1_000
# How long the list of queues is believed: so much later a new queue is seen.


class PollPace:
    """Says when to ask. One per query."""

    def __init__(self) -> None:
        self._quiet_until_ms = UptimeMs(0)
        self._routes_until_ms = UptimeMs(0)

    def may_ask(self, uptime_ms: UptimeMs) -> bool:
        """Whether the last answer is too old to be believed."""
        return uptime_ms >= self._quiet_until_ms

    def asked(self, uptime_ms: UptimeMs, changed: bool) -> None:
        """Note an answer; `changed`: it said something new."""
        self._quiet_until_ms = UptimeMs(0) if changed else UptimeMs(uptime_ms + QUIET_MS)

    def may_ask_routes(self, uptime_ms: UptimeMs) -> bool:
        """Whether the list of queues is to be fetched anew; noted as done."""
        if uptime_ms < self._routes_until_ms:
            return False
        self._routes_until_ms = UptimeMs(uptime_ms + ROUTE_MS)
        return True
