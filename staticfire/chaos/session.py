"""All runs of one command: first in calm weather, then one for each seed, then the shrinking of what failed."""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from staticfire.chaos.broken import Broken
from staticfire.chaos.each import Each, check_each, no_match, undecided
from staticfire.chaos.evidence import Evidence
from staticfire.chaos.planned_fault import PlannedFault
from staticfire.chaos.promises import check
from staticfire.chaos.running import Stopped, TriedProgram, run_program
from staticfire.chaos.sends import unsent
from staticfire.chaos.shrinking import RUNS_MAX, shrunk
from staticfire.chaos.usage import Usage, learn
from staticfire.chaos.weather import plan

# A seed may take so much longer than the calm run: a frozen broker alone takes 20 s.
SLOWER, EXTRA_S = 5, 120
WANTED = ("skipped",)
"""Promises that a program may break on purpose, by a seek. Then it breaks them in calm weather, too."""
COMPARED = ("exit", "consumed")
"""Promises that are compared with the calm run: they prove something only if a fault has hit. The others are proof."""
NO_TOPIC = "no route to topic"
"""In the output of a program whose topic doesn't exist: only gRPC clients can't create theirs by sending."""
TOPIC_HINT = ". It needs a topic that doesn't exist: --topic NAME creates one before each run"
AGAIN = 2
"""How often a failing seed is run again, to see whether it fails each time."""


@dataclass(frozen=True)
class WantedTrial:
    """What the user wants to try."""

    program: TriedProgram
    weather: str = "mild"
    only: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    each: tuple[Each, ...] = ()
    faults: tuple[int, ...] = ()
    """Only these faults of a plan, by number; empty: all."""
    runs_max: int = RUNS_MAX
    """How many runs the shrinking may take; 0: none."""


@dataclass
class SeedResult:
    """The runs of one seed, and their results."""

    seed: int
    plan: list[PlannedFault]
    evidence: Evidence
    broken: list[Broken]
    fails: int = 0
    tries: int = 1
    smallest: list[PlannedFault] = field(default_factory=list)
    shrink_runs: int = 0
    as_in_seed: int | None = None
    """An earlier seed that has broken the same promises: this one isn't tried again with fewer faults."""
    undecided: int = 0
    unrelated: list[Broken] = field(default_factory=list)
    """Broken promises of a run in which no fault hit, so faults can't be the reason."""

    @property
    def missed(self) -> list[PlannedFault]:
        """The faults that hit nothing."""
        return [injected.fault for injected in self.evidence.injected if not injected.hits]


@dataclass
class Calm:
    """The run without faults."""

    evidence: Evidence
    usage: Usage
    broken: list[Broken]
    problem: str = ""
    """Why nothing else is tried; empty if it is."""

    @property
    def is_service(self) -> bool:
        """Whether the program doesn't end by itself."""
        return self.evidence.exit_code is None


@dataclass(frozen=True)
class RunChecks:
    """Checks a run: which promises it has broken."""

    each: tuple[Each, ...] = ()

    def calm(self, evidence: Evidence) -> tuple[list[Broken], str]:
        """Return the promises that the calm run has broken, and why nothing else is tried; "" if it is."""
        if problem := self._problem(evidence):
            return [], problem
        broken = [one for one in check(evidence, None) if one.promise not in WANTED]
        for each in self.each:
            broken += check_each(each, evidence)
        return broken, "a promise is broken without any fault" if broken else ""

    def _problem(self, evidence: Evidence) -> str:
        if evidence.exit_code:
            missing = NO_TOPIC in evidence.output
            return f"the command fails without any fault: exit code {evidence.exit_code}{TOPIC_HINT if missing else ''}"
        if used_in(evidence).is_empty:
            when = " before the limit" if evidence.limit_ms else ""
            return f"no topic was used{when}, so nothing can be tested; does it connect to NAMESRV_ADDR?"
        for each in self.each:
            if (why := no_match(each, evidence)) is not None:
                return f"--each '{each}' matches nothing: {why}"
        return ""

    def seed(self, evidence: Evidence, calm: Evidence) -> list[Broken]:
        """Return the promises that a run under faults has broken."""
        wanted = {(one.promise, one.subject) for one in check(calm, None) if one.promise in WANTED}
        broken = [one for one in check(evidence, calm) if (one.promise, one.subject) not in wanted]
        broken += unsent(evidence, calm)
        for each in self.each:
            broken += check_each(each, evidence)
        return broken


