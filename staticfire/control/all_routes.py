"""All routes, in the order of the documentation. The first three describe the endpoint itself."""

from staticfire.control import (
    brokers,
    clients,
    clock,
    cluster,
    dlq,
    faults,
    group,
    group_changes,
    journal,
    messages,
    metrics,
    offset_changes,
    overview,
    putting_back,
    replication,
    sending,
    timed_messages,
    topic_changes,
    topic_facts,
    traces,
    users,
    waiting,
    waiting_messages,
)
from staticfire.control.openapi import describe, page
from staticfire.control.routes import HTML, ControlCall, Reply, Route


def paths() -> dict[str, str]:
    """Return each path with its purpose."""
    return {f"{route.method} {route.plain_path}": route.text for route in ROUTES}


async def _what_there_is(call: ControlCall) -> Reply:
    """Return processes, ports, folders, all paths, and which brokers must be there, if that is known.

    The program that started the processes knows it. In another cluster, a broker that is gone may have been removed on
    purpose.
    """
    view = call.cluster.view
    brokers = {} if view.process_faults is None else {"brokers": sorted(view.addresses)}
    return Reply({**view.describe(), **brokers, "paths": paths()})


async def _docs(call: ControlCall) -> Reply:
    """Return the description as an HTML page."""
    return Reply(page(ROUTES, call.cluster.url), kind=HTML)


async def _description(call: ControlCall) -> Reply:
    """Return the OpenAPI description."""
    from importlib.metadata import version  # Here: it is slow to import, and a start doesn't need it.

    return Reply(describe(ROUTES, version("staticfire"), call.cluster.needs_token))


ROUTES: tuple[Route, ...] = (
    Route("GET", "/", "the processes, ports and folders of the cluster, and all paths", _what_there_is),
    Route("GET", "/docs", "this description as a page", _docs, kind=HTML),
    Route("GET", "/openapi.json", "this description for programs: OpenAPI", _description),
    *cluster.ROUTES,
    *overview.ROUTES,
    *brokers.ROUTES,
    *metrics.ROUTES,
    *messages.ROUTES,
    *topic_facts.ROUTES,
    *topic_changes.ROUTES,
    *timed_messages.ROUTES,
    *sending.ROUTES,
    *traces.ROUTES,
    *group.ROUTES,
    *group_changes.ROUTES,
    *offset_changes.ROUTES,
    *waiting.ROUTES,
    *waiting_messages.ROUTES,
    *clients.ROUTES,
    *dlq.ROUTES,
    *clock.ROUTES,
    *putting_back.ROUTES,
    *replication.ROUTES,
    *faults.ROUTES,
    *users.ROUTES,
    *journal.ROUTES,
)
