"""All routes, in the order in which people read them. The first three describe the endpoint, themselves included."""

from staticfire.control import clock, cluster, dlq, faults, group, journal, messages, metrics, putting_back
from staticfire.control.openapi import describe, page
from staticfire.control.routes import HTML, ControlCall, Reply, Route


def paths() -> dict[str, str]:
    """Return each path with what it is for."""
    return {f"{route.method} {route.plain_path}": route.text for route in ROUTES}


async def _what_there_is(call: ControlCall) -> Reply:
    """Answer processes, ports and folders, and all paths."""
    return Reply({**call.cluster.view.describe(), "paths": paths()})


async def _docs(call: ControlCall) -> Reply:
    """Answer the description as a page."""
    return Reply(page(ROUTES, call.cluster.url), kind=HTML)


async def _description(call: ControlCall) -> Reply:
    """Answer the OpenAPI description."""
    from importlib.metadata import version  # Here: it is slow to import, and a start doesn't need it.

    return Reply(describe(ROUTES, version("staticfire"), call.cluster.needs_token))


ROUTES: tuple[Route, ...] = (
    Route("GET", "/", "what the cluster consists of", _what_there_is),
    Route("GET", "/docs", "what can be asked, for people", _docs, kind=HTML),
    Route("GET", "/openapi.json", "what can be asked, for programs: an OpenAPI description", _description),
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
