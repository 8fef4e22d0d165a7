"""All that can be asked, in the order in which people read it."""

from staticfire.control import clock, cluster, dlq, faults, group, journal, messages, metrics, putting_back
from staticfire.control.routes import Route

ROUTES: tuple[Route, ...] = (
    *cluster.ROUTES,
    *metrics.ROUTES,
    *messages.ROUTES,
    *group.ROUTES,
    *dlq.ROUTES,
    *clock.ROUTES,
    *putting_back.ROUTES,
    *faults.ROUTES,
    *journal.ROUTES,
)
