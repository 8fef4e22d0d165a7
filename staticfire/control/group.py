"""A consumer group over HTTP: GET /group/billing answers what `staticfire group billing --json` prints, or 404."""

from typing import Any

from staticfire.client import Admin
from staticfire.protocol.codes import name_of_response
from staticfire.protocol.errors import GroupNotFound

PATHS = {"GET /group/NAME": "a consumer group: members, what each holds, lag, rates, what is wrong"}


async def show(namesrv: str, group: str) -> tuple[int, dict[str, Any]]:
    """Answer what a group is like. Raises: NetworkError, BrokerAnswer."""
    try:
        async with Admin(namesrv) as admin:
            return 200, (await admin.group(group)).as_json()
    except GroupNotFound as error:
        return 404, {"error": error.remark, "code": name_of_response(error.code)}
