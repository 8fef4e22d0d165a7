"""Handle requests for logical queues, with the physical numbers of the brokers that have their stretches.

A pull becomes a pull of one stretch. If this broker has the stretch, its ordinary handler serves the pull; otherwise
the pull is sent to the other broker. The response is translated back. Queries for offsets are handled by offsets.py,
with requests to the brokers of the stretches.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from staticfire.broker.static_topics import offsets
from staticfire.broker.static_topics.mapping import decided
from staticfire.broker.static_topics.peers import BrokerPeers
from staticfire.broker.static_topics.pulling import Stretch, logical_answer, physical_pull, stretch_of
from staticfire.broker.static_topics.sends import items_led
from staticfire.broker.static_topics.translated_call import TranslatedCall, translated
from staticfire.protocol.codecs import NATIVE
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import (
    Answer,
    Records,
    Request,
    RocketmqRecords,
    as_declared,
    declaration_of,
    refusal,
)
from staticfire.protocol.record import split_body
from staticfire.protocol.requests.pull import PullAnswer, PullMessage, WholePull, WholePullAnswer
from staticfire.protocol.requests.static_topics import MappingDetail, MappingItem
from staticfire.protocol.rocketmq_record import rocketmq_records
from staticfire.runtime.dispatcher import AsyncHandler, Call, Handler

Question = Callable[[Any, list[MappingItem], offsets.Ask], Awaitable[Answer]]

QUESTIONS: dict[int, Question] = {
    RequestCode.QUERY_CONSUMER_OFFSET: offsets.query,
    RequestCode.UPDATE_CONSUMER_OFFSET: offsets.update,
    RequestCode.GET_MAX_OFFSET: offsets.max_offset,
    RequestCode.GET_MIN_OFFSET: offsets.min_offset,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: offsets.search,
    RequestCode.GET_EARLIEST_MSG_STORETIME: offsets.earliest,
}


class Translator:
    """Translates pulls and queries for offsets, and their responses."""

    def __init__(
        self,
        mappings: Mapping[str, MappingDetail],
        handlers: Mapping[int, Handler],
        peers: BrokerPeers,
        start: Callable[[AsyncHandler, Call], None],
    ) -> None:
        """`handlers`: those of this broker's own queues. `start`: handles a request in a task."""
        self._mappings = mappings
        self._handlers = handlers
        self._peers = peers
        self._start = start

    def handle(self, code: int, call: Call) -> Answer | None:
        """Handle a request for a logical queue. Raises: BrokerAnswer (this broker doesn't lead it)."""
        detail = self._mappings[call.request.topic]
        queue_id = call.request.queue_id
        items = items_led(detail, -1 if queue_id is None else queue_id)
        if not decided(items):
            return refusal(ResponseCode.SYSTEM_ERROR, offsets.UNDECIDED_WORDS)
        question = QUESTIONS.get(code)
        if question is not None:
            self._start(partial(self._answer, question, detail, items), call)
            return None
        return self._pull(code, call, detail, items)

    def original(self, call: Call) -> Call:
        """Return a call as it was received."""
        return call.original if isinstance(call, TranslatedCall) else call

    # -- pulls -----------------------------------------------------------------------------------------------------

    def _pull(self, code: int, call: Call, detail: MappingDetail, items: list[MappingItem]) -> Answer | None:
        """Pull a stretch of a logical queue, here or from another broker."""
        request: PullMessage = call.request
        stretch = stretch_of(items, request.queue_offset)
        if stretch.item.bname != detail.bname:
            self._start(partial(self._pull_elsewhere, stretch), call)
            return None
        pull = translated(call, physical_pull(request, stretch), partial(_logical, stretch))
        answer = self._handlers[code](pull)
        return None if answer is None else _logical(stretch, answer)

    async def _pull_elsewhere(self, stretch: Stretch, call: Call) -> Answer:
        """Pull an earlier stretch from its broker. Raises: BrokerAnswer."""
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
        return _logical(stretch, found)

    def _records(self, body: bytes, broker_name: str, call: Call) -> Records | RocketmqRecords:
        count, records = split_body(body)
        if call.codec.number == NATIVE:
            return Records([records], count)
        return RocketmqRecords(rocketmq_records([records], self._peers.store_host(broker_name)))

    # -- offsets ---------------------------------------------------------------------------------------------------

    async def _answer(self, question: Question, detail: MappingDetail, items: list[MappingItem], call: Call) -> Answer:
        async def ask(item: MappingItem, request: Request) -> Answer:
            if item.bname != detail.bname:
                return await self._peers.ask(item.bname, request)
            handler = self._handlers[declaration_of(type(request)).code]
            answer = handler(Call(request, call.opaque, call.oneway, call.codec, call.connection))
            assert answer is not None, "requests about offsets don't wait"
            return answer

        return await question(as_declared(call.request), items, ask)


def _logical(stretch: Stretch, answer: Answer) -> Answer:
    return logical_answer(answer, stretch) if isinstance(answer, PullAnswer) else answer
