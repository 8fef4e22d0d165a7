"""Fault injection over HTTP.

Behaviour
- GET /faults returns all rules with their hits. POST /faults `{"code": "SEND_MESSAGE", "answer": "SYSTEM_BUSY",
  "times": 3}` (or ?code=...&answer=...) adds a rule, with the words of `staticfire fault add`. With `"preview": true`
  nothing is added; the response is the rule as it would be added. DELETE /faults/3 removes
  one rule, DELETE /faults all. Removing a rule resumes suspended processes and restarts killed ones.
- 400 for unreadable values or a rule that can't match anything, 404 for an unknown rule. 502 if a killed process can't
  be restarted: then the rule is kept for it, and can be removed again.
"""

from collections.abc import Mapping
from typing import Any

from staticfire.control.routes import ControlCall, Parameter, Reply, Route, read_body
from staticfire.faults.parsing import WORDS
from staticfire.protocol.errors import UsageError

FORMS = 'write {"code": "SEND_MESSAGE", "answer": "SYSTEM_BUSY"} or ?code=SEND_MESSAGE&answer=SYSTEM_BUSY'
NUMBER_DIGITS_MAX = 9
PREVIEW = "preview"


async def show(call: ControlCall) -> Reply:
    """Return all rules."""
    views = await call.cluster.faults.all()
    return Reply({"faults": [view.as_json() for view in views], "silent": views.silent})


async def add(call: ControlCall) -> Reply:
    """Add a rule, or only return how it would be added."""
    words = dict(_words(call.query, call.body))
    is_preview = words.pop(PREVIEW, False)
    if not isinstance(is_preview, bool):
        raise UsageError(f"{PREVIEW} is true or false, not {is_preview!r}")
    faults = call.cluster.faults
    return Reply((await (faults.preview(words) if is_preview else faults.add(words))).as_json())


async def remove(call: ControlCall) -> Reply:
    """Remove a rule."""
    number = call.place["number"]
    if not (number.isdecimal() and number.isascii() and len(number) <= NUMBER_DIGITS_MAX):
        raise UsageError(f"{number} isn't the number of a rule")
    try:
        await call.cluster.faults.remove(int(number))
    except UsageError as error:
        return Reply({"error": str(error)}, 404)
    return Reply({"removed": 1})


async def clear(call: ControlCall) -> Reply:
    """Remove all rules."""
    return Reply({"removed": await call.cluster.faults.clear()})


def _words(query: Mapping[str, Any], body: bytes) -> Mapping[str, object]:
    """Return the words of the rule in the request. Raises: UsageError."""
    if query and body.strip():
        raise UsageError("write the rule either as JSON or as parameters of the address, not both")
    if query or not body.strip():
        return query
    words: dict[str, object] = read_body(body, dict[str, Any], FORMS)
    return words


_NOT_UNDONE = {502: "a server doesn't respond, or a killed process can't be restarted; that rule can be removed again"}
ROUTES = (
    Route("GET", "/faults", "all rules of fault injection, with their hits", show),
    Route(
        "POST",
        "/faults",
        'add a rule: {"code": "SEND_MESSAGE", "topic": "orders", "answer": "SYSTEM_BUSY", "times": 3}',
        add,
        (
            Parameter(PREVIEW, "add nothing, only return the rule", "boolean"),
            *(Parameter(word, "see `staticfire fault add --help`") for word in WORDS),
        ),
        dict,
        is_open=True,
    ),
    Route(
        "DELETE",
        "/faults/{number}",
        "remove a rule",
        remove,
        refusals={404: "there is no fault rule of that number", **_NOT_UNDONE},
    ),
    Route("DELETE", "/faults", "remove all rules", clear, refusals=_NOT_UNDONE),
)
