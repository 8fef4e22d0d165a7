"""One run: a cluster starts, works during faults, settles, and is checked.

Everything is determined by the seed and the workload. The faults and their times are planned before the run
(planning.py), and each part that makes random decisions has its own source of randomness.
"""

import asyncio
import gc
import traceback
from collections.abc import Sequence
from random import Random
from threading import get_ident
from time import process_time

import msgspec

from staticfire.runtime.log import logged_to
from staticfire.simulation.checkers import CHECKERS
from staticfire.simulation.checkers.checker import Checkers
from staticfire.simulation.checkers.events import NotSettled, RunEvent, Settled, TrafficEnded, WentWrong
from staticfire.simulation.runs.cluster import RunCluster
from staticfire.simulation.runs.looking_up import look_up
from staticfire.simulation.runs.observing import Observer, settled
from staticfire.simulation.runs.outcome import RunOutcome
from staticfire.simulation.runs.planning import plan_strikes
from staticfire.simulation.runs.record import RunRecord
from staticfire.simulation.runs.seeds import made_for
from staticfire.simulation.runs.striking import Striker
from staticfire.simulation.runs.striking_sets import SIDE
from staticfire.simulation.workload.description import Workload
from staticfire.simulation.workload.loading import WorkloadMaker
from staticfire.simulation.workload.strikes import Strike
from staticfire.simulation.world.chance import shared_source_from, source_of_chance
from staticfire.simulation.world.ending import LeftOver
from staticfire.simulation.world.loop import SimulationStuck
from staticfire.simulation.world.running import simulate
from staticfire.simulation.world.world import SimulatedWorld

HOURS_ON_TOP = 24
# How many frames of an exception are reported.
FRAMES_MAX = 6
# Objects made from messages are used until the end, so the garbage collector would find little, at the same cost.
GC_THRESHOLD = (20_000, 20, 20)
# The time before the traffic begins, in which members share the queues.
WARM_UP_MS = 30_000
# The time at rest before tables are compared, in which unused connections are closed.
COOL_DOWN_MS = 30_000


# Whether `freeze_for_good` was called. (gc.get_freeze_count() looks at each object.)
_is_frozen = False


def freeze_for_good() -> None:
    """Take all current objects from the garbage collector, once for all runs of this process.

    Looking at all modules before each run takes a tenth of the time of a short one.
    """
    global _is_frozen
    gc.collect()
    gc.freeze()
    _is_frozen = True


class Play(msgspec.Struct, frozen=True):
    """The parameters of a run."""

    seed: int
    hours: float
    strikes: Sequence[Strike] | None = None
    """Faults that replace those of the seed."""
    keeps_events: bool = False
    stops_early: bool = False
    """End the run soon after a promise was broken, instead of looking what else is broken later."""


def play(make: WorkloadMaker | Workload, what: Play) -> RunOutcome:
    """Run a seed of a workload and return its outcome. Raises: UsageError (an error in the workload's definition)."""
    with shared_source_from(what.seed):
        return _played(make, what)


def _played(make: WorkloadMaker | Workload, what: Play) -> RunOutcome:
    workload = make if isinstance(make, Workload) else made_for(make, what.seed)
    began_s = process_time()
    checkers = Checkers(workload, CHECKERS, (lambda: run.end_soon()) if what.stops_early else None)
    record = RunRecord(checkers.see, what.keeps_events)
    strikes = list(what.strikes) if what.strikes is not None else planned(workload, what)
    run = _Run(workload, what, strikes, record)
    with logged_to(run.logged):
        fingerprint = run.played()
    return RunOutcome(
        seed=what.seed,
        violations=checkers.finish(),
        strikes=strikes,
        states=dict(sorted(record.states.items())),
        virtual_ms=run.virtual_ms,
        cpu_s=process_time() - began_s,
        fingerprint=fingerprint,
        events=record.events,
        strikes_from_ms=run.strikes_from_ms,
    )


def planned(workload: Workload, what: Play) -> list[Strike]:
    """Return the faults of a seed."""
    chance: Random = source_of_chance(what.seed, "strikes")
    return plan_strikes(workload, chance, round(what.hours * 3_600_000))


