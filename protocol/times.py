"""The two kinds of milliseconds, as two types that are never mixed.

*Message time* can be frozen, advanced, scaled or skip ahead; stored and due times, transaction ages and
retention run on it. *Uptime* is the event loop's monotonic time; heartbeats, locks and deadlines run on it.
"""

from typing import NewType

MessageMs = NewType("MessageMs", int)
UptimeMs = NewType("UptimeMs", int)
