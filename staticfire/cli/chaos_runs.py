"""The runs of `staticfire chaos`, in their order, until the user stops them. Thin: `staticfire/chaos/` decides."""

import asyncio
import os
from collections.abc import Sequence

from staticfire.chaos.report import JsonReport, TextReport
from staticfire.chaos.session import Calm, SeedResult, Session, Stopped, WantedTrial
from staticfire.cli.stay import signals_call
from staticfire.protocol.errors import UsageError
from staticfire.runtime.exit_codes import EXIT_FAILED, EXIT_USAGE


class Runs:
    """The calm run, then the seeds."""

    def __init__(
        self,
        wanted: WantedTrial,
        seeds: Sequence[int],
        report: TextReport | JsonReport,
        page_path: str | None,
        test_path: str | None,
        is_plan: bool,
        until_broken: bool,
    ) -> None:
        self._wanted = wanted
        self._seeds = seeds
        self._report = report
        self._page_path = page_path
        self._test_path = test_path
        self._is_plan = is_plan
        self._until_broken = until_broken
        self._results: list[SeedResult] = []
        self.stopped_by = 0
        """The number of the signal that stopped it."""

    async def all(self) -> int | None:
        """Do everything; return the exit code, or None if the user has stopped it and no promise is broken so far."""
        self._check_paths()
        stop = asyncio.Event()

        def stop_by(number: int) -> None:
            self.stopped_by = number
            stop.set()

        session = Session(self._wanted, stop)
        calm: Calm | None = None
        with signals_call(stop_by):
            try:
                calm = await session.calm()
                self._report.calm(calm)
                if calm.problem:
                    self._write(calm, None)
                    return self._problem_code(calm)
                if self._is_plan:
                    self._plan(session, calm)
                    return 0
                for seed in self._seeds:
                    await self._seed(session, seed, calm)
                    if self._until_broken and self._results[-1].broken:
                        break
            except Stopped:
                pass
        if calm is None:
            return None
        self._report.end(self._results, stop.is_set())
        self._write(calm, self._worst())
        if any(result.broken for result in self._results):
            return EXIT_FAILED
        if stop.is_set():
            return None
        hits = sum(len(result.plan) - len(result.missed) for result in self._results)
        return 0 if hits else EXIT_USAGE

    async def _seed(self, session: Session, seed: int, calm: Calm) -> None:
        result = await session.seed(seed, calm)
        self._results.append(result)
        self._report.seed(result)
        try:
            if result.evidence.was_stopped:
                raise Stopped
            if not result.broken:
                return
            result.as_in_seed = self._as_in_seed(result)
            if self._wanted.runs_max and result.as_in_seed is None:
                await session.again(result, calm)
                await session.shrink(result, calm, self._report.shrinking)
        finally:
            if result.broken:
                self._report.failed(result)

    def _as_in_seed(self, result: SeedResult) -> int | None:
        """Return the first seed before that has broken all these promises, if each was broken before; else None."""
        kinds = {one.kind for one in result.broken}
        earlier = self._results[:-1]
        if not kinds <= {one.kind for other in earlier for one in other.broken}:
            return None
        return next(other.seed for other in earlier if kinds & {one.kind for one in other.broken})

    def _plan(self, session: Session, calm: Calm) -> None:
        for seed in self._seeds:
            self._report.plan(seed, session.plan(seed, calm.usage))

    def _problem_code(self, calm: Calm) -> int:
        if calm.evidence.exit_code:
            code = calm.evidence.exit_code
            return code if code > 0 else 128 - code
        return EXIT_FAILED if calm.broken else EXIT_USAGE

    def _worst(self) -> SeedResult | None:
        """Return the first result with a broken promise, else the last one."""
        broken = [result for result in self._results if result.broken]
        return broken[0] if broken else (self._results[-1] if self._results else None)

    # -- files ---------------------------------------------------------------------------------------------------

    def _check_paths(self) -> None:
        """Raises: UsageError (a file can't be written): before anything runs. It leaves no empty file."""
        for path in (self._page_path, self._test_path):
            if path is not None:
                is_new = not os.path.lexists(path)
                try:
                    with open(path, "a", encoding="utf-8"):
                        pass
                    if is_new:
                        os.unlink(path)
                except OSError as error:
                    raise UsageError(f"{path} can't be written: {error.strerror}") from None

    def _write(self, calm: Calm, result: SeedResult | None) -> None:
        if self._page_path is not None:
            from staticfire.chaos.page import page_of

            evidence = calm.evidence if result is None else result.evidence
            broken = calm.broken if result is None else result.broken
            title = "calm weather" if result is None else f"seed {result.seed}"
            with open(self._page_path, "w", encoding="utf-8") as file:
                file.write(page_of(title, evidence, broken, self._wanted.program.command))
        if self._test_path is not None and result is not None and result.broken:
            from staticfire.chaos.repeating import as_test

            with open(self._test_path, "w", encoding="utf-8") as file:
                smallest = result.smallest or result.plan
                each = [str(one) for one in self._wanted.each]
                program = self._wanted.program
                file.write(as_test(result.seed, smallest, result.broken, program, each, calm.is_service))
