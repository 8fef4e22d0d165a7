"""What pytest shows of a failed or skipped test: its cluster at the moment of failure, and the test's own lines.

A test that fails inside `with consumer` leaves that block before pytest makes its report, and the consumer leaves its
group. So the cluster is described when the block fails, and the description is kept for the report of this failure.
"""

import asyncio
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING

import pytest

from staticfire.protocol.errors import ClientError, UsageError
from staticfire.testing.waits import NotYet

if TYPE_CHECKING:
    from staticfire.testing.rocketmq import RocketMQ

OURS = "staticfire."
# The test may expect the exception: then this only delays it, for example while a broker is killed.
BLOCK_S = 3.0
CALLERS_MISTAKES = (NotYet, UsageError, ClientError)
"""Errors whose cause is in the test. Our own frames would only hide the line that raises them."""


class FailureReport:
    """Describes the cluster of one test when a `with` block of the test fails. See runtime/failing_blocks.py."""

    def __init__(self, cluster: "RocketMQ") -> None:
        self._cluster = cluster
        self._kept: list[tuple[BaseException, str]] = []
        """The latest exception that left a block, with the description."""
        self._is_busy = False

    def failed(self, error: BaseException) -> None:
        """Describe the cluster. Not in an event loop: consumers that run there couldn't respond meanwhile."""
        if _is_in_event_loop() or not self._begin(error):
            return
        thread, running = self._cluster._thread_and_object()
        try:
            self._kept = [(error, thread.call(running.explain(), BLOCK_S))]
        except Exception:  # noqa: BLE001 (then the cluster is described for the report, if the test fails)
            self._kept = []
        finally:
            self._is_busy = False

    async def failed_in_loop(self, error: BaseException) -> None:
        """Describe the cluster, while the consumers of this event loop can answer."""
        if not self._begin(error):
            return
        try:
            async with asyncio.timeout(BLOCK_S):
                self._kept = [(error, await self._cluster.aio.explain())]
        except Exception:  # noqa: BLE001 (the same)
            self._kept = []
        finally:
            self._is_busy = False

    def text_for(self, error: BaseException) -> str:
        """Return the description for the exception that failed the test."""
        related = list(_related(error))
        return next((text for kept, text in self._kept if kept in related), None) or self._described()

    def _begin(self, error: BaseException) -> bool:
        """Return whether this exception must be described: it may fail the test, and it is a new one."""
        known = list(_related(error))
        if self._is_busy or not _fails(error) or any(kept in known for kept, _ in self._kept):
            return False
        self._is_busy = True
        return True

    def _described(self) -> str:
        try:
            return self._cluster.explain()
        except Exception as problem:  # noqa: BLE001 (whatever it is, the failure of the test itself matters more)
            return f"the consumer groups can't be described: {type(problem).__name__}: {problem}"


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _fails(error: BaseException) -> bool:
    from unittest import SkipTest  # here: it brings all of unittest

    return isinstance(error, Exception | pytest.fail.Exception) and not isinstance(error, SkipTest)


def _related(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, those that led to it, and those of a group."""
    if error is None:
        return
    yield error
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _related(one)
    yield from _related(error.__cause__ or error.__context__)


def forget_our_frames(error: BaseException) -> None:
    """Cut the traceback of a caller's mistake at the line of the test."""
    if not isinstance(error, CALLERS_MISTAKES):
        return
    traceback = error.__traceback__
    while traceback is not None and (below := traceback.tb_next) is not None:
        if _is_ours(below):
            traceback.tb_next = None
        traceback = traceback.tb_next


def place_of_skip(item: pytest.Item, error: BaseException) -> tuple[str, int] | None:
    """Return the file and line of the test where one of our objects skipped it; None if the test itself did."""
    from unittest import SkipTest

    frames = list(_frames(error.__traceback__))
    if not isinstance(error, SkipTest) or not frames or not _is_ours(frames[-1]):
        return None
    lines = [one.tb_lineno for one in frames if one.tb_frame.f_code.co_filename == str(item.path)]
    path, first, _ = item.reportinfo()
    return str(path), lines[-1] if lines else (first or 0) + 1


def _frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _is_ours(traceback: TracebackType) -> bool:
    return str(traceback.tb_frame.f_globals.get("__name__", "")).startswith(OURS)
