"""Many seeds, each in one of a few processes: a run uses one core and shares nothing."""

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import (
    BrokenExecutor,
    Future,
    ProcessPoolExecutor,  # noqa: TID251 (these processes have worlds in them, and are in none)
    as_completed,
)
from itertools import chain, islice

from staticfire.protocol.errors import ClientError, UsageError
from staticfire.runtime.exit_codes import EXIT_FAILED
from staticfire.simulation.runs.outcome import RunOutcome
from staticfire.simulation.runs.play import Play, play
from staticfire.simulation.runs.swarm import maker_of
from staticfire.simulation.workload.loading import WorkloadMaker

AHEAD = 4
# Seeds that wait, per process.
RUNS_PER_PROCESS = 100
# A request isn't looked at by the collector, for the brokers' sake: a world that was stopped in the middle of one stays
# in memory, some 2 MiB, for as long as its process.

_makers: list[WorkloadMaker] = []
# Of this process: the one that it was started for.


def cores() -> int:
    """Return how many processes can run at once here."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def play_many(
    path: str, plays: Iterable[Play], jobs: int, changes: Mapping[str, str] | None = None
) -> Iterator[RunOutcome]:
    """Yield the outcome of each run as it is known. Closing the generator ends the processes.

    `path`: of a workload file; empty: each seed makes up its own. `changes`: what is to be otherwise in it.

    Raises: ClientError (a process has died; what the others have finished comes before).
    """
    waiting = iter(plays)
    for first in waiting:
        yield from _play_some(path, chain([first], islice(waiting, jobs * RUNS_PER_PROCESS - 1)), jobs, changes)


def _play_some(
    path: str, waiting: Iterator[Play], jobs: int, changes: Mapping[str, str] | None
) -> Iterator[RunOutcome]:
    """`play_many`, in processes that end behind these."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, context, initializer=_begin, initargs=(path, changes))
    running: set[Future[RunOutcome]] = set()
    try:
        running |= _submitted(pool, islice(waiting, jobs * AHEAD))
        while running:
            done = next(as_completed(running))
            outcome = done.result()
            running.discard(done)
            running |= _submitted(pool, islice(waiting, 1))
            yield outcome
    except BrokenExecutor as error:
        yield from [one.result() for one in running if one.done() and one.exception() is None]
        raise ClientError(f"a process of the simulation has died: {error}; is there enough memory?") from None
    finally:
        children = multiprocessing.active_children()
        pool.shutdown(wait=False, cancel_futures=True)
        for child in children:
            child.terminate()


def _submitted(pool: ProcessPoolExecutor, plays: Iterator[Play]) -> set[Future[RunOutcome]]:
    """Return the futures of these runs. The pool starts its processes here: an interrupt, which is the parent's
    business, must not find them before they have come to ignore it, so they are born with it blocked.
    """
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        return {pool.submit(_play, what) for what in plays}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _begin(path: str, changes: Mapping[str, str] | None) -> None:
    """Get ready, once per process. An interrupt is the parent's business; so is the end of it, however that comes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="waits for the parent's end", daemon=True).start()
    _makers.append(maker_of(path, changes))
    gc.collect()
    gc.freeze()  # For all runs: to look at all modules before each takes a tenth of a short one.


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(EXIT_FAILED)  # Nothing here is worth being put in order, and nobody is left to read a word of it.


def _play(what: Play) -> RunOutcome:
    try:
        return play(_makers[-1], what)
    except UsageError as error:
        return RunOutcome.not_played(what.seed, str(error))
    except KeyboardInterrupt as error:  # Of the workload's own code: a real one is ignored.
        return RunOutcome.not_played(what.seed, repr(error))
