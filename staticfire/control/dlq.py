"""Dead letters over HTTP.

Behaviour
- GET /dlq counts them by group. GET /dlq/billing shows the oldest (?max=20; ?last=1 for the newest), ?match=paid those
  with a text: "searched" is how many letters it looked at, "next" the ?skip= that continues, or null. GET
  /dlq/billing/letters/broker-a/0/17 shows one of them, GET /dlq/billing/export all, as JSON lines.
- POST /dlq/billing/resend `{"ids": ["broker-a/0/17"]}` or `{"all": true}` resends them; "to", "onlyGroup", "again" and
  "from" are as on the command line.
- 404 for an unknown group or letter, 400 for unreadable values, 409 for a resend that a broker interrupted ("next" is
  the first letter that wasn't sent), or while another one is running.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from staticfire.client import DeadLetterQueue, ResendInterrupted, ResendReport, ResendRunning
from staticfire.client.admin.letter_search import SEARCHED_MAX, search_letters
from staticfire.control.routes import LINES, ControlCall, Parameter, Reply, Route, read_body
from staticfire.protocol.errors import ClientError, UsageError

LETTERS_SHOWN = 20
LETTERS_SHOWN_MAX = 10_000


class ResendOrder(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The body of a POST. `all` is its name there."""

    ids: list[str] = []
    is_all: bool = msgspec.field(name="all", default=False)
    to: str | None = None
    only_group: bool = False
    again: bool = False
    start: str | None = msgspec.field(name="from", default=None)


async def counts(call: ControlCall) -> Reply:
    """Return the number of dead letters of each group."""
    async with call.cluster.admin() as admin:
        return Reply({"groups": await admin.dead_letters()})


async def letters(call: ControlCall) -> Reply:
    """Return the oldest or newest dead letters of a group."""
    group = call.place["group"]
    try:
        async with _queue(call) as queue:
            return Reply({"group": group, **await _chosen(queue, call.query)})
    except ClientError as error:
        return _not_found(error)


async def _chosen(queue: DeadLetterQueue, query: Mapping[str, Any]) -> dict[str, Any]:
    """Return the wanted letters, and the number of all. A search also returns where to continue."""
    limit, newest, skip = query.get("max", LETTERS_SHOWN), query.get("last", False), query.get("skip", 0)
    text = query.get("match", "")
    if not text:
        part = await queue.part(limit, newest, skip)
        return {"count": part.total, "letters": [one.as_json() for one in part.letters]}
    found = await search_letters(queue, text, limit, newest, skip)
    upto = skip + found.searched
    return {
        "count": found.total,
        "letters": [one.as_json() for one in found.letters],
        "searched": found.searched,
        "next": upto if upto < found.total else None,
    }


async def letter(call: ControlCall) -> Reply:
    """Return one dead letter."""
    try:
        async with _queue(call) as queue:
            return Reply((await queue.find(call.place["letter"])).as_json())
    except ClientError as error:
        return _not_found(error)


async def export(call: ControlCall) -> Reply:
    """Return all dead letters. An unknown group is detected before the response starts, so that it gets a 404."""
    try:
        async with _queue(call) as queue:
            await queue.count()
    except ClientError as error:
        return _not_found(error)
    return Reply(_lines(call), kind=LINES)


async def _lines(call: ControlCall) -> AsyncIterator[bytes]:
    async with _queue(call) as queue:
        async for one in queue.read():
            yield msgspec.json.encode(one.as_json()) + b"\n"


async def resend(call: ControlCall) -> Reply:
    """Resend some dead letters, or all."""
    order = read_body(call.body or b"{}", ResendOrder)
    if order.is_all == bool(order.ids):
        raise UsageError('choose dead letters: either {"ids": ["broker-a/0/17"]} or {"all": true}')
    try:
        async with _queue(call) as queue:
            report = await queue.resend(
                order.ids, to=order.to, only_group=order.only_group, again=order.again, start=order.start
            )
    except ResendInterrupted as interrupted:
        return Reply(interrupted_as_json(interrupted), 409)
    except ResendRunning as running:
        return Reply({"error": str(running)}, 409)
    except ClientError as error:
        return _not_found(error)
    return Reply(report_as_json(report))


def report_as_json(report: ResendReport) -> dict[str, Any]:
    """Return the result of a resend, ready for JSON."""
    left = [{"id": one.id, "reason": one.reason} for one in report.left]
    return {
        "resent": report.resent,
        "skipped": report.skipped,
        "left": left,
        "otherGroups": report.other_groups,
        "otherGroupsUnknown": report.other_groups_unknown,
    }


def interrupted_as_json(interrupted: ResendInterrupted) -> dict[str, Any]:
    """Return the error and the progress of a resend that was interrupted, ready for JSON."""
    return {"error": str(interrupted), "next": interrupted.next_id, **report_as_json(interrupted.report)}


@asynccontextmanager
async def _queue(call: ControlCall) -> AsyncIterator[DeadLetterQueue]:
    """Open the queue of the group in the path. Raises: ClientError (invalid name)."""
    async with call.cluster.connected() as client, DeadLetterQueue(call.place["group"], client=client) as queue:
        yield queue


def _not_found(error: ClientError) -> Reply:
    return Reply({"error": str(error)}, 404)


_NO_GROUP = {404: "no broker knows the group, or it has no such letter"}
ROUTES = (
    Route("GET", "/dlq", "the number of dead letters of each group", counts),
    Route(
        "GET",
        "/dlq/{group}",
        "the oldest dead letters of a group: ?max=20; ?last=1: the newest",
        letters,
        (
            Parameter("max", "how many", "integer", 1, LETTERS_SHOWN_MAX),
            Parameter("last", "the newest instead of the oldest", "boolean"),
            Parameter("skip", "leave out this many first", "integer"),
            Parameter(
                "match",
                f"only letters with this text in id, topic, tag, keys or body, of {SEARCHED_MAX}; to search in the "
                'letters after those, repeat the call with "skip" as the response\'s "next"',
            ),
        ),
        refusals=_NO_GROUP,
    ),
    Route("GET", "/dlq/{group}/letters/{letter:.+}", "one dead letter with all its fields", letter, refusals=_NO_GROUP),
    Route(
        "GET",
        "/dlq/{group}/export",
        "all dead letters as JSON lines",
        export,
        refusals=_NO_GROUP,
        kind=LINES,
    ),
    Route(
        "POST",
        "/dlq/{group}/resend",
        'send dead letters again: {"ids": [...]} or {"all": true}; also "to", "onlyGroup", "again", "from"',
        resend,
        body=ResendOrder,
        refusals={
            **_NO_GROUP,
            409: "a broker interrupted the resend (the response lists what was sent), or another one is running",
        },
    ),
)
