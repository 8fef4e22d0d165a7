"""Acknowledge popped messages, or change how long they stay invisible.

RocketMQ: AckMessageProcessor, ChangeInvisibleTimeProcessor.

Behaviour
- The checks are those of RocketMQ 5.3, in the same order, with the same codes and remarks. If a handle is unknown or
  has expired, the response code is 0 and nothing happens.
- The response is sent after the change is written to the log, so a kill loses no acknowledgement.

Different from RocketMQ
- A change with an expired handle makes no second check-point, so the message is delivered only once.
- A batch with an entry that can't be read is refused as a whole.
"""

from staticfire.broker.pop.acks import Acknowledger, InvisibleTimeChange
from staticfire.broker.pop.checks import PopChecks
from staticfire.broker.pop.events import GroupQueue
from staticfire.broker.pop.holding import Holding
from staticfire.broker.pop.tables import PopTables
from staticfire.protocol.batch_acks import read_entry
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.errors import BrokerAnswer, ProtocolError
from staticfire.protocol.pop_handles import PopHandle, parse_handle
from staticfire.protocol.requests.pop import AckMessage, BatchAck, ChangeInvisibleAnswer, ChangeInvisibleTime
from staticfire.runtime.dispatcher import Call

NO_REMARK = "not set any response code"


class AckHandlers:
    """Handles acknowledgements and changes of the invisible time."""

    def __init__(self, tables: PopTables, holding: Holding) -> None:
        self._tables = tables
        self._state = tables.state
        self._holding = holding
        self._checks = PopChecks(tables.state, tables.topics, tables.groups.configs)
        self._acknowledger = Acknowledger(tables)

    def ack(self, call: Call) -> Answer | None:
        """Acknowledge a message. Raises: BrokerAnswer, ProtocolError."""
        request: AckMessage = call.request
        first, end = self._bounds(request, call)
        if not first <= request.offset <= end:
            words = (
                f"offset is illegal, key:{request.topic}@{request.queue_id}, commit:{request.offset}, "
                f"store:{first}~{end}"
            )
            raise BrokerAnswer(ResponseCode.NO_MESSAGE, words)
        handle = parse_handle(request.extra_info)
        self._check_room()
        place = GroupQueue(request.consumer_group, request.topic, request.queue_id)
        self._acknowledger.ack(place, handle, [request.offset], call.peer.address)
        return self._when_noted(call, Answer())

    def batch_ack(self, call: Call) -> Answer | None:
        """Acknowledge several messages. Raises: ProtocolError."""
        request: BatchAck = call.request
        if request.body is None or not request.body.acks:
            return Answer(code=int(ResponseCode.NO_MESSAGE))
        broker_name = request.body.broker_name or ""
        entries = [read_entry(entry, broker_name) for entry in request.body.acks]
        self._check_room()
        answer = Answer()
        for entry in entries:
            handle = entry.handle
            place = GroupQueue(entry.group, handle.real_topic(entry.topic, entry.group), handle.queue_id)
            offsets = self._within(place, entry.queue_offsets)
            try:
                self._acknowledger.ack(place, handle, offsets, call.peer.address)
            except BrokerAnswer as error:
                answer = refusal(error.code, error.remark)
        return self._when_noted(call, answer)

    def change(self, call: Call) -> Answer | None:
        """Change until when a message is invisible. Raises: BrokerAnswer, ProtocolError."""
        request: ChangeInvisibleTime = call.request
        try:
            first, end = self._bounds(request, call)
        except BrokerAnswer as error:
            return ChangeInvisibleAnswer(code=error.code, remark=error.remark)
        if not first <= request.offset < end:
            return ChangeInvisibleAnswer(code=int(ResponseCode.NO_MESSAGE), remark=NO_REMARK)
        handle = _handle_to_change(request.extra_info)
        self._check_room()
        place = GroupQueue(request.consumer_group, request.topic, request.queue_id)
        connection = None if request.given_back else call.connection
        change = InvisibleTimeChange(request.invisible_time, connection, bool(request.for_push))
        changed = self._acknowledger.change(place, handle, request.offset, change)
        return self._when_noted(call, ChangeInvisibleAnswer(*changed, remark=NO_REMARK))

    # -- common parts --------------------------------------------------------------------------------------------

    def _bounds(self, request: AckMessage | ChangeInvisibleTime, call: Call) -> tuple[int, int]:
        """Return the first and the end offset of the request's queue. Raises: BrokerAnswer."""
        self._checks.check_place(request.topic, request.queue_id, call.connection)
        queue = self._state.store.queue(request.topic, request.queue_id)
        return queue.min_offset, queue.max_offset

    def _within(self, place: GroupQueue, offsets: tuple[int, ...]) -> list[int]:
        """Return the offsets that the queue has; an empty list if the queue doesn't exist."""
        config = self._tables.topics.get(place.topic)
        if config is None or not 0 <= place.queue_id < config.read_queue_nums:
            return []
        queue = self._state.store.queue(place.topic, place.queue_id)
        return [offset for offset in offsets if queue.min_offset <= offset <= queue.max_offset]

    def _check_room(self) -> None:
        refusal_now = self._state.store.refusal
        if refusal_now is not None:
            words = f"an acknowledgement can't be stored: {refusal_now}; the message will be redelivered"
            raise BrokerAnswer(ResponseCode.SERVICE_NOT_AVAILABLE, words)

    def _when_noted(self, call: Call, answer: Answer) -> Answer | None:
        """Return the response, or send it later, when its changes are written to the log."""
        freed, self._acknowledger.freed = self._acknowledger.freed, []
        for place in freed:
            self._holding.wake_queue(place)
        log = self._tables.log
        if not log.has_work:
            return answer

        def written(is_written: bool) -> None:
            if not is_written:
                words = (
                    f"the acknowledgement can't be stored: {self._state.store.failure}; the message will be redelivered"
                )
                call.answer(refusal(ResponseCode.SERVICE_NOT_AVAILABLE, words))
            else:
                call.answer(answer)

        log.when_written(written)
        return None


def _handle_to_change(text: str) -> PopHandle:
    """Parse a handle. Of a handle for ordered messages the first four parts are enough. Raises: ProtocolError."""
    parts = text.split(" ") if text else []
    if text and len(parts) < 4:
        words = f"getReviveQid fail, extraInfoStrs length {len(parts)}"
        raise ProtocolError(f"java.lang.IllegalArgumentException: {words}")
    if len(parts) in (4, 5) and parts[3] == "999":
        return parse_handle(" ".join([*parts[:4], "0", "-"]))
    return parse_handle(text)
