"""Dead letters over HTTP.

Behaviour
- GET /dlq counts them by group; GET /dlq/billing shows the oldest (?max=20, ?last=1 for the newest), GET
  /dlq/billing/letters/broker-a/0/17 one of them, GET /dlq/billing/export all, as JSON lines.
- POST /dlq/billing/resend `{"ids": ["broker-a/0/17"]}` or `{"all": true}`, with "to", "onlyGroup" and "again" as the
  command line has them, sends them again.
- 404 for a group or a letter that isn't there, 400 for what can't be read, 409 for a resend that a broker has ended.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from staticfire.client import Admin, DeadLetterQueue, ResendInterrupted, ResendReport
from staticfire.protocol.codes import name_of_response
from staticfire.protocol.errors import ClientError, GroupNotFound, TopicNotFound, UsageError

PATHS = {
    "GET /dlq": "how many dead letters each group has",
    "GET /dlq/GROUP": "the oldest of a group: ?max=20; ?last=1: the newest",
    "GET /dlq/GROUP/letters/ID": "one of them, with all that it has",
    "GET /dlq/GROUP/export": "all of them as JSON lines",
    "POST /dlq/GROUP/resend": 'send them again: {"ids": [...]} or {"all": true}; also "to", "onlyGroup", "again"',
}
LETTERS_SHOWN = 20

Answer = tuple[int, dict[str, Any]]


class ResendOrder(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The body of a POST. `all` is its name there."""

    ids: list[str] = []
    is_all: bool = msgspec.field(name="all", default=False)
    to: str | None = None
    only_group: bool = False
    again: bool = False


async def counts(namesrv: str) -> Answer:
    """Answer how many there are."""
    async with Admin(namesrv) as admin:
        return 200, {"groups": await admin.dead_letters()}


async def letters(namesrv: str, group: str, query: Mapping[str, str]) -> Answer:
    """Answer the oldest or newest ones of a group."""
    try:
        limit = int(query.get("max", str(LETTERS_SHOWN)))
        if limit < 1 or query.keys() - {"max", "last"}:
            raise ValueError
    except ValueError:
        return 400, {"error": f"/dlq/{group} takes ?max=N, 1 or more, and ?last=1"}
    try:
        async with DeadLetterQueue(group, namesrv) as queue:
            found = await queue.letters(limit, newest=query.get("last", "0") not in ("0", "false", ""))
            return 200, {"group": group, "count": await queue.count(), "letters": [one.as_json() for one in found]}
    except (ClientError, GroupNotFound) as error:
        return _not_found(error)


async def letter(namesrv: str, group: str, letter_id: str) -> Answer:
    """Answer one of them."""
    try:
        async with DeadLetterQueue(group, namesrv) as queue:
            return 200, (await queue.find(letter_id)).as_json()
    except (ClientError, GroupNotFound) as error:
        return _not_found(error)


async def why_not(namesrv: str, group: str) -> Answer | None:
    """Answer why a group's dead letters can't be read; None when they can."""
    try:
        async with DeadLetterQueue(group, namesrv) as queue:
            await queue.count()
    except (ClientError, GroupNotFound) as error:
        return _not_found(error)
    return None


async def lines(queue: DeadLetterQueue) -> AsyncIterator[bytes]:
    """Yield all of them as lines of JSON."""
    async for one in queue.read():
        yield msgspec.json.encode(one.as_json()) + b"\n"


async def resend(namesrv: str, group: str, body: bytes) -> Answer:
    """Send some of them, or all, again."""
    try:
        order = msgspec.json.decode(body or b"{}", type=ResendOrder)
        if order.is_all == bool(order.ids):
            raise UsageError('which ones? {"ids": ["broker-a/0/17"]} or {"all": true}, one of them')
        async with DeadLetterQueue(group, namesrv) as queue:
            report = await queue.resend(order.ids, to=order.to, only_group=order.only_group, again=order.again)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, UsageError) as error:
        return 400, {"error": str(error)}
    except ResendInterrupted as interrupted:
        return 409, {"error": str(interrupted), **report_as_json(interrupted.report)}
    except (ClientError, GroupNotFound, TopicNotFound) as error:
        return _not_found(error)
    return 200, report_as_json(report)


def report_as_json(report: ResendReport) -> dict[str, Any]:
    """Return what became of the letters, ready for JSON."""
    left = [{"id": one.id, "reason": one.reason} for one in report.left]
    return {"resent": report.resent, "skipped": report.skipped, "left": left, "otherGroups": report.other_groups}


def _not_found(error: ClientError | GroupNotFound | TopicNotFound) -> Answer:
    if isinstance(error, ClientError):
        return 404, {"error": str(error)}
    return 404, {"error": error.remark, "code": name_of_response(error.code)}
