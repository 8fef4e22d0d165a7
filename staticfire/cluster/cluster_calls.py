"""Calls into the event loop that a cluster lives in, from other threads (`waiting`) and other loops (`awaiting`).

Both give a method of a face from one of what stands behind it, with its parameters and its result:

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

CALL_TIMEOUT_S = 60
# A test that hangs should say where.


class Face(Generic[C]):
    """Stands before something that lives in another thread's event loop."""

    def _behind(self) -> tuple[LoopThread, C]:
        """Return the thread and what lives there. Raises: ClientError when it doesn't, or not any more."""
        raise NotImplementedError


def waiting(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, T]],
    timeout_s: float = CALL_TIMEOUT_S,
    in_a_loop: str = "",
) -> Callable[Concatenate[Any, P], T]:
    """Return a method that blocks. `in_a_loop`: why it doesn't where an event loop runs, and what to do instead."""

    @wraps(method)
    def wait(face: Face[C], /, *arguments: P.args, **named: P.kwargs) -> T:
        if in_a_loop:
            _refuse_in_event_loop(in_a_loop)
        thread, behind = face._behind()
        return thread.call(method(behind, *arguments, **named), timeout_s)

    return wait


def awaiting(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return a method that is awaited in another loop. Whoever is cancelled there cancels the call."""

    @wraps(method)
    async def wait(face: Face[C], /, *arguments: P.args, **named: P.kwargs) -> T:
        thread, behind = face._behind()
        return await asyncio.wrap_future(thread.submit(method(behind, *arguments, **named)))

    return wait


def _refuse_in_event_loop(words: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ClientError(words)
