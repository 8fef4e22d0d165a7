"""Masters and slaves over HTTP: the operations of `staticfire replication` and `staticfire failover`.

Behaviour
- GET /replication returns all masters and slaves. POST /replication/broker-a-1?hold=true holds a copy, `hold=false`
  releases it, `lag=5s` delays it, `sync=true` copies topics, groups and offsets now.
- POST /failover/broker-a?to=1&losing=100 lets a slave take over. 409 if messages would be lost, or there is no slave.
"""

from typing import Any

import msgspec

from staticfire.client.admin.replica_view import object_of
from staticfire.control.routes import ControlCall, Parameter, Reply, Route
from staticfire.protocol.durations import parse_duration
from staticfire.protocol.errors import ClientError
from staticfire.protocol.requests.replication import ControlReplication

CONFLICT = 409
COUNT_MAX = 1 << 31


async def show(call: ControlCall) -> Reply:
    """Return all masters and slaves."""
    replicas = await call.cluster.replicas.all()
    return Reply({"replicas": [object_of(one, replicas) for one in replicas]})


async def control(call: ControlCall) -> Reply:
    """Hold, release or delay a copy."""
    query, lag = call.query, call.query.get("lag")
    lag_ms = None if lag is None else 0 if lag == "0" else parse_duration(lag)
    request = ControlReplication(query.get("hold"), lag_ms, bool(query.get("sync")))
    admin = call.cluster.replicas
    try:
        changed = await admin.control(call.place["slave"], request)
    except ClientError as error:
        return Reply({"error": str(error)}, 404)
    return Reply(object_of(changed, await admin.all(changed.broker_name)))


async def failover(call: ControlCall) -> Reply:
    """Let a slave take over."""
    query = call.query
    try:
        done = await call.cluster.replicas.failover(call.place["broker"], query.get("to"), query.get("losing"))
    except ClientError as error:
        return Reply({"error": str(error)}, CONFLICT)
    shown: dict[str, Any] = msgspec.to_builtins(done)
    return Reply(shown)


ROUTES = (
    Route("GET", "/replication", "masters and slaves: who copies from which broker, how far behind", show),
    Route(
        "POST",
        "/replication/{slave}",
        "hold, release or delay the copy of a slave",
        control,
        (
            Parameter("hold", "true: the slave copies nothing more; false: it copies again", "boolean"),
            Parameter("lag", "store each message that much later than the master, like 5s; 0 ends that"),
            Parameter("sync", "copy topics, groups and offsets now", "boolean"),
        ),
        refusals={404: "there is no slave of that name"},
    ),
    Route(
        "POST",
        "/failover/{broker}",
        "let a slave become the master",
        failover,
        (
            Parameter("to", "the id of the slave; default: the one with most of the log", "integer", 1),
            Parameter("losing", "the last messages of the master are lost, this many", "integer", 0, COUNT_MAX),
        ),
        refusals={CONFLICT: "there is no such slave, or messages would be lost"},
    ),
)