class _Run:
    """A run in its world."""

    def __init__(self, workload: Workload, what: Play, strikes: list[Strike], record: RunRecord) -> None:
        self._worlds: list[SimulatedWorld] = []
        self._workload = workload
        self._what = what
        self._strikes = strikes
        self._record = record
        self.virtual_ms = 0
        self.strikes_from_ms = 0
        self._thread = get_ident()

    def logged(self, level: str, event: str, fields: dict[str, object]) -> None:
        """Count the warnings and errors that programs log: they aren't shown, but their number is interesting.

        Another thread of this process isn't part of the run: a client that a test has left, say.
        """
        if level in ("warning", "error") and get_ident() == self._thread:
            self._record.states[f"log: {event}"] += 1

    def end_soon(self) -> None:
        """End the run: its time is up at the next timer."""
        for world in self._worlds:
            world.loop.hours_max = 0

    def played(self) -> str:
        """Play the run; return the fingerprint."""
        gc.collect()
        if not _is_frozen:
            gc.freeze()  # All current objects remain, so the collector need not look at all modules repeatedly.
        usual = gc.get_threshold()
        gc.set_threshold(*GC_THRESHOLD)
        fingerprints: list[str] = []

        async def scenario(world: SimulatedWorld) -> None:
            self._worlds.append(world)
            try:
                await self._scenario(world)
            finally:
                self.virtual_ms = world.uptime_ms
                fingerprints.append(world.history.fingerprint)

        try:
            simulate(scenario, self._what.seed, self._workload.network, self._what.hours + HOURS_ON_TOP)
        except (LeftOver, SimulationStuck) as error:
            self._record.note(WentWrong(self.virtual_ms, "the world", str(error)))
        except (Exception, SystemExit):  # noqa: BLE001 (whatever it is, the other seeds must be played, too)
            self._record.note(WentWrong(self.virtual_ms, "the run", traceback.format_exc(limit=-FRAMES_MAX)))
        finally:
            self._record.is_open = False
            gc.set_threshold(*usual)
            if not _is_frozen:
                gc.unfreeze()
        return fingerprints[0] if fingerprints else ""

    async def _scenario(self, world: SimulatedWorld) -> None:
        world.loop.jitter_timers(self._workload.timer_jitter_ms, source_of_chance(world.seed, "timers"))
        cluster = RunCluster(world, self._workload, self._record)
        observer = Observer(cluster)
        striker = Striker(cluster)
        await cluster.begin()
        await world.run_for(WARM_UP_MS)
        observer.note_tables()
        looking = asyncio.get_running_loop().create_task(observer.loop(), name="observer")
        try:
            await cluster.begin_traffic()
            self.strikes_from_ms = round(cluster.now_ms)
            striker.begin(self._strikes)
            await world.run_for(hours=self._what.hours)
            await self._come_to_rest(cluster, observer, striker)
        finally:
            looking.cancel()
        await cluster.end()

    async def _come_to_rest(self, cluster: RunCluster, observer: Observer, striker: Striker) -> None:
        world = cluster.world
        await striker.end()
        await cluster.late_groups()
        for program in cluster.programs.values():
            program.end()
        cluster.listener.fails_by_chance = False
        self._note(TrafficEnded(cluster.now_ms))
        reasons = await settled(observer, cluster, round(self._workload.settles_within_seconds * 1_000))
        observer.look()
        self._note(NotSettled(cluster.now_ms, tuple(reasons)) if reasons else Settled(cluster.now_ms))
        await world.run_for(COOL_DOWN_MS)
        if not reasons:
            observer.note_owners()
            observer.note_tables()
        if cluster.replicas is not None:
            await cluster.replicas.note_logs()
            cluster.replicas.note_topics(SIDE)
        stored = observer.note_messages()
        if not reasons:
            await look_up(cluster, stored)
        self._note_vain(cluster)

    def _note_vain(self, cluster: RunCluster) -> None:
        """Report a run in which no message was ever stored: it has tested nothing, so it isn't a success."""
        programs = cluster.programs.values()
        failures = [program.failure for program in programs if program.failure]
        if not failures or any(program.stored_count for program in programs):
            return
        self._record.states["no message was ever stored"] += 1
        if not self._strikes and not any(program.has_reported for program in programs):
            self._note(
                WentWrong(cluster.now_ms, "the run", f"no message was ever stored, the last time: {failures[-1]}")
            )

    def _note(self, event: RunEvent) -> None:
        self._record.note(event)
