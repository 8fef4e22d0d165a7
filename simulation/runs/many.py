"""Runs many seeds in a few processes: each run uses one core and shares nothing."""

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
from staticfire.simulation.runs.play import Play, freeze_for_good, play
from staticfire.simulation.runs.swarm import maker_of
from staticfire.simulation.workload.loading import WorkloadMaker

# How many seeds wait per process.
AHEAD = 4
# Processes are replaced after this many runs. Requests aren't tracked by the garbage collector, for the sake of the
# brokers, so a world that was stopped in the middle of a request remains in memory (2 MiB) as long as its process.
RUNS_PER_PROCESS = 100

# The workload maker of this process.
_makers: list[WorkloadMaker] = []


def cores() -> int:
    """Return how many processes can run at the same time here."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def play_many(
    path: str, plays: Iterable[Play], jobs: int, changes: Mapping[str, str] | None = None
) -> Iterator[RunOutcome]:
    """Yield the outcome of each run as soon as it is known. Closing the generator ends the processes.

    `path`: of a workload file; empty: each seed makes its own workload. `changes`: differences from the file.

    Raises: ClientError (a process has died; the finished outcomes of the others are yielded first).
    """
    waiting = iter(plays)
    for first in waiting:
        yield from _play_some(path, chain([first], islice(waiting, jobs * RUNS_PER_PROCESS - 1)), jobs, changes)


def _play_some(
    path: str, waiting: Iterator[Play], jobs: int, changes: Mapping[str, str] | None
) -> Iterator[RunOutcome]:
    """Like `play_many`, in processes that end after these runs."""
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
        for child in multiprocessing.active_children():
            child.terminate()
        # Wait for the pool's own thread. Python's exit would otherwise write to a pipe that this thread closes then.
        pool.shutdown(cancel_futures=True)


def _submitted(pool: ProcessPoolExecutor, plays: Iterator[Play]) -> set[Future[RunOutcome]]:
    """Submit these runs; return their futures.

    The pool starts its processes here. An interrupt is handled by the parent, and the processes ignore it as soon as
    they can. It must not reach them earlier, so they start with the signal blocked.
    """
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        return {pool.submit(_play, what) for what in plays}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _begin(path: str, changes: Mapping[str, str] | None) -> None:
    """Prepare a process. It ignores interrupts, which the parent handles, and ends when the parent ends in any way."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="waits for the parent's end", daemon=True).start()
    _makers.append(maker_of(path, changes))
    freeze_for_good()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        # Nothing here needs an orderly end, and no process is left to read a message.
        os._exit(EXIT_FAILED)


def _play(what: Play) -> RunOutcome:
    try:
        return play(_makers[-1], what)
    except UsageError as error:
        return RunOutcome.not_played(what.seed, str(error))
    except KeyboardInterrupt as error:  # It comes from the workload's own code: real interrupts are ignored.
        return RunOutcome.not_played(what.seed, repr(error))
