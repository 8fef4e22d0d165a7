"""Snapshots over HTTP: the operations of `staticfire snapshot`, under the same names."""

from staticfire.control import snapshots
from staticfire.control.routes import ControlCall, Reply, Route


async def show(call: ControlCall) -> Reply:
    """Return all snapshots."""
    return Reply({"snapshots": await snapshots.saved(call.cluster.pool, await call.cluster.masters())})


async def save(call: ControlCall) -> Reply:
    """Save the cluster as a snapshot."""
    return Reply(await snapshots.save(call.cluster.pool, await call.cluster.masters(), call.place["name"]))


async def restore(call: ControlCall) -> Reply:
    """Restore a snapshot."""
    cluster = call.cluster
    return Reply(await snapshots.restore(cluster.pool, cluster.namesrv, cluster.known_brokers, call.place["name"]))


async def remove(call: ControlCall) -> Reply:
    """Remove a snapshot."""
    name, cluster = call.place["name"], call.cluster
    there = await snapshots.saved(cluster.pool, await cluster.masters())
    if name not in [one["name"] for one in there]:
        return Reply({"error": f"there is no snapshot {name}"}, 404)
    await snapshots.remove(cluster.pool, await cluster.masters(), name)
    return Reply({"removed": 1})


ROUTES = (
    Route("GET", "/snapshots", "all snapshots", show),
    Route("POST", "/snapshots/{name}", "save the cluster as a snapshot; an older one of that name is replaced", save),
    Route("POST", "/snapshots/{name}/restore", "restore the cluster from a snapshot; clients stay connected", restore),
    Route(
        "DELETE", "/snapshots/{name}", "remove a snapshot", remove, refusals={404: "there is no snapshot of that name"}
    ),
)
