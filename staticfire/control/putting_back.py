"""Snapshots over HTTP: the operations of `staticfire snapshot`, under the same names."""

from staticfire.control import snapshots
from staticfire.control.routes import ControlCall, Reply, Route


async def show(asked: ControlCall) -> Reply:
    """Return all snapshots."""
    return Reply({"snapshots": await snapshots.saved(asked.cluster.pool, await asked.cluster.masters())})


async def save(asked: ControlCall) -> Reply:
    """Save the cluster as a snapshot."""
    return Reply(await snapshots.save(asked.cluster.pool, await asked.cluster.masters(), asked.place["name"]))


async def restore(asked: ControlCall) -> Reply:
    """Restore a snapshot."""
    cluster = asked.cluster
    return Reply(await snapshots.restore(cluster.pool, cluster.namesrv, await cluster.masters(), asked.place["name"]))


async def remove(asked: ControlCall) -> Reply:
    """Remove a snapshot."""
    name, cluster = asked.place["name"], asked.cluster
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
