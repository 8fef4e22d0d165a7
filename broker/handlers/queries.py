"""Find messages by key, by id and by position. RocketMQ: QueryMessageProcessor, AdminBrokerProcessor.

Behaviour
- Unique ids and keys are searched together. Of too many messages the newest are returned, in the order oldest first.
- A query finds everything that was stored before it. If the index can't catch up with that in time, the response states
  how much of the log was not searched.
- indexType K searches keys only, U unique ids only. lastKey is an offset message id; the query then returns older
  messages: the next page.
- FIND_MESSAGES searches all topics but RocketMQ's own, with one look into the index.
- Only messages that are still in their queue are found; none of a deleted topic.

Different from RocketMQ
- A message with the same key twice is found once; times are compared to the millisecond.
- An id that isn't the position of a record is refused; RocketMQ returns whatever is stored there.
"""

from collections.abc import Callable
from typing import NamedTuple

from staticfire.broker.groups.consumers import ConsumerManager
from staticfire.broker.handlers.queues import TopicQueues
from staticfire.broker.key_index import KeyIndexer
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, Records, refusal
from staticfire.protocol.errors import BrokerAnswer, ProtocolError, StorageError
from staticfire.protocol.limits import INT64_MAX
from staticfire.protocol.message_ids import parse_offset_id
from staticfire.protocol.names import is_system_topic
from staticfire.protocol.properties import KEYS, UNIQ_KEY, find_property
from staticfire.protocol.record import StoredRecord, decode_record
from staticfire.protocol.requests.clients import SubscriptionData
from staticfire.protocol.requests.queries import (
    FindMessages,
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

# RocketMQ: maxMsgsNumBatch, defaultQueryMaxNum.
MESSAGES_MAX = 64
UNIQUE_KEY_MESSAGES_MAX = 32
ENTRIES_MAX = 16_384
# RocketMQ: MessageConst.INDEX_KEY_TYPE, INDEX_UNIQUE_TYPE, since 5.4.
KEY_TYPE, UNIQUE_TYPE = "K", "U"
MIB = 1024 * 1024
_LOOK_UP = 128
_END = INT64_MAX


class KeyQuery(NamedTuple):
    """The conditions of a query."""

    topic: str
    """Empty: any topic but RocketMQ's own."""
    key: bytes
    is_keys: bool
    is_unique_id: bool
    """`is_keys` and `is_unique_id`: what the key may be; both, unless the query is restricted to one."""
    below: int
    """Only messages before this position in the log are returned: those after it were on an earlier page."""

    @classmethod
    def anywhere(cls, key: str) -> "KeyQuery":
        """Return the conditions of a search in all topics."""
        return cls("", key.encode("utf-8", "replace"), True, True, _END)

    @classmethod
    def by(cls, request: QueryMessage) -> "KeyQuery":
        """Return the conditions of a request. Raises: BrokerAnswer (they are not valid)."""
        kind = request.index_type or ""
        if kind not in ("", KEY_TYPE, UNIQUE_TYPE):
            words = f"indexType {kind} is not supported: {KEY_TYPE} (keys) and {UNIQUE_TYPE} (unique ids) are"
            raise BrokerAnswer(ResponseCode.INVALID_PARAMETER, words)
        key = request.key.encode("utf-8", "replace")
        below = _END if not request.last_key else _position_of(request.last_key)
        return cls(request.topic, key, kind != UNIQUE_TYPE, kind != KEY_TYPE, below)

    def has_key(self, record: StoredRecord) -> bool:
        """Return whether a record has the key."""
        if record.topic != self.topic and (self.topic or is_system_topic(record.topic)):
            return False
        if self.is_keys and self.key in (find_property(record.properties, KEYS) or b"").split(b" "):
            return True
        return self.is_unique_id and find_property(record.properties, UNIQ_KEY) == self.key


def _position_of(last_key: str) -> int:
    """Return the log position in `last_key`, an offset message id. Raises: BrokerAnswer."""
    try:
        return parse_offset_id(last_key)[1]
    except ProtocolError as error:
        words = f"lastKey must be the offset message id of the oldest message of the previous page: {error}"
        raise BrokerAnswer(ResponseCode.INVALID_PARAMETER, words) from None


class QueryHandlers:
    """Handles queries for messages."""

    def __init__(self, store: MessageStore, queues: TopicQueues, consumers: ConsumerManager, index: KeyIndexer) -> None:
        self._store = store
        self._queues = queues
        self._consumers = consumers
        self._index = index

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.QUERY_MESSAGE, self.query)
        dispatcher.handle(RequestCode.FIND_MESSAGES, self.find)
        dispatcher.handle(RequestCode.VIEW_MESSAGE_BY_ID, self.view)
        dispatcher.handle(RequestCode.QUERY_CONSUME_QUEUE, self.queue_entries)

    async def query(self, call: Call) -> Answer:
        """Return the newest messages with a key."""
        request: QueryMessage = call.request
        messages_max = UNIQUE_KEY_MESSAGES_MAX if request.unique_key_query else min(request.max_num, MESSAGES_MAX)
        return await self._found(KeyQuery.by(request), request, messages_max)

    async def find(self, call: Call) -> Answer:
        """Return the newest messages with a key in all topics."""
        request: FindMessages = call.request
        return await self._found(KeyQuery.anywhere(request.key), request, min(request.max_num, MESSAGES_MAX))

    async def _found(self, wanted: KeyQuery, request: QueryMessage | FindMessages, messages_max: int) -> Answer:
        """Return the newest messages that fulfil the conditions."""
        end = self._store.max_position
        await self._index.catch_up(end)
        found: list[bytes] = []
        below = wanted.below
        while len(found) < messages_max:
            times = request.begin_timestamp, request.end_timestamp
            positions = await self._index.find(wanted.topic, request.key, *times, below, _LOOK_UP)
            for position in positions[:_LOOK_UP]:
                record = self._store.record_at(position)
                if record is not None and len(found) < messages_max and self._fits(decode_record(record), wanted):
                    found.append(record)
            if len(positions) < _LOOK_UP:
                break
            below = positions[-1]
        return self._answer(found, self._index.lacks(end))

    def _answer(self, found: list[bytes], lacks_bytes: int) -> Answer:
        """Return the response with the messages found, and how much of the log was not searched."""
        remark = None
        if lacks_bytes:
            remark = (
                f"the key index is being built and still lacks {lacks_bytes / MIB:.1f} MiB of the log: try again later"
            )
        if not found:
            words = "can not find message, maybe time range not correct" if remark is None else f"not found: {remark}"
            return QueryAnswer(code=int(ResponseCode.QUERY_NOT_FOUND), remark=words)
        last_position, last_stored_ms = self._index.last
        found.reverse()
        return QueryAnswer(last_stored_ms, last_position, body=Records(found, len(found)), remark=remark)

    def _fits(self, record: StoredRecord, wanted: KeyQuery) -> bool:
        """Return whether the record has the key, and the queue still has the record."""
        if not wanted.has_key(record):
            return False
        queue = self._queues.find(record.topic, record.queue_id)
        if queue is None or not queue.min_offset <= record.queue_offset < queue.max_offset:
            return False
        entries = self._store.entries(queue, record.queue_offset, 1)
        return bool(entries) and entries[0].log_position == record.log_position

    def view(self, call: Call) -> Answer:
        """Return the message at a position of the log."""
        request: ViewMessage = call.request
        try:
            record = self._store.record_at(request.offset)
        except (OSError, StorageError):
            record = None
        if record is None:
            return refusal(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {request.offset}")
        return ViewAnswer(body=Records([record], 1))

    def queue_entries(self, call: Call) -> Answer:
        """Return the entries of a consume queue from an index on."""
        request: QueryConsumeQueue = call.request
        queue = self._queues.find(request.topic, request.queue_id)
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
                "null",  # RocketMQ returns the text of the compiled expression here.
            )
        )

    def _subscription(self, request: QueryConsumeQueue) -> SubscriptionData | None:
        online = self._consumers.consumer_table.get(request.consumer_group or "")
        return None if online is None else online.subscriptions.get(request.topic)


def _test_of(subscription: SubscriptionData | None) -> Callable[[int], bool]:
    """Return a test for the tags codes that a subscription matches. It is true for all if that can't be decided."""
    if subscription is None or subscription.expression_type != "TAG":
        return lambda code: True
    try:
        return TagExpression.parse(subscription.sub_string).matches_code
    except TagExpressionError:
        return lambda code: True