def because_of_faults(found: Sequence[Broken], evidence: Evidence) -> list[Broken]:
    """Return the broken promises without those that faults can't be the reason of, because none has hit."""
    has_hits = any(injected.hits for injected in evidence.injected)
    return [one for one in found if has_hits or one.promise not in COMPARED]


def used_in(evidence: Evidence) -> Usage:
    """Return what a program has used until the limit, also before the last reset of the cluster.

    All faults end at the limit, so none can wait for what the program does later.
    """
    until_ms = evidence.limit_ms or math.inf
    events, requests = (
        [one for one in (*old, *new) if one.real_ms <= until_ms]
        for old, new in zip(evidence.earlier, (evidence.events, evidence.requests), strict=True)
    )
    return learn(events, requests, {record.broker for record in events})


class Session:
    """The runs of one command. `stop`: set when the user wants no more."""

    def __init__(self, wanted: WantedTrial, stop: asyncio.Event) -> None:
        self.wanted = wanted
        self._stop = stop
        self._checks = RunChecks(wanted.each)

    async def calm(self) -> Calm:
        """Run the program without faults. Raises: Stopped, StaticfireError, OSError."""
        evidence = await self._run([])
        usage = used_in(evidence)
        broken, problem = self._checks.calm(evidence)
        calm = Calm(evidence, usage, broken, problem)
        if not calm.problem and not calm.is_service:
            limit_s = min(self.wanted.program.limit_s, evidence.seconds * SLOWER + EXTRA_S)
            self.wanted = replace(self.wanted, program=replace(self.wanted.program, limit_s=limit_s))
        return calm

    def plan(self, seed: int, usage: Usage) -> list[PlannedFault]:
        """Return the faults of a seed that the user wants."""
        wanted = self.wanted
        faults = plan(seed, usage, wanted.weather, wanted.only, wanted.never)
        return [one for one in faults if not wanted.faults or one.number in wanted.faults]

    async def seed(self, seed: int, calm: Calm) -> SeedResult:
        """Run the program under the faults of a seed. If the user stops it, the verdict is that so far.

        Raises: as `calm`; Stopped only before the program began.
        """
        faults = self.plan(seed, calm.usage)
        evidence = await run_program(self.wanted.program, faults, self._stop)
        found = self._checks.seed(evidence, calm.evidence)
        broken = because_of_faults(found, evidence)
        result = SeedResult(seed, faults, evidence, broken, int(bool(broken)))
        result.unrelated = [one for one in found if one not in broken]
        result.undecided = sum(undecided(each, evidence) for each in self.wanted.each)
        return result

    async def again(self, result: SeedResult, calm: Calm) -> None:
        """Run a failing seed again, to see how often it fails. Raises: as `calm`."""
        for _ in range(AGAIN):
            evidence = await self._run(result.plan)
            result.tries += 1
            result.fails += bool(self._checks.seed(evidence, calm.evidence))

    async def shrink(self, result: SeedResult, calm: Calm, notify: Callable[[int], object]) -> None:
        """Look for fewer faults with which the same promise is broken. Raises: as `calm`."""
        kinds = {one.kind for one in result.broken}

        async def fails(faults: Sequence[PlannedFault]) -> bool:
            notify(len(faults))
            evidence = await self._run(faults)
            return bool(kinds & {one.kind for one in self._checks.seed(evidence, calm.evidence)})

        result.smallest = result.plan
        result.smallest, result.shrink_runs = await shrunk(result.evidence.injected, fails, self.wanted.runs_max)

    async def _run(self, faults: Sequence[PlannedFault]) -> Evidence:
        """Run the program to its end. Raises: as `calm`."""
        evidence = await run_program(self.wanted.program, faults, self._stop)
        if evidence.was_stopped:
            raise Stopped
        return evidence


__all__ = ["Calm", "SeedResult", "Session", "Stopped", "WantedTrial"]
