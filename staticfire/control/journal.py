"""What happened and what was asked, over HTTP.

Behaviour
- GET /journal: events, oldest first; ?kind=joined,left &client= &group= &topic= &queue= &broker=, and ?max=100 for the
  newest. GET /requests: the same of requests, with ?code=PULL_MESSAGE in place of kinds.
- 400 for what can't be read; 404 where no journal is kept.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from staticfire.client import Admin, JournalRecords
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer, ClientError, UsageError

PATHS = {
    "GET /journal": "what happened: ?kind=joined,left &client= &group= &topic= &queue= &broker= &max=",
    "GET /requests": "what clients asked: ?code=PULL_MESSAGE &client= &group= &topic= &queue= &broker= &max=",
}
_NAMES = {"client", "group", "topic", "queue", "broker", "max"}

Answer = tuple[int, dict[str, Any]]


async def events(namesrv: str, query: Mapping[str, str]) -> Answer:
    """Answer what happened."""
    kinds = [kind.strip() for kind in query.get("kind", "").split(",") if kind.strip()]

    async def ask(admin: Admin, wanted: dict[str, Any]) -> JournalRecords:
        return await admin.journal(*kinds, **wanted)

    return await _answered(namesrv, query, "kind", ask)


async def requests(namesrv: str, query: Mapping[str, str]) -> Answer:
    """Answer what was asked."""
    code = query.get("code") or None

    async def ask(admin: Admin, wanted: dict[str, Any]) -> JournalRecords:
        return await admin.requests(int(code) if code and code.isdecimal() else code, **wanted)

    return await _answered(namesrv, query, "code", ask)


async def _answered(namesrv: str, query: Mapping[str, str], what: str, ask: Any) -> Answer:
    """Return status and content of an answer. Raises: NetworkError, BrokerAnswer."""
    try:
        unknown = sorted(query.keys() - _NAMES - {what})
        if unknown:
            raise UsageError(f"{unknown[0]} is unknown here; there are {', '.join([what, *sorted(_NAMES)])}")
        wanted = {name: query[name] for name in ("client", "group", "topic") if query.get(name)}
        records_max = _number(query, "max", 1)
        queue_id = _number(query, "queue", 0)
        async with Admin(namesrv) as admin:
            found = await ask(admin, {**wanted, "queue_id": queue_id, "broker_name": query.get("broker") or None})
    except (UsageError, ClientError) as error:
        return 400, {"error": str(error)}
    except BrokerAnswer as error:
        if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
        return 404, {"error": error.remark}
    shown = found if records_max is None else found[-records_max:]
    return 200, {"dropped": found.dropped, "records": [msgspec.to_builtins(one) for one in shown]}


def _number(query: Mapping[str, str], name: str, least: int) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not text.isdecimal() or not text.isascii() or int(text) < least:
        raise UsageError(f"{name}={text}: a whole number is needed, {least} or more")
    return int(text)
