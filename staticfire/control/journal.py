"""Recorded events and requests over HTTP.

Behaviour
- GET /journal returns events, oldest first. Filters: ?kind=joined,left &client= &group= &topic= &queue= &broker=;
  ?max=100 returns the newest. GET /requests does the same for requests, with ?code=PULL_MESSAGE instead of kinds.
- 400 for unreadable values; 404 if the cluster keeps no journal.
"""

from typing import Any

import msgspec

from staticfire.client import JournalRecords
from staticfire.client.admin.journal import code_of
from staticfire.control.routes import ControlCall, Parameter, Reply, Route
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer

QUEUE_MAX = (1 << 31) - 1
_CHOSEN = (
    Parameter("client", "a client's id, or one part of it"),
    Parameter("group", "a consumer group"),
    Parameter("topic", "a topic"),
    Parameter("queue", "a queue's id", "integer", 0, QUEUE_MAX),
    Parameter("broker", "a broker's name"),
    Parameter("max", "how many, the newest", "integer", 1),
)


async def events(call: ControlCall) -> Reply:
    """Return the recorded events."""
    kinds = [kind.strip() for kind in call.query.get("kind", "").split(",") if kind.strip()]
    async with call.cluster.admin() as admin:
        try:
            return _shown(await admin.journal(*kinds, **_wanted(call), newest=call.query.get("max")), call)
        except BrokerAnswer as error:
            return _none_kept(error)


async def requests(call: ControlCall) -> Reply:
    """Return the recorded requests."""
    code: str = call.query.get("code", "")
    async with call.cluster.admin() as admin:
        try:
            return _shown(await admin.requests(code_of(code) if code else None, **_wanted(call)), call)
        except BrokerAnswer as error:
            return _none_kept(error)


def _wanted(call: ControlCall) -> dict[str, Any]:
    query = call.query
    named = {name: query[name] for name in ("client", "group", "topic") if query.get(name)}
    return {**named, "queue_id": query.get("queue"), "broker_name": query.get("broker") or None}


def _shown(found: JournalRecords, call: ControlCall) -> Reply:
    records_max = call.query.get("max")
    shown = found if records_max is None else found[-records_max:]
    return Reply({"dropped": found.dropped, "records": [msgspec.to_builtins(one) for one in shown]})


def _none_kept(error: BrokerAnswer) -> Reply:
    """Return a 404 if no journal is kept. Raises: BrokerAnswer (any other error)."""
    if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        raise error
    return Reply({"error": error.remark}, 404)


_NONE = {404: "no journal is kept: the setting journalEnable, or recordRequests, is off"}
ROUTES = (
    Route(
        "GET",
        "/journal",
        "recorded events: ?kind=joined,left &client= &group= &topic= &queue= &broker= &max=",
        events,
        (Parameter("kind", "kinds of events, separated by commas"), *_CHOSEN),
        refusals=_NONE,
    ),
    Route(
        "GET",
        "/requests",
        "recorded requests of clients: ?code=PULL_MESSAGE &client= &group= &topic= &queue= &broker= &max=",
        requests,
        (Parameter("code", "a request code, by RocketMQ's name or number"), *_CHOSEN),
        refusals=_NONE,
    ),
)
