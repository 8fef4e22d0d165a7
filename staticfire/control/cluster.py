"""The cluster as a whole: what it consists of, whether it can be used, as if it were new; and what can be asked."""

from staticfire.control.health import complaints
from staticfire.control.openapi import describe, page
from staticfire.control.reset import reset
from staticfire.control.routes import HTML, ControlCall, Reply, Route


async def what_there_is(asked: ControlCall) -> Reply:
    """Answer processes, ports and folders, and all paths."""
    return Reply({**asked.cluster.view.describe(), "paths": paths()})


def paths() -> dict[str, str]:
    """Return all that can be asked, in words."""
    from staticfire.control.all_routes import ROUTES as ALL  # It is made of this module, too.

    return {f"{route.method} {route.plain_path}": route.text for route in ALL}


async def health(asked: ControlCall) -> Reply:
    """Answer whether clients can work."""
    wrong = await complaints(asked.cluster.pool, asked.cluster.view)
    return Reply({"healthy": not wrong, "problems": wrong}, 503 if wrong else 200)


async def forget(asked: ControlCall) -> Reply:
    """Let the cluster be as if it were new."""
    return Reply(await reset(asked.cluster.pool, asked.cluster.namesrv, asked.cluster.view.addresses.values()))


async def description(asked: ControlCall) -> Reply:
    """Answer the OpenAPI description."""
    from importlib.metadata import version

    from staticfire.control.all_routes import ROUTES as ALL

    return Reply(describe(ALL, version("staticfire"), asked.cluster.needs_token))


async def docs(asked: ControlCall) -> Reply:
    """Answer the same as a page."""
    from staticfire.control.all_routes import ROUTES as ALL

    return Reply(page(ALL, asked.cluster.url), kind=HTML)


ROUTES = (
    Route("GET", "/", "what the cluster consists of", what_there_is),
    Route("GET", "/docs", "what can be asked, for people", docs, kind=HTML),
    Route("GET", "/openapi.json", "what can be asked, for programs: an OpenAPI description", description),
    Route(
        "GET", "/health", "200 when every listener accepts and every route is registered, else 503 and why", health,
        refusals={503: "it can't be used now: why"},
    ),
    Route("POST", "/reset", "forget all messages, topics, groups and offsets", forget),
)  # fmt: skip
