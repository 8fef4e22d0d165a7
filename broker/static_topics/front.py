"""Stands before the handlers of pulls and offsets, and translates what is about logical queues.

A request for a topic that isn't static, or that says `lo` false, passes after one look into a dictionary.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from staticfire.broker.pulls.held_pulls import HeldPulls
from staticfire.broker.static_topics import offsets
from staticfire.broker.static_topics.mapping import decided
from staticfire.broker.static_topics.peers import BrokerPeers
from staticfire.broker.static_topics.pulling import Stretch, logical_answer, physical_pull, stretch_of
from staticfire.broker.static_topics.sends import items_led
from staticfire.broker.static_topics.table import StaticTopicTable
from staticfire.broker.static_topics.translated_call import TranslatedCall, translated
from staticfire.protocol.codecs import NATIVE
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, Records, Request, RocketmqRecords, as_declared, declaration_of, refusal
from staticfire.protocol.record import split_body
from staticfire.protocol.requests.pull import PullAnswer, PullMessage, WholePull, WholePullAnswer
from staticfire.protocol.requests.static_topics import MappingDetail, MappingItem
from staticfire.protocol.rocketmq_record import rocketmq_records
from staticfire.runtime.dispatcher import Call, Dispatcher, Handler

Question = Callable[[Any, list[MappingItem], offsets.Ask], Awaitable[Answer]]

PULLS = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
QUESTIONS: dict[RequestCode, Question] = {
    RequestCode.QUERY_CONSUMER_OFFSET: offsets.query,
    RequestCode.UPDATE_CONSUMER_OFFSET: offsets.update,
    RequestCode.GET_MAX_OFFSET: offsets.max_offset,
    RequestCode.GET_MIN_OFFSET: offsets.min_offset,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: offsets.search,
    RequestCode.GET_EARLIEST_MSG_STORETIME: offsets.earliest,
}


class StaticTopicFront:
    """Translates pulls and questions about offsets, and their answers."""

    def __init__(self, static_topics: StaticTopicTable, held: HeldPulls, peers: BrokerPeers) -> None:
        self._mappings = static_topics.by_topic
        self._held = held
        self._peers = peers
        self._dispatcher: Dispatcher
        self._handlers: dict[int, Handler] = {}
        static_topics.on_change(self._mapped_anew)

    def stand_before(self, dispatcher: Dispatcher) -> None:
        """Have these requests come here first. They have handlers already."""
        self._dispatcher = dispatcher
        for code in PULLS:
            dispatcher.precede(code, partial(self._before, code, self._pull))
        for code, question in QUESTIONS.items():
            dispatcher.precede(code, partial(self._before, code, partial(self._answer, question)))

    def _before(self, code: int, front: Callable[[Handler, Call], Answer | None], handler: Handler) -> Handler:
        self._handlers[code] = handler
        return partial(front, handler)

    # -- pulls -----------------------------------------------------------------------------------------------------

    def _pull(self, handler: Handler, call: Call) -> Answer | None:
        """Pull a stretch of a logical queue, here or from another broker. Hot as far as the first line."""
        detail = self._mappings.get(call.request.topic)
        if detail is None or call.request.lo is False:
            return handler(call)
        request: PullMessage = call.request
        stretch = stretch_of(items_led(detail, request.queue_id), request.queue_offset)
        if stretch is None:
            return refusal(ResponseCode.SYSTEM_ERROR, offsets.UNDECIDED_WORDS)
        if stretch.item.bname != detail.bname:
            self._dispatcher.start(partial(self._pull_elsewhere, stretch), call)
            return None
        answer = handler(translated(call, physical_pull(request, stretch), partial(self._logical, stretch)))
        return None if answer is None else self._logical(stretch, answer)

    def _logical(self, stretch: Stretch, answer: Answer) -> Answer:
        return logical_answer(answer, stretch) if isinstance(answer, PullAnswer) else answer

    async def _pull_elsewhere(self, stretch: Stretch, call: Call) -> Answer:
        """Have the broker of an earlier stretch answer a pull. Raises: BrokerAnswer."""
        pull = physical_pull(call.request, stretch)
        broker_name = stretch.item.bname
        whole = WholePull(*(getattr(pull, name) for name in PullMessage.__struct_fields__[:-2]))
        answer = await self._peers.ask(broker_name, whole)
        if not isinstance(answer, WholePullAnswer):
            return answer
        found = PullAnswer(
            answer.suggest_which_broker_id, answer.next_begin_offset, answer.min_offset, answer.max_offset, None,
            answer.topic_sys_flag, answer.group_sys_flag, code=answer.code, remark=answer.remark,
        )  # fmt: skip
        if answer.body:
            found.body = self._records(answer.body, broker_name, call)
        return self._logical(stretch, found)

    def _records(self, body: bytes, broker_name: str, call: Call) -> Records | RocketmqRecords:
        count, records = split_body(body)
        if call.codec.number == NATIVE:
            return Records([records], count)
        return RocketmqRecords(rocketmq_records([records], self._peers.store_host(broker_name)))

    def _mapped_anew(self, topic: str) -> None:
        """Look again at the pulls that wait on a topic: this broker may not lead their queues any more."""
        for pull in self._held.take_topic(topic):
            call = pull.call
            original = call.original if isinstance(call, TranslatedCall) else call
            if original.connection.is_open:
                self._dispatcher.handle_late(partial(self._pull, self._handlers[RequestCode.PULL_MESSAGE]), original)

    # -- offsets ---------------------------------------------------------------------------------------------------

    def _answer(self, question: Question, handler: Handler, call: Call) -> Answer | None:
        detail = self._mappings.get(call.request.topic)
        if detail is None or call.request.lo is False:
            return handler(call)
        items = items_led(detail, -1 if call.request.queue_id is None else call.request.queue_id)
        if not decided(items):
            return refusal(ResponseCode.SYSTEM_ERROR, offsets.UNDECIDED_WORDS)
        self._dispatcher.start(partial(self._ask_all, question, detail, items), call)
        return None

    async def _ask_all(self, question: Question, detail: MappingDetail, items: list[MappingItem], call: Call) -> Answer:
        async def ask(item: MappingItem, request: Request) -> Answer:
            if item.bname != detail.bname:
                return await self._peers.ask(item.bname, request)
            handler = self._handlers[declaration_of(type(request)).code]
            answer = handler(Call(request, call.opaque, call.oneway, call.codec, call.connection))
            assert answer is not None, "questions about offsets are answered at once"
            return answer

        return await question(as_declared(call.request), items, ask)
