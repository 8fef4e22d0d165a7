"""A consumer group over HTTP, as the command line has it.

GET /group/billing answers what `staticfire group billing --json` prints, or 404; GET /explain/billing what
`staticfire explain billing --json` prints, of any name.
"""

from typing import Any

from staticfire.client import Admin
from staticfire.protocol.codes import name_of_response
from staticfire.protocol.errors import GroupNotFound

PATHS = {
    "GET /group/NAME": "a consumer group: members, what each holds, lag, rates, what is wrong",
    "GET /explain/GROUP?topic=": "why a group consumes nothing: findings, with the evidence and the way out",
}


async def show(namesrv: str, group: str) -> tuple[int, dict[str, Any]]:
    """Answer what a group is like. Raises: NetworkError, BrokerAnswer."""
    try:
        async with Admin(namesrv) as admin:
            return 200, (await admin.group(group)).as_json()
    except GroupNotFound as error:
        return 404, {"error": error.remark, "code": name_of_response(error.code)}


async def explain(namesrv: str, group: str, topic: str | None) -> dict[str, Any]:
    """Answer why a group consumes nothing. Raises: NetworkError, BrokerAnswer."""
    from staticfire.client.explain.explainer import explain_group

    async with Admin(namesrv) as admin:
        return (await explain_group(admin, group, topic)).as_json()
