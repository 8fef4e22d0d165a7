"""The cluster as a whole: check whether clients can use it, and reset it."""

from staticfire.control.health import complaints
from staticfire.control.reset import reset
from staticfire.control.routes import ControlCall, Reply, Route


async def health(asked: ControlCall) -> Reply:
    """Return whether clients can use the cluster."""
    wrong = await complaints(asked.cluster.pool, asked.cluster.view)
    return Reply({"healthy": not wrong, "problems": wrong}, 503 if wrong else 200)


async def forget(asked: ControlCall) -> Reply:
    """Make the cluster empty, as after its start."""
    return Reply(await reset(asked.cluster.pool, asked.cluster.namesrv, (await asked.cluster.masters()).values()))


ROUTES = (
    Route(
        "GET", "/health", "200 if clients can use the cluster, otherwise 503 and the problems", health,
        refusals={503: "clients can't use the cluster now; the response lists the problems"},
    ),
    Route("POST", "/reset", "delete all messages, topics, groups and offsets", forget),
)  # fmt: skip
