"""Messages are looked up by key, by id and by place. RocketMQ: QueryMessageProcessor, AdminBrokerProcessor.

Behaviour
- Unique ids and keys are one kind of key. Of too many messages the newest win; they are answered oldest first.
- A look-up sees everything that was stored before it.
- Only what is still in its queue is found: nothing of a deleted topic.

Different from RocketMQ
- A message with the same key twice is found once; times are compared to the millisecond.
- An id that is no record's position is refused instead of answered with whatever lies there.
"""

from collections.abc import Callable

from staticfire.broker.handlers.queues import find_queue
from staticfire.broker.key_index import KeyIndexer
from staticfire.broker.state import BrokerState
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, Records, refusal
from staticfire.protocol.errors import StorageError
from staticfire.protocol.properties import KEYS, UNIQ_KEY, find_property
from staticfire.protocol.record import StoredRecord, decode_record
from staticfire.protocol.requests.clients import SubscriptionData
from staticfire.protocol.requests.queries import (
    QueryAnswer,
    QueryConsumeQueue,
    QueryMessage,
    QueueEntries,
    QueueEntriesAnswer,
    QueueEntry,
    ViewAnswer,
    ViewMessage,
)
from staticfire.protocol.tags import TagExpression, TagExpressionError
from staticfire.runtime.dispatcher import Call, Dispatcher

MESSAGES_MAX = 64
UNIQUE_KEY_MESSAGES_MAX = 32
# RocketMQ: maxMsgsNumBatch, defaultQueryMaxNum.
ENTRIES_MAX = 16_384
_LOOK_UP = 128
_END = (1 << 63) - 1


class QueryHandlers:
    """Finds messages."""

    def __init__(self, state: BrokerState, index: KeyIndexer) -> None:
        self._state = state
        self._store = state.store
        self._index = index

    def register(self, dispatcher: Dispatcher) -> None:
        """File the handlers."""
        dispatcher.handle(RequestCode.QUERY_MESSAGE, self.query)
        dispatcher.handle(RequestCode.VIEW_MESSAGE_BY_ID, self.view)
        dispatcher.handle(RequestCode.QUERY_CONSUME_QUEUE, self.queue_entries)

    async def query(self, call: Call) -> Answer:
        """The newest messages with a key."""
        request: QueryMessage = call.request
        messages_max = UNIQUE_KEY_MESSAGES_MAX if request.unique_key_query else min(request.max_num, MESSAGES_MAX)
        await self._index.catch_up()
        found: list[bytes] = []
        below = _END
        while len(found) < messages_max:
            times = request.begin_timestamp, request.end_timestamp
            positions = await self._index.find(request.topic, request.key, *times, below, _LOOK_UP)
            for position in positions[:_LOOK_UP]:
                record = self._store.record_at(position)
                if record is not None and len(found) < messages_max and self._fits(decode_record(record), request):
                    found.append(record)
            if len(positions) < _LOOK_UP:
                break
            below = positions[-1]
        if not found:
            words = "can not find message, maybe time range not correct"
            return QueryAnswer(code=int(ResponseCode.QUERY_NOT_FOUND), remark=words)
        last_position, last_stored_ms = self._index.last
        found.reverse()
        return QueryAnswer(last_stored_ms, last_position, body=Records(found, len(found)))

    def _fits(self, record: StoredRecord, request: QueryMessage) -> bool:
        """Whether the record has the key, and its queue still has the record."""
        properties, key = record.properties, request.key.encode("utf-8", "replace")
        keys = (find_property(properties, KEYS) or b"").split(b" ")
        if record.topic != request.topic or (key not in keys and find_property(properties, UNIQ_KEY) != key):
            return False
        queue = find_queue(self._state, record.topic, record.queue_id)
        if queue is None or not queue.min_offset <= record.queue_offset < queue.max_offset:
            return False
        entries = self._store.entries(queue, record.queue_offset, 1)
        return bool(entries) and entries[0].log_position == record.log_position

    def view(self, call: Call) -> Answer:
        """The message at a position of the log."""
        request: ViewMessage = call.request
        try:
            record = self._store.record_at(request.offset)
        except (OSError, StorageError):
            record = None
        if record is None:
            return refusal(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {request.offset}")
        return ViewAnswer(body=Records([record], 1))

    def queue_entries(self, call: Call) -> Answer:
        """What a consume queue has from an index on."""
        request: QueryConsumeQueue = call.request
        queue = find_queue(self._state, request.topic, request.queue_id)
        if queue is None:
            words = f"{request.queue_id}@{request.topic} is not exist!"
            return refusal(ResponseCode.SYSTEM_ERROR, words)
        if not queue.min_offset <= request.index < queue.max_offset:
            return QueueEntriesAnswer(
                remark=f"Index {request.index} of {request.queue_id}@{request.topic} is not exist!"
            )
        subscription = self._subscription(request)
        wanted = _test_of(subscription)
        entries = self._store.entries(queue, request.index, min(max(request.count, 0), ENTRIES_MAX))
        return QueueEntriesAnswer(
            body=QueueEntries(
                [QueueEntry(position, size, code, wanted(code)) for position, size, code in entries],
                queue.min_offset,
                queue.max_offset,
                subscription,
                "null",  # what an expression was compiled to, as text
            )
        )

    def _subscription(self, request: QueryConsumeQueue) -> SubscriptionData | None:
        online = self._state.consumers.consumer_table.get(request.consumer_group or "")
        return None if online is None else online.subscriptions.get(request.topic)


def _test_of(subscription: SubscriptionData | None) -> Callable[[int], bool]:
    """Return which tags codes a subscription wants; all of them where that can't be said."""
    if subscription is None or subscription.expression_type != "TAG":
        return lambda code: True
    try:
        return TagExpression.parse(subscription.sub_string).matches_code
    except TagExpressionError:
        return lambda code: True
