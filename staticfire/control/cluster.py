"""The cluster as a whole: check whether clients can use it, and reset it."""

from staticfire.control.health import complaints
from staticfire.control.reset import reset
from staticfire.control.routes import ControlCall, Reply, Route


async def health(call: ControlCall) -> Reply:
    """Return whether clients can use the cluster."""
    wrong = await complaints(call.cluster.pool, call.cluster.view)
    return Reply({"healthy": not wrong, "problems": wrong}, 503 if wrong else 200)


async def forget(call: ControlCall) -> Reply:
    """Make the cluster empty, as after its start."""
    return Reply(await reset(call.cluster.pool, call.cluster.namesrv, call.cluster.known_brokers))


ROUTES = (
    Route(
        "GET", "/health", "200 if clients can use the cluster, otherwise 503 and the problems", health,
        refusals={503: "clients can't use the cluster now; the response lists the problems"},
    ),
    Route("POST", "/reset", "delete all messages, topics, groups and offsets", forget),
)  # fmt: skip
