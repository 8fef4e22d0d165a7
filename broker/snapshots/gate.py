"""Hold requests that arrive while a broker has no core, until the next core can handle them. Pure."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.frame_reader import Handler
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Call, Dispatcher

CALLS_MAX = 100_000


class WaitingCall(NamedTuple):
    """A request that is held."""

    code: int
    refusing: Handler | None
    """The handler that refuses it, if it was refused before it was read."""
    call: Call


class Gate:
    """Replaces all handlers of a dispatcher from `close` to `open`."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._filed: dict[int, Handler] = {}
        self._waiting: list[WaitingCall] = []

    def close(self) -> None:
        """Hold all requests from now on."""
        self._filed = dict(self._dispatcher.routes.handlers)
        self._dispatcher.routes.guard(self._guard)
        self._dispatcher.settle = None

    def _guard(self, code: int, handler: Handler) -> Handler:
        refusing = None if self._filed.get(code) is handler else handler

        def wait(call: Call) -> Answer | None:
            if len(self._waiting) >= CALLS_MAX:
                return refusal(
                    ResponseCode.SYSTEM_BUSY,
                    "a snapshot is being saved or restored, and too many requests wait for its end",
                )
            self._waiting.append(WaitingCall(code, refusing, call))
            return None

        return wait

    def open(self, core: Dispatcher, lost: Callable[[Connection], None]) -> Callable[[], None]:
        """Switch to the handlers of a new core; return a function that handles the held requests.

        `lost` is called with the connections that were closed meanwhile, after their requests: what these have
        registered, such as a member of a group, must not be kept.
        """
        self._dispatcher.routes.guard(None)
        self._dispatcher.take_over(core)
        return partial(self._handle, lost)

    def _handle(self, lost: Callable[[Connection], None]) -> None:
        waiting, self._waiting = self._waiting, []
        for code, refusing, call in waiting:
            self._dispatcher.handle_late(refusing or self._dispatcher.routes.handlers[code], call)
        for connection in dict.fromkeys(one.call.connection for one in waiting):
            if not connection.is_open:
                lost(connection)
