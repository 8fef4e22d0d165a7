"""Where fault rules are applied to requests. As long as there is a rule, each request passes here before its handler.

`outlet.py` applies rules to responses, and to the server's own requests.
"""

import asyncio
from collections.abc import Iterable
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
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.requests.send import SendManyAnswer
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Call, Handler

# The hits of a rule that are noted in the journal. A rule that hits everything would leave no place for other events.
HITS_NOTED_MAX = 100


class FaultGate:
    """Intercepts everything that enters or leaves a server while it has rules: an `Interceptor`."""

    def __init__(self, site: FaultSite, book: RuleBook) -> None:
        self._site = site
        self._book = book
        self._is_shut = False

    def shut(self) -> None:
        """Start to intercept, on open connections as well."""
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
                subject = subject_of(code_of(call.request), call.request, outlet.peer())
                outlet.note(call.opaque, OpenRequest(subject))

    def unshut(self) -> None:
        """Stop intercepting. There is no rule, so no data is delayed."""
        if not self._is_shut:
            return
        self._is_shut = False
        self._site.dispatcher.intercept(None)
        for connection in self._site.connections():
            outlet = _outlet_of(connection)
            if outlet is not None:
                connection.transport = outlet.transport

    def release(self, numbers: Iterable[int] | None) -> None:
        """Let everything arrive now that the rules with these numbers delay or slow; None: all rules."""
        for connection in list(self._site.connections()):
            outlet = _outlet_of(connection)
            if outlet is not None:
                outlet.release(numbers)

    def let_pass(self, call: Call) -> None:
        """Exclude the response to a request from the rules."""
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
        """Return the rules' decision about a request or a response now; None: no rule hits."""
        ruling = self._book.judge(direction, subject, self._site.clock.uptime_ms(), self._site.message_ms())
        if ruling is not None:
            for active in ruling.hits:
                if active.hits <= HITS_NOTED_MAX:
                    self._site.note_hit(active.rule, direction, subject)
        return ruling

    def concerns(self, code: int) -> bool:
        """Return whether a rule may apply to the response to a request with that code."""
        return self._book.concerns(code)

    # -- requests ----------------------------------------------------------------------------------------------------

    def _unjudged(self, handler: Handler, call: Call) -> Answer | None:
        self.let_pass(call)
        return handler(call)

    def _judged(self, code: int, handler: Handler, call: Call) -> Answer | None:
        outlet = _outlet_of(call.connection)
        if outlet is None:
            # The connection is closed.
            return None
        if not self._book.concerns(code) and code != RequestCode.HEART_BEAT:
            if not call.oneway:
                outlet.note(call.opaque, OpenRequest(None, code=code, request=call.request))
            return handler(call)
        # A heartbeat is read in any case: it contains the client's id.
        subject = subject_of(code, call.request, outlet.peer())
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
        outlet.later(actions.REQUEST, ruling, partial(self._handle_late, carry_out, call))
        return None

    def _handle_late(self, handler: Handler, call: Call) -> None:
        if call.connection.is_open:
            self._site.dispatcher.handle_late(handler, call)


def _outlet_of(connection: Connection) -> Outlet | None:
    transport: object = connection.transport
    return transport if isinstance(transport, Outlet) else None


def _carry_out(ruling: Ruling, handler: Handler, call: Call) -> Answer | None:
    """Handle a request as the rules decide."""
    if ruling.end is not None:
        return refusal(ruling.end.answer_code, remark_of(ruling.end))
    request = call.request
    if ruling.refused:
        if len(ruling.refused) == len(request.body):
            # The outlet adds the refusals to the response, as it does if only some messages are refused.
            return SendManyAnswer(body=[])
        call.request = request = without(request, ruling.refused)
    if ruling.skew_ms:
        skew(request, ruling.skew_ms)
    again = [Call(copy(request), call.opaque, True, call.codec, call.connection) for _ in range(ruling.duplicates)]
    answer = handler(call)
    for one in again:
        # The copy is a one-way call, so only one response is sent.
        handler(one)
    return answer
