"""Message time over HTTP.

Behaviour
- GET /clock shows it, POST /clock `{"mode": "frozen"}` (or ?mode=frozen) says how it goes on, POST
  /clock/advance?by=2h (or to=, and settle=) jumps and answers at rest, with what was delivered.
- 409 when consumers don't settle (NOT_AT_REST) or somebody else moves the clock (CLOCK_BUSY); 400 for what can't be
  read and for a target in the past. Errors name the code, too.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

import msgspec

from staticfire.client.admin.clock import ClockReport, ClusterClock
from staticfire.protocol.codes import ResponseCode, name_of_response
from staticfire.protocol.durations import parse_duration, parse_moment
from staticfire.protocol.errors import BrokerAnswer, ClockBusy, NotAtRest, UsageError
from staticfire.protocol.requests.clock import SCALED

PATHS = {
    "GET /clock": "message time, its mode, and when the next message falls due",
    "POST /clock": 'how it goes on: {"mode": "real", "frozen", "skipping" or "scaled", "rate": 60}, or ?mode=frozen',
    "POST /clock/advance": "jump ?by=2h or ?to=2027-01-01T00:00:00Z; answers when consumers are at rest (&settle=30s)",
}


MODE_FORMS = 'write {"mode": "frozen"} or ?mode=frozen: real, frozen, skipping, or scaled with a rate'
MEANT = {"freeze": "frozen", "run": "real", "skip": "skipping", "scale": "scaled"}
"""The words of the command line, which are verbs."""


class Mode(msgspec.Struct, forbid_unknown_fields=True):
    """How message time goes on. `rate`: of a scaled one."""

    mode: Literal["real", "frozen", "skipping", "scaled"]
    rate: float | None = None


_ACTIONS: dict[str, Callable[[ClusterClock], Awaitable[ClockReport]]] = {
    "real": ClusterClock.run,
    "frozen": ClusterClock.freeze,
    "skipping": ClusterClock.skip,
}

Answer = tuple[int, dict[str, Any]]


async def show(clock: ClusterClock) -> Answer:
    """Answer what the clock shows."""
    return await _answered(clock.now)


async def go_on(clock: ClusterClock, query: Mapping[str, str], body: bytes) -> Answer:
    """Set the mode that a body, or a query string without one, asks for."""

    async def move() -> ClockReport:
        wanted = _mode(query, body)
        if wanted.rate is not None:
            return await clock.scale(wanted.rate)
        return await _ACTIONS[wanted.mode](clock)

    return await _answered(move)


async def advance(clock: ClusterClock, query: Mapping[str, str]) -> Answer:
    """Jump as a query string asks for."""

    async def move() -> ClockReport:
        unknown = sorted(query.keys() - {"by", "to", "settle"})
        if unknown:
            raise UsageError(f"{unknown[0]} is unknown here; there are by, to and settle")
        if ("by" in query) == ("to" in query):
            raise UsageError("an advance needs ?by=2h or ?to=2027-01-01T00:00:00Z, one of them")
        return await clock.advance(
            parse_duration(query["by"]) if "by" in query else None,
            parse_moment(query["to"]) if "to" in query else None,
            parse_duration(query["settle"]) if "settle" in query else None,
        )

    return await _answered(move)


def _mode(query: Mapping[str, str], body: bytes) -> Mode:
    """Read POST /clock. Raises: UsageError."""
    if query and body.strip():
        raise UsageError("a mode is given as JSON or as ?mode=frozen, not as both")
    try:
        if query:
            wanted = msgspec.convert(dict(query), Mode, strict=False)
        elif body.strip():
            wanted = msgspec.json.decode(body, type=Mode)
        else:
            raise UsageError(f"no mode is given; {MODE_FORMS}")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        words = str(error)
        if meant := MEANT.get(query.get("mode", "")):
            words = f"mode={query['mode']} is unknown: did you mean {meant}"
        raise UsageError(f"{words}; {MODE_FORMS}") from None
    if (wanted.mode == SCALED) != (wanted.rate is not None):
        raise UsageError('a rate goes with scaled, and scaled with a rate: {"mode": "scaled", "rate": 60}')
    return wanted


async def _answered(move: Callable[[], Awaitable[ClockReport]]) -> Answer:
    """Return status and content of an answer, refusals included. Raises: NetworkError, BrokerAnswer (not ours)."""
    try:
        return 200, (await move()).as_json()
    except UsageError as error:
        return 400, {"error": str(error)}
    except BrokerAnswer as error:
        if isinstance(error, NotAtRest | ClockBusy):
            status = 409
        elif error.code == ResponseCode.INVALID_PARAMETER:
            status = 400
        else:
            raise
        return status, {"error": error.remark, "code": name_of_response(error.code)}
