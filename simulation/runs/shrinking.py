"""Reduces a failing run: finds a small set of faults with which the same promise is still broken.

Delta debugging (Zeller): the list of faults is divided into parts, first two. Each part is left out in turn. If the run
still fails without it, the part is dropped; if no part can be dropped, the parts are halved, until they have one fault
each. Finally, the run is shortened to the last fault.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from time import monotonic  # noqa: TID251 (how long a person is kept waiting)

from staticfire.simulation.runs.outcome import RunOutcome
from staticfire.simulation.runs.play import Play, play
from staticfire.simulation.workload.loading import WorkloadMaker
from staticfire.simulation.workload.strikes import Strike

TRIES_MAX = 60
SECONDS_MAX = 60.0
# A run that takes long gets more time: as much as this many repetitions take.
REPETITIONS_MAX = 12
# How long a shortened run continues after its last fault.
AFTER_MS = 5_000


class Shrinker:
    """Repeats a run, each time with fewer faults.

    First it repeats the run as it was. If that doesn't fail in the same way, something in the workload doesn't follow
    from the seed, and a smaller run would prove nothing. The time for the tries is counted from then on.
    """

    def __init__(
        self, make: WorkloadMaker, failed: RunOutcome, hours: float, clock_s: Callable[[], float] = monotonic
    ) -> None:
        self._make = make
        self._seed = failed.seed
        self._checkers = {violation.checker for violation in failed.violations}
        self._clock_s = clock_s
        self._until_s = 0.0
        self.best = failed
        self.hours = hours
        self.tries = 0
        self.is_repeated = True
        """Whether the run has failed in the same way again, with the same events at the same times."""

    def shrink(self) -> RunOutcome:
        """Return the outcome of the smallest failing run that was found; the given one if it can't be repeated."""
        began_s = self._clock_s()
        again = play(self._make, Play(self._seed, self.hours, self.best.strikes))
        ended_s = self._clock_s()
        self._until_s = ended_s + max(SECONDS_MAX, REPETITIONS_MAX * (ended_s - began_s))
        self.is_repeated = again.fingerprint == self.best.fingerprint and self._fails_alike(again)
        if not self.is_repeated:
            return self.best
        strikes = minimal(self.best.strikes, self._fails)
        self._fails(strikes)
        if self.best.violations:
            # Faults and time after the broken promise aren't needed.
            end_ms = max([strike.at_ms for strike in self.best.strikes], default=0) + AFTER_MS
            self._try(self.best.strikes, min(self.hours, end_ms / 3_600_000))
        return self.best

    def _fails(self, strikes: list[Strike]) -> bool:
        return self._try(strikes, self.hours)

    def _try(self, strikes: list[Strike], hours: float) -> bool:
        if self.tries >= TRIES_MAX or self._clock_s() > self._until_s:
            return False
        self.tries += 1
        outcome = play(self._make, Play(self._seed, hours, strikes))
        fails = self._fails_alike(outcome)
        if fails and (len(strikes), hours) <= (len(self.best.strikes), self.hours):
            self.best, self.hours = outcome, hours
        return fails

    def _fails_alike(self, outcome: RunOutcome) -> bool:
        return bool(self._checkers & {violation.checker for violation in outcome.violations})


def minimal(items: Sequence[Strike], fails: Callable[[list[Strike]], bool]) -> list[Strike]:
    """Return a subset of the items with which it still fails, as small as was found."""
    kept = list(items)
    if kept and fails([]):
        return []
    parts = 2
    while len(kept) >= 2:
        size = -(-len(kept) // parts)
        for start in range(0, len(kept), size):
            rest = kept[:start] + kept[start + size :]
            if fails(rest):
                kept, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                return kept
            parts = min(len(kept), parts * 2)
    return kept


def as_scenario(outcome: RunOutcome, hours: float, path: str, changes: Mapping[str, str] | None = None) -> str:
    """Return the source code of a test that repeats a run. `changes`: differences from the workload file."""
    if changes:
        maker, loads = f"maker_of({json.dumps(path)}, {json.dumps(dict(changes))})", "runs.swarm import maker_of"
    elif path:
        maker, loads = f"load_workload({json.dumps(path)})", "workload.loading import load_workload"
    else:
        maker, loads = "swarm_workload", "runs.swarm import swarm_workload"
    strikes = "\n".join(f"        {_strike_words(strike)}," for strike in outcome.strikes)
    promise = str(outcome.violations[0]).replace("\\", "\\\\").replace('"', "'") if outcome.violations else ""
    return f'''from staticfire.simulation.runs.play import Play, play
from staticfire.simulation.{loads}
from staticfire.simulation.workload.strikes import Strike


def test_seed_{outcome.seed}() -> None:
    """{promise}"""
    strikes = [
{strikes}
    ]
    outcome = play({maker}, Play({outcome.seed}, {hours!r}, strikes))
    assert outcome.passed, outcome
'''


def _strike_words(strike: Strike) -> str:
    words = f'Strike({strike.at_ms:_}, "{strike.kind}", "{strike.target}", {strike.lasts_ms:_}, {strike.detail:_}'
    return f'{words}, "{strike.other}")' if strike.other else f"{words})"
