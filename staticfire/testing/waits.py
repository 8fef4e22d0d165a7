"""Wait for a condition: poll it, at first after short pauses, until it holds or the time is over."""

from collections.abc import Awaitable, Callable, Iterator

from staticfire.runtime.machine import Clock

WAIT_S = 10.0
# Most conditions hold within milliseconds, so the first pause is short; each further one is twice as long.
FIRST_PAUSE_S, PAUSE_S_MAX = 0.002, 0.1


class NotYet(AssertionError):
    """The condition that a test waited for didn't become true in time."""


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


def not_yet(condition: Callable[[], object], what: str, timeout_s: float) -> NotYet:
    """Return the error for a condition that didn't become true. `what`: its description."""
    return NotYet(f"{what or getattr(condition, '__name__', repr(condition))}: not within {timeout_s:g} s")
