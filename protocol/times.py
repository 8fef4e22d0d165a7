"""The two kinds of milliseconds, as two types that are never mixed.

*Message time* can be frozen, advanced, scaled, or skip ahead. Store and due times, transaction ages and retention use
it. *Uptime* is the event loop's monotonic time. Heartbeats, locks and deadlines use it.
"""

from typing import NewType

MessageMs = NewType("MessageMs", int)
UptimeMs = NewType("UptimeMs", int)
