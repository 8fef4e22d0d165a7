"""Calls into the event loop that runs a cluster, from other threads (`waiting`) and other event loops (`awaiting`).

Both turn a method of the object in that event loop into a method of its `Face`, with the same parameters and result:

    class Cluster(Face[RunningCluster]):
        reset = waiting(RunningCluster.reset)
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from staticfire.protocol.errors import ClientError
from staticfire.runtime.loop_thread import LoopThread

C = TypeVar("C")
P = ParamSpec("P")
T = TypeVar("T")

# A test that hangs should fail with the place where it waits.
CALL_TIMEOUT_S = 60


class Face(Generic[C]):
    """The public side of an object that runs in the event loop of another thread."""

    def _thread_and_object(self) -> tuple[LoopThread, C]:
        """Return the thread and the object in it. Raises: ClientError when it isn't running (yet, or any more)."""
        raise NotImplementedError


def waiting(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, T]],
    timeout_s: float = CALL_TIMEOUT_S,
    in_a_loop: str = "",
) -> Callable[Concatenate[Any, P], T]:
    """Return a method that blocks until the result is there.

    `in_a_loop`: if given, the method raises ClientError with this text when the calling thread runs an event loop.
    """

    @wraps(method)
    def wait(face: Face[C], /, *arguments: P.args, **named: P.kwargs) -> T:
        if in_a_loop:
            _refuse_in_event_loop(in_a_loop)
        thread, target = face._thread_and_object()
        return thread.call(method(target, *arguments, **named), timeout_s)

    return wait


def awaiting(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return a method that is awaited in another event loop. Cancelling it there cancels the call."""

    @wraps(method)
    async def wait(face: Face[C], /, *arguments: P.args, **named: P.kwargs) -> T:
        thread, target = face._thread_and_object()
        return await asyncio.wrap_future(thread.submit(method(target, *arguments, **named)))

    return wait


def _refuse_in_event_loop(words: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ClientError(words)
