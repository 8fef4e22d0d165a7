"""Fewer faults with which a program still fails, in few runs: each run costs the program's own time.

A fault that didn't hit is dropped without a run. Then each other fault is left out in turn.
"""

from collections.abc import Awaitable, Callable, Sequence

from staticfire.chaos.strikes import PlannedFault
from staticfire.chaos.striking import Struck

RUNS_MAX = 12

Fails = Callable[[Sequence[PlannedFault]], Awaitable[bool]]


async def shrunk(struck: Sequence[Struck], fails: Fails, runs_max: int = RUNS_MAX) -> tuple[list[PlannedFault], int]:
    """Return the smallest set of faults that was found, and the number of runs. `fails` runs the program once."""
    kept = [one.strike for one in struck if one.hits]
    runs = 0
    if runs < runs_max and len(kept) < len(struck):
        runs += 1
        if not await fails(kept):
            kept = [one.strike for one in struck]
    for strike in list(kept):
        if len(kept) == 1 or runs >= runs_max:
            break
        rest = [one for one in kept if one is not strike]
        runs += 1
        if await fails(rest):
            kept = rest
    return kept, runs
