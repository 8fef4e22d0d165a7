"""Where rules meet requests: each one passes here on the way to its handler, as long as there is a rule.

What a rule does to answers, and to requests of the server's own, is done in `outlet.py`.
"""

import asyncio
from copy import copy
from functools import partial
from typing import cast

from staticfire.faults import actions
from staticfire.faults.book import REFUSALS, RuleBook, Ruling
from staticfire.faults.bundles import remark_of, without
from staticfire.faults.codes import RULE_CODES, code_of
from staticfire.faults.matching import Subject, subject_of
from staticfire.faults.outlet import OpenRequest, Outlet
from staticfire.faults.site import FaultSite
from staticfire.faults.skew import skew
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.requests.send import SendManyAnswer
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Call, Handler


class FaultGate:
    """Stands in the way of everything that comes to a server and leaves it, while it has rules: an `Interceptor`."""

    def __init__(self, site: FaultSite, book: RuleBook) -> None:
        self._site = site
        self._book = book
        self._is_shut = False

    def shut(self) -> None:
        """Stand in the way of all, open connections included."""
        if self._is_shut:
            return
        self._is_shut = True
        self._site.dispatcher.intercept(self)
        for connection in self._site.connections():
            if connection.transport is not None:
                connection.transport = self.outlet(connection, connection.transport)
        for call in self._site.waiting():
            outlet = _outlet_of(call.connection)
            if outlet is not None:
                subject = subject_of(code_of(call.request), call.request, outlet.who())
                outlet.note(call.opaque, OpenRequest(subject))

    def unshut(self) -> None:
        """Let everything pass as if nobody had ever been here, but for what is on its way."""
        if not self._is_shut:
            return
        self._is_shut = False
        self._site.dispatcher.intercept(None)
        for connection in self._site.connections():
            outlet = _outlet_of(connection)
            if outlet is not None and outlet.is_idle:
                connection.transport = outlet.transport

    def let_pass(self, call: Call) -> None:
        """Have no rule judge the answer to a request."""
        outlet = _outlet_of(call.connection)
        if outlet is not None and not call.oneway:
            outlet.note(call.opaque, OpenRequest(None))

    # -- the interceptor ---------------------------------------------------------------------------------------------

    def guard(self, code: int, handler: Handler) -> Handler:
        """See `Interceptor`."""
        return partial(self._unjudged, handler) if code in RULE_CODES else partial(self._judged, code, handler)

    def outlet(self, connection: Connection, transport: asyncio.Transport) -> asyncio.Transport:
        """See `Interceptor`."""
        if isinstance(transport, Outlet):
            return cast(asyncio.Transport, transport)
        return cast(asyncio.Transport, Outlet(connection, transport, self, self._site.clock))

    def judge(self, direction: str, subject: Subject) -> Ruling | None:
        """Return what becomes of something now; None: nothing."""
        return self._book.judge(direction, subject, self._site.clock.uptime_ms(), self._site.message_ms())

    # -- requests ----------------------------------------------------------------------------------------------------

    def _unjudged(self, handler: Handler, call: Call) -> Answer | None:
        self.let_pass(call)
        return handler(call)

    def _judged(self, code: int, handler: Handler, call: Call) -> Answer | None:
        outlet = _outlet_of(call.connection)
        if outlet is None:
            return None  # The connection is gone.
        subject = subject_of(code, call.request, outlet.who())
        ruling = self.judge(actions.REQUEST, subject)
        if ruling is not None and ruling.end is not None and ruling.end.action not in REFUSALS:
            if ruling.end.action == actions.CLOSE:
                call.connection.abort()
            return None
        if not call.oneway:
            outlet.note(call.opaque, OpenRequest(subject, {} if ruling is None else ruling.refused))
        if ruling is None:
            return handler(call)
        carry_out = partial(_carry_out, ruling, handler)
        if not ruling.delay_ms:
            return carry_out(call)
        outlet.later(actions.REQUEST, ruling.delay_ms, partial(self._handle_late, carry_out, call))
        return None

    def _handle_late(self, handler: Handler, call: Call) -> None:
        if call.connection.is_open:
            self._site.dispatcher.handle_late(handler, call)


def _outlet_of(connection: Connection) -> Outlet | None:
    transport: object = connection.transport
    return transport if isinstance(transport, Outlet) else None


def _carry_out(ruling: Ruling, handler: Handler, call: Call) -> Answer | None:
    """Handle a request as far as rules let it."""
    if ruling.end is not None:
        return refusal(ruling.end.answer_code, remark_of(ruling.end))
    request = call.request
    if ruling.refused:
        if len(ruling.refused) == len(request.body):
            # Its outlet puts in the refusals, as for some of them.
            return SendManyAnswer(body=[])
        call.request = request = without(request, ruling.refused)
    if ruling.skew_ms:
        skew(request, ruling.skew_ms)
    again = [Call(copy(request), call.opaque, True, call.codec, call.connection) for _ in range(ruling.duplicates)]
    answer = handler(call)
    for one in again:
        handler(one)  # One-way: what comes of it is told nobody.
    return answer
