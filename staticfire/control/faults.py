"""What goes wrong on purpose, over HTTP.

Behaviour
- GET /faults: all rules with their hits. POST /faults `{"code": "SEND_MESSAGE", "answer": "SYSTEM_BUSY", "times": 3}`
  (or ?code=...&answer=...) adds one, with the words of `staticfire fault add`. DELETE /faults/3 removes one, DELETE
  /faults all; frozen processes go on then, and killed ones are started again.
- 400 for what can't be read or can't match anything, 404 for a rule that isn't there.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from staticfire.fault_rules import ClusterFaults
from staticfire.protocol.errors import ClientError, UsageError

PATHS = {
    "GET /faults": "what goes wrong on purpose, with hits",
    "POST /faults": 'one more: {"code": "SEND_MESSAGE", "topic": "orders", "answer": "SYSTEM_BUSY", "times": 3}',
    "DELETE /faults/NUMBER": "no more of one; DELETE /faults: of any",
}
FORMS = 'write {"code": "SEND_MESSAGE", "answer": "SYSTEM_BUSY"} or ?code=SEND_MESSAGE&answer=SYSTEM_BUSY'

Answer = tuple[int, dict[str, Any]]


async def show(faults: ClusterFaults) -> Answer:
    """Answer which rules there are."""
    views = await faults.all()
    return 200, {"faults": [view.as_json() for view in views], "silent": views.silent}


async def add(faults: ClusterFaults, query: Mapping[str, str], body: bytes) -> Answer:
    """Add a rule."""
    try:
        return 200, (await faults.add(_words(query, body))).as_json()
    except (UsageError, ClientError) as error:
        return 400, {"error": str(error)}


async def remove(faults: ClusterFaults, number: str) -> Answer:
    """Remove a rule."""
    if not (number.isdecimal() and number.isascii() and len(number) <= 9):
        return 400, {"error": f"{number} is no number of a rule"}
    try:
        await faults.remove(int(number))
    except UsageError as error:
        return 404, {"error": str(error)}
    return 200, {"removed": 1}


async def clear(faults: ClusterFaults) -> Answer:
    """Remove all rules."""
    return 200, {"removed": await faults.clear()}


def _words(query: Mapping[str, str], body: bytes) -> dict[str, object]:
    """Return what somebody has said. Raises: UsageError."""
    if query and body.strip():
        raise UsageError("a rule is given as JSON or behind a question mark, not as both")
    if query or not body.strip():
        return dict(query)
    try:
        words: dict[str, object] = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{error}; {FORMS}") from None
    return words
