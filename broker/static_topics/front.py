"""Intercept requests for logical queues before the handlers of pulls and offsets.

A request for a topic that isn't static, or with `lo` false, is passed on after one look-up in a dictionary. The
translator is created at the first request for a logical queue: few brokers need it.
"""

from functools import partial
from typing import TYPE_CHECKING

from staticfire.broker.pulls.held_pulls import HeldPulls
from staticfire.broker.registration import Registration
from staticfire.broker.static_topics.table import StaticTopicTable
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer
from staticfire.runtime.dispatcher import Call, Dispatcher, Handler
from staticfire.runtime.pool import ConnectionPool

if TYPE_CHECKING:
    from staticfire.broker.static_topics.translator import Translator

TRANSLATED = (
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.UPDATE_CONSUMER_OFFSET,
    RequestCode.GET_MAX_OFFSET,
    RequestCode.GET_MIN_OFFSET,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
    RequestCode.GET_EARLIEST_MSG_STORETIME,
)


class StaticTopicFront:
    """Passes requests for logical queues to the translator."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        static_topics: StaticTopicTable,
        held: HeldPulls,
        registration: Registration,
        pool: ConnectionPool,
    ) -> None:
        self._dispatcher = dispatcher
        self._mappings = static_topics.by_topic
        self._held = held
        self._registration = registration
        self._pool = pool
        self._handlers: dict[int, Handler] = {}
        self._fronts: dict[int, Handler] = {}
        self._translator: Translator | None = None
        static_topics.on_change(self._mapped_anew)

    def intercept(self) -> None:
        """Intercept these requests. Their handlers must be registered already."""
        for code in TRANSLATED:
            self._dispatcher.precede(code, partial(self._before, code))

    def _before(self, code: int, handler: Handler) -> Handler:
        self._handlers[code] = handler
        mappings, translating = self._mappings, self._translating

        def handle(call: Call) -> Answer | None:
            """Handle a request. Hot path up to the first condition."""
            if mappings and call.request.topic in mappings and call.request.lo is not False:
                return translating().handle(code, call)
            return handler(call)

        self._fronts[code] = handle
        return handle

    def _translating(self) -> "Translator":
        if self._translator is None:
            from staticfire.broker.static_topics.peers import BrokerPeers  # imported only if needed
            from staticfire.broker.static_topics.translator import Translator

            peers = BrokerPeers(self._registration, self._pool)
            self._translator = Translator(self._mappings, self._handlers, peers, self._dispatcher.start)
        return self._translator

    def _mapped_anew(self, topic: str) -> None:
        """Try the held pulls of a topic again: its mapping changed, and this broker may no longer lead their queues."""
        for pull in self._held.take_topic(topic):
            original = self._translating().original(pull.call)
            if original.connection.is_open:
                self._dispatcher.handle_late(self._fronts[RequestCode.PULL_MESSAGE], original)
