"""Message time over HTTP.

Behaviour
- GET /clock shows it. POST /clock `{"mode": "frozen"}` (or ?mode=frozen) sets its mode. POST /clock/advance?by=2h (or
  to=, and settle=) moves it forward and responds when consumers are at rest, with what was delivered.
- 409 when consumers don't settle (NOT_AT_REST) or another client is moving the clock (CLOCK_BUSY). 400 for unreadable
  values and for a target in the past. Errors have the code, too.
- A caller that closes the connection, after a timeout of its own for example, ends its advance: time stops where it is.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

import msgspec

from staticfire.client.admin.clock import ClockReport, ClusterClock
from staticfire.control.routes import ControlCall, Parameter, Reply, Route, read_body
from staticfire.protocol.durations import DURATION_FORMS, MOMENT_FORMS, parse_duration, parse_moment
from staticfire.protocol.errors import UsageError
from staticfire.protocol.requests.clock import SCALED

MODES = ("real", "frozen", "skipping", "scaled")
MODE_FORMS = 'write {"mode": "frozen"} or ?mode=frozen: real, frozen, skipping, or scaled with a rate'
MEANT = {"freeze": "frozen", "run": "real", "skip": "skipping", "scale": "scaled"}
"""The verbs of the command line, and the modes that they set."""


class Mode(msgspec.Struct, forbid_unknown_fields=True):
    """How message time continues. `rate`: of a scaled one."""

    mode: Literal["real", "frozen", "skipping", "scaled"]
    rate: float | None = None


_ACTIONS: dict[str, Callable[[ClusterClock], Awaitable[ClockReport]]] = {
    "real": ClusterClock.run,
    "frozen": ClusterClock.freeze,
    "skipping": ClusterClock.skip,
}


async def show(call: ControlCall) -> Reply:
    """Return the state of message time."""
    return Reply((await call.cluster.clock.now()).as_json())


async def go_on(call: ControlCall) -> Reply:
    """Set the mode that is in the body or the query string."""
    wanted, clock = _mode(call.query, call.body), call.cluster.clock
    report = await (clock.scale(wanted.rate) if wanted.rate is not None else _ACTIONS[wanted.mode](clock))
    return Reply(report.as_json())


async def advance(call: ControlCall) -> Reply:
    """Move message time forward as the query string requests."""
    query = call.query
    if ("by" in query) == ("to" in query):
        raise UsageError("an advance needs ?by=2h or ?to=2027-01-01T00:00:00Z, one of them")
    async with call.cluster.connected() as client:  # The nameserver ends the advance when this connection is closed.
        report = await ClusterClock(client).advance(
            parse_duration(query["by"]) if "by" in query else None,
            parse_moment(query["to"]) if "to" in query else None,
            parse_duration(query["settle"]) if "settle" in query else None,
        )
    return Reply(report.as_json())


def _mode(query: Mapping[str, Any], body: bytes) -> Mode:
    """Read POST /clock. Raises: UsageError."""
    if query and body.strip():
        raise UsageError("write the mode either as JSON or as ?mode=frozen, not both")
    if meant := MEANT.get(query.get("mode", "")):
        raise UsageError(f"mode={query['mode']} is unknown: did you mean {meant}; {MODE_FORMS}")
    if query:
        try:
            wanted = msgspec.convert(dict(query), Mode, strict=False)
        except msgspec.ValidationError as error:
            raise UsageError(f"{error}; {MODE_FORMS}") from None
    elif body.strip():
        wanted = read_body(body, Mode, MODE_FORMS)
    else:
        raise UsageError(f"no mode is given; {MODE_FORMS}")
    if (wanted.mode == SCALED) != (wanted.rate is not None):
        raise UsageError('a rate goes with scaled, and scaled with a rate: {"mode": "scaled", "rate": 60}')
    return wanted


_BUSY = {409: "consumers don't come to rest (NOT_AT_REST), or another client is moving the clock (CLOCK_BUSY)"}
ROUTES = (
    Route("GET", "/clock", "message time, its mode, and when the next message is due", show),
    Route(
        "POST",
        "/clock",
        'set the mode: {"mode": "real", "frozen", "skipping" or "scaled", "rate": 60}, or ?mode=frozen',
        go_on,
        (
            Parameter("mode", ", ".join(MODES)),
            Parameter("rate", "of scaled: how many times faster than real time", "number"),
        ),
        Mode,
        refusals=_BUSY,
    ),
    Route(
        "POST",
        "/clock/advance",
        "move forward ?by=2h or ?to=2027-01-01T00:00:00Z; responds when consumers are at rest (&settle=30s)",
        advance,
        (
            Parameter("by", f"how far: {DURATION_FORMS}"),
            Parameter("to", f"to when: {MOMENT_FORMS}"),
            Parameter("settle", "how long consumers may take after each step"),
        ),
        refusals=_BUSY,
        ends_with_caller=True,
    ),
)
