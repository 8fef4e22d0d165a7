"""Requests that come while a broker has no core: they wait, and are handled by the next one. Pure."""

from collections.abc import Callable
from typing import NamedTuple

from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.frame_reader import Handler
from staticfire.runtime.dispatcher import Call, Dispatcher

CALLS_MAX = 100_000


class WaitingCall(NamedTuple):
    """A request that came meanwhile."""

    code: int
    refusing: Handler | None
    """Who refuses it, if it was refused unread."""
    call: Call


class Gate:
    """Stands before all handlers of a dispatcher from `close` to `open`."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._filed: dict[int, Handler] = {}
        self._waiting: list[WaitingCall] = []

    def close(self) -> None:
        """Let whatever comes wait."""
        self._filed = dict(self._dispatcher.routes.handlers)
        self._dispatcher.routes.guard(self._guard)
        self._dispatcher.settle = None

    def _guard(self, code: int, handler: Handler) -> Handler:
        refusing = None if self._filed.get(code) is handler else handler

        def wait(call: Call) -> Answer | None:
            if len(self._waiting) >= CALLS_MAX:
                return refusal(ResponseCode.SYSTEM_BUSY, "a snapshot is being saved or put back: too much waits for it")
            self._waiting.append(WaitingCall(code, refusing, call))
            return None

        return wait

    def open(self, core: Dispatcher) -> Callable[[], None]:
        """Let the handlers of a core take over; return what has them handle what has waited."""
        self._dispatcher.routes.guard(None)
        self._dispatcher.take_over(core)
        return self._handle

    def _handle(self) -> None:
        waiting, self._waiting = self._waiting, []
        for code, refusing, call in waiting:
            self._dispatcher.handle_late(refusing or self._dispatcher.routes.handlers[code], call)
