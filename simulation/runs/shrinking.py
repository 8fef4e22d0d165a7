"""A failing run with fewer faults: what has to break, at least, for the same promise to be broken.

Delta debugging (Zeller): halves of the list are left out, then quarters, and so on, as long as the run still fails.
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
AFTER_MS = 5_000
# A run goes on so long after its last fault.


class Shrinker:
    """Plays a run again and again, each time with less."""

    def __init__(self, make: WorkloadMaker, failed: RunOutcome, hours: float, seconds_max: float = SECONDS_MAX) -> None:
        self._make = make
        self._seed = failed.seed
        self._checkers = {violation.checker for violation in failed.violations}
        self._until_s = monotonic() + seconds_max
        self.best = failed
        self.hours = hours
        self.tries = 0

    def shrink(self) -> RunOutcome:
        """Return the outcome of the smallest run that was found."""
        strikes = minimal(self.best.strikes, self._fails)
        self._fails(strikes)
        if self.best.violations:
            # What comes after the broken promise isn't needed, and neither is most of the time.
            end_ms = max([strike.at_ms for strike in self.best.strikes], default=0) + AFTER_MS
            self._try(self.best.strikes, min(self.hours, end_ms / 3_600_000))
        return self.best

    def _fails(self, strikes: list[Strike]) -> bool:
        return self._try(strikes, self.hours)

    def _try(self, strikes: list[Strike], hours: float) -> bool:
        if self.tries >= TRIES_MAX or monotonic() > self._until_s:
            return False
        self.tries += 1
        outcome = play(self._make, Play(self._seed, hours, strikes))
        fails = bool(self._checkers & {violation.checker for violation in outcome.violations})
        if fails and (len(strikes), hours) <= (len(self.best.strikes), self.hours):
            self.best, self.hours = outcome, hours
        return fails


def minimal(items: Sequence[Strike], fails: Callable[[list[Strike]], bool]) -> list[Strike]:
    """Return a part of the items with which it still fails, as small as was found."""
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
    """Return a test that plays a run again, ready to be pasted. `changes`: what was otherwise than the file says."""
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
