"""Which status and which error a response has, by the exception of a handler. Pure."""

from typing import Any

from staticfire.client.admin.creating import ExistsAlready
from staticfire.protocol.codes import ResponseCode, name_of_response
from staticfire.protocol.errors import (
    BrokerAnswer,
    ClientError,
    ClockBusy,
    GroupNotFound,
    NotAtRest,
    StaticfireError,
    SystemBusy,
    TopicNotFound,
    UsageError,
)

# Response codes of servers for requests with invalid content.
WRONG_WORDS = frozenset({ResponseCode.INVALID_PARAMETER, ResponseCode.MESSAGE_ILLEGAL})


def refusal(request_line: str, error: StaticfireError) -> tuple[int, dict[str, Any]]:
    """Return status and content of the response for an exception. `request_line`: the request, like `GET /topics`."""
    if isinstance(error, UsageError | ClientError):
        return (409 if isinstance(error, ExistsAlready) else 400), {"error": str(error)}
    if not isinstance(error, BrokerAnswer):
        return 502, {"error": f"{request_line}: {error}"}
    if isinstance(error, NotAtRest | ClockBusy | SystemBusy):
        status = 409
    elif isinstance(error, GroupNotFound | TopicNotFound):
        status = 404
    elif error.code == ResponseCode.NO_PERMISSION:
        status = 403
    else:
        status = 400 if error.code in WRONG_WORDS else 502
    return status, {"error": error.remark, "code": name_of_response(error.code)}
