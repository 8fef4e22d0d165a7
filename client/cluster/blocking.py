"""Makes the blocking API of a client class: one line per method, with the types of the asynchronous method.

    class BlockingAdmin(BlockingFace["Admin"]):
        create_topic = blocking(Admin.create_topic)      # a coroutine function
        stop = on_loop(Service.stop)                     # a plain function that must run in the event loop
        lines = iterating(Admin.lines)                   # an asynchronous iterator

and the class itself:

    def __enter__(self) -> "BlockingAdmin":
        return BlockingAdmin.enter(self)

`as` returns the blocking object. The original object can be used as well: `with consumer: consumer.suspend()`. Inside
such a `with`, its methods that the blocking class has call the blocking ones, except when the caller is the event loop.

A call raises what the asyncio method raises, after its timeouts. Ctrl-C ends a call and cancels its coroutine.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast

from staticfire.client.cluster.client_service import ClientService
from staticfire.runtime.loop_thread import LoopThread, refuse_in_event_loop

S = TypeVar("S", bound=ClientService)
P = ParamSpec("P")
T = TypeVar("T")

MARK = "__blocks_for__"
"""The attribute of the functions below that holds the asynchronous method."""


END = object()
"""The value that marks the end of an iterator."""


class BlockingFace(Generic[S]):
    """A client object that can be called from any thread without a running event loop."""

    def __init__(self, service: S, thread: LoopThread) -> None:
        self.service = service
        """The asynchronous object. Its methods must run in its own event loop."""
        self._thread = thread

    @classmethod
    def enter(cls, service: S) -> Self:
        """Start a service, in the thread of its shared client or in its own. Raises: ClientError, and as its start."""
        owner = service.own_name
        refuse_in_event_loop(owner)
        thread = service.shared_thread() or LoopThread(owner)
        face = cls(service, thread)
        try:
            thread.call(service.__aenter__())
        except BaseException:
            if not service.is_client_shared:
                thread.close()
            raise
        service.entered_as(face)
        face._stand_in()
        return face

    def leave(self) -> None:
        """Stop the service. In a forked child this does nothing: the service belongs to the parent.

        Raises: the exception that ended its event loop.
        """
        thread = self._thread
        if thread.is_copy:
            return
        try:
            if thread.error is None:
                thread.call(self.service.__aexit__())
        finally:
            if not self.service.is_client_shared:
                thread.close()
        if thread.error is not None:
            raise thread.error

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for `stop` or the timeout. Return whether it was stopped. Raises: what one of its loops crashed with."""

        async def wait() -> bool:
            waiting = asyncio.ensure_future(self.service.wait())
            try:
                done, _ = await asyncio.wait([waiting], timeout=timeout_s)
            finally:
                waiting.cancel()
            if done:
                waiting.result()
            return bool(done)

        return self._call(wait)

    def stop(self) -> None:
        """Let `wait` return. May be called from a listener."""
        self._on_loop(self.service.stop)

    def _call(self, function: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **named: P.kwargs) -> T:
        """Call a coroutine function in the event loop, and wait for its result."""

        async def call() -> T:
            return await function(*arguments, **named)

        refuse_in_event_loop(self._thread.owner, self._thread)
        return self._thread.call(call())

    def _on_loop(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Call a plain function in the event loop; directly if the caller is the event loop."""
        if self._thread.is_current:
            return function(*arguments, **named)

        async def call() -> T:
            return function(*arguments, **named)

        return self._call(call)

    def _stand_in(self) -> None:
        """Redirect the object's own methods to this one, so that no call returns a coroutine that isn't awaited."""
        for name in dir(type(self)):
            if hasattr(getattr(type(self), name), MARK):
                vars(self.service)[name] = self._either(getattr(self.service, name), getattr(self, name))

    def _either(self, inside: Callable[..., Any], outside: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(inside)
        def call(*arguments: Any, **named: Any) -> Any:
            return (inside if self._thread.is_current else outside)(*arguments, **named)

        return call


def blocking(method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """Return a blocking method that waits for a coroutine method."""

    @wraps(method)
    def wait(face: BlockingFace[S], /, *arguments: P.args, **named: P.kwargs) -> T:
        function: Callable[P, Coroutine[Any, Any, T]] = getattr(face.service, method.__name__)
        return face._call(function, *arguments, **named)

    setattr(wait, MARK, method)
    return wait


def on_loop(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Return a blocking method that calls a plain method in the event loop."""

    @wraps(method)
    def call(face: BlockingFace[S], /, *arguments: P.args, **named: P.kwargs) -> T:
        function: Callable[P, T] = getattr(face.service, method.__name__)
        return face._on_loop(function, *arguments, **named)

    setattr(call, MARK, method)
    return call


def iterating(method: Callable[Concatenate[S, P], AsyncIterator[T]]) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """Return a blocking method that yields the values of an asynchronous iterator."""

    @wraps(method)
    def iterate(face: BlockingFace[S], /, *arguments: P.args, **named: P.kwargs) -> Iterator[T]:
        function: Callable[P, AsyncIterator[T]] = getattr(face.service, method.__name__)
        iterator = face._on_loop(function, *arguments, **named)

        async def following() -> T | object:
            return await anext(iterator, END)

        async def close() -> None:
            if isinstance(iterator, AsyncGenerator):
                await iterator.aclose()

        try:
            while (item := face._call(following)) is not END:
                yield cast(T, item)
        finally:
            face._call(close)

    setattr(iterate, MARK, method)
    return iterate


def stands_for(method: Callable[..., Any]) -> Callable[[T], T]:
    """Mark a hand-written method as the blocking form of another one."""

    def mark(function: T) -> T:
        setattr(function, MARK, method)
        return function

    return mark
