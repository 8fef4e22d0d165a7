"""Find fewer faults with which a program still fails, in few runs: each run takes as long as the program.

A fault that didn't hit is dropped without a run. Then each other fault is left out in turn.
"""

from collections.abc import Awaitable, Callable, Sequence

from staticfire.chaos.injection import InjectedFault
from staticfire.chaos.planned_fault import PlannedFault

RUNS_MAX = 12

Fails = Callable[[Sequence[PlannedFault]], Awaitable[bool]]


async def shrunk(
    injected: Sequence[InjectedFault], fails: Fails, runs_max: int = RUNS_MAX
) -> tuple[list[PlannedFault], int]:
    """Return the smallest set of faults that was found, and the number of runs. `fails` runs the program once."""
    kept = [one.fault for one in injected if one.hits]
    runs = 0
    if runs < runs_max and len(kept) < len(injected):
        runs += 1
        if not await fails(kept):
            kept = [one.fault for one in injected]
    for fault in list(kept):
        if len(kept) == 1 or runs >= runs_max:
            break
        rest = [one for one in kept if one is not fault]
        runs += 1
        if await fails(rest):
            kept = rest
    return kept, runs
