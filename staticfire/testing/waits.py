"""Wait for a condition: poll it, at first after short pauses, until it holds or the time is over."""

from collections.abc import Awaitable, Callable, Iterator

from staticfire.runtime.machine import Clock

WAIT_S = 10.0
# Most conditions hold within milliseconds, so the first pause is short; each further one is twice as long.
FIRST_PAUSE_S, PAUSE_S_MAX = 0.002, 0.1
VALUE_CHARS_MAX = 200


class NotYet(AssertionError):
    """The condition that a test waited for didn't become true in time."""

    def with_more(self, text: str) -> "NotYet":
        """Return the error with more text, such as the state of the groups."""
        return NotYet(f"{self}\n{text}")


def pauses(timeout_s: float, clock: Clock) -> Iterator[float]:
    """Yield the pause in seconds before each further check, until the time is over."""
    until_ms, pause_s = clock.uptime_ms() + timeout_s * 1_000, FIRST_PAUSE_S
    while (left_ms := until_ms - clock.uptime_ms()) > 0:
        yield min(pause_s, left_ms / 1_000)
        pause_s = min(2 * pause_s, PAUSE_S_MAX)


async def comes_true(
    condition: Callable[[], Awaitable[bool]], timeout_s: float, clock: Clock, pause: Callable[[float], Awaitable[None]]
) -> bool:
    """Return whether a condition becomes true in time. It is checked at least once. `pause`: sleeps for seconds."""
    if await condition():
        return True
    for seconds in pauses(timeout_s, clock):
        await pause(seconds)
        if await condition():
            return True
    return False


def not_yet(condition: Callable[[], object], what: str, timeout_s: float, last: object) -> NotYet:
    """Return the error for a condition that didn't become true. `what`: its description; `last`: its last value."""
    shown = repr(last)
    shown = shown if len(shown) <= VALUE_CHARS_MAX else f"{shown[:VALUE_CHARS_MAX]}..."
    return NotYet(f"{what or _source_of(condition)}: not within {timeout_s:g} s\nits last value was {shown}")


def _source_of(condition: Callable[[], object]) -> str:
    """Return the name of a function, or the expression of a lambda."""
    name: str = getattr(condition, "__name__", repr(condition))
    if name != "<lambda>":
        return name
    import ast
    import inspect
    from textwrap import dedent

    try:
        source = dedent(inspect.getsource(condition)).strip()
        lambdas = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Lambda)]
    except (OSError, SyntaxError):  # It was typed in, or its statement has begun on another line.
        return "a lambda"
    return ast.unparse(lambdas[0].body) if len(lambdas) == 1 else source
