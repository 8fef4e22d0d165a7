"""What a program's listener raises: a failed call, or the end of the consumer.

Whatever a listener raises means that its messages are redelivered. This includes exceptions that are no `Exception`:
`SystemExit` of an argument parser, and what `pytest.fail()` raises. Two exceptions don't come from the listener, and
end the consumer: KeyboardInterrupt, and the cancellation of the task that the listener runs in. In a thread there is no
such task, so only KeyboardInterrupt ends it.
"""

import asyncio
import inspect
from inspect import iscoroutinefunction

from staticfire.runtime.log import logger

log = logger("client")

# The maximum number of characters of a listener's object that are logged.
WORDS_MAX = 1_000


def ends_consumer(error: BaseException, is_leaving: bool = False, own: "asyncio.Task[object] | None" = None) -> bool:
    """Whether to re-raise an exception, where it is caught: in the event loop.

    `is_leaving`: the consumer is cancelling its listeners; `own`: the task that awaited the listener.
    """
    if isinstance(error, Exception):
        return False
    if isinstance(error, KeyboardInterrupt):
        return True
    if isinstance(error, asyncio.CancelledError):
        task = _running_task()
        # Otherwise something was cancelled that the listener awaited.
        return is_leaving or task is None or task.cancelling() > 0
    running = _running_task()
    # No task is running, or another one, during which garbage is collected: the coroutine is being discarded.
    return isinstance(error, GeneratorExit) and (running is None or (own is not None and running is not own))


def _running_task() -> "asyncio.Task[object] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


class ListenerFaults:
    """The faults of one consumer's listener, logged at the 1st, 10th, 100th and every 1,000th time."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._raised = 0
        self._strange = 0

    def raised(self, error: BaseException) -> None:
        """Note an exception."""
        self._raised = times = self._raised + 1
        if is_logged(times):
            log.warning("listener_raised", group=self._group, error=words_of(error), times=times, at=place_of(error))

    def answered(self, status: object, taken_for: str) -> None:
        """Count a result that isn't valid here."""
        self._count_strange(words_of(status), taken_for)

    def set_wrong(self, name: str, value: object, taken_for: object) -> None:
        """Count a value that a listener has set in its context, and that isn't valid there."""
        self._count_strange(f"context.{name}={words_of(value)}", str(taken_for))

    def _count_strange(self, answer: str, taken_for: str) -> None:
        self._strange = times = self._strange + 1
        if is_logged(times):
            log.warning("listener_answer", group=self._group, answer=answer, taken_for=taken_for, times=times)


def is_async(listener: object) -> bool:
    """Whether calling it returns an awaitable: it is a coroutine function, or an object with such a `__call__`."""
    return iscoroutinefunction(listener) or iscoroutinefunction(getattr(listener, "__call__", None))  # noqa: B004


def report_cancelled(group: str, listener: object, cancelled: int, running: int) -> None:
    """Log which listener didn't end when its consumer left. `running`: threads that are still in it."""
    if running:
        words = "its thread can't be stopped: it continues until the process ends"
        log.error("listener_still_runs", group=group, listener=name_of(listener), threads=running, reason=words)
    elif cancelled:
        log.warning("listeners_cancelled", group=group, listener=name_of(listener), listeners=cancelled)


def name_of(listener: object) -> str:
    """Return the name of a program's listener, even if it is wrapped."""
    function = inspect.unwrap(listener) if callable(listener) else listener
    name = getattr(function, "__qualname__", None)
    return name if isinstance(name, str) else words_of(function)


def words_of(value: object) -> str:
    """Return the repr of a listener's object. It is the program's code: it may raise, or be very long."""
    try:
        words = repr(value)
    except Exception as error:  # noqa: BLE001 (whatever it is)
        return f"a {type(value).__name__} whose repr raises {type(error).__name__}"
    return words if len(words) <= WORDS_MAX else f"{words[:WORDS_MAX]}..."


def is_logged(times: int) -> bool:
    """Whether to log a repeated event this time."""
    return times in (1, 10, 100) or times % 1_000 == 0


def place_of(error: BaseException) -> str:
    """Return where an exception was raised, as `file:line`."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "?" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
