"""Answer queries for offsets of a logical queue from its stretches. RocketMQ: rewriteRequestForStaticTopic.

Behaviour
- The offset of a group is stored by the broker of the stretch that it is in, as a physical offset. A query searches
  from the newest stretch to the oldest, and the first one with an offset counts ("double read").
- A search by time searches one stretch after another until a message is new enough.

Different from RocketMQ
- If the oldest stretch is empty, the earliest stored time is that of the next message; RocketMQ returns -1.
- A search continues after stretches of other brokers only if these have no result; in RocketMQ the last one counts.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from staticfire.broker.static_topics.mapping import decided, holding, logical, physical
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.requests.offsets import (
    GetEarliestStoreTime,
    GetMaxOffset,
    GetMinOffset,
    OffsetAnswer,
    QueryConsumerOffset,
    SearchOffset,
    TimestampAnswer,
    UpdateConsumerOffset,
)
from staticfire.protocol.requests.static_topics import MappingItem

Items = Sequence[MappingItem]
Ask = Callable[[MappingItem, Any], Awaitable[Answer]]
"""Sends a request to the broker of a stretch, this one or another. Raises: BrokerAnswer."""

UNDECIDED_WORDS = "the logical offset of this queue isn't decided yet: finish updateStaticTopic or remappingStaticTopic"


def _physical(request: Any, item: MappingItem, **more: Any) -> Any:
    return msgspec.structs.replace(request, queue_id=item.queue_id, bname=item.bname, lo=False, **more)


async def max_offset(request: GetMaxOffset, items: Items, ask: Ask) -> Answer:
    """Return the offset that the next message will get, in the last stretch that can be read."""
    return await _end(request, decided(items)[-1], ask)


async def min_offset(request: GetMinOffset, items: Items, ask: Ask) -> Answer:
    """Return the oldest offset."""
    return await _end(request, decided(items)[0], ask)


async def _end(request: GetMaxOffset | GetMinOffset, item: MappingItem, ask: Ask) -> Answer:
    answer = await ask(item, _physical(request, item))
    return OffsetAnswer(logical(item, answer.offset)) if isinstance(answer, OffsetAnswer) else answer


async def query(request: QueryConsumerOffset, items: Items, ask: Ask) -> Answer:
    """Return the offset of a group in a logical queue."""
    if len(items) == 1 and items[0].logic_offset == 0:
        return await ask(items[0], _physical(request, items[0]))
    for item in reversed(decided(items)):
        answer = await ask(item, _physical(request, item, set_zero_if_not_found=False))
        if isinstance(answer, OffsetAnswer):
            return OffsetAnswer(logical(item, answer.offset))
        if answer.code != ResponseCode.QUERY_NOT_FOUND:
            return answer
    return refusal(ResponseCode.QUERY_NOT_FOUND, "Not found, maybe this group consumer boot first")


async def update(request: UpdateConsumerOffset, items: Items, ask: Ask) -> Answer:
    """Commit the offset of a group, at the broker of its stretch."""
    if request.commit_offset is None:
        words = f"Offset is null, topic is {request.topic}"
        return refusal(ResponseCode.INVALID_PARAMETER, words)
    item = holding(decided(items), request.commit_offset)
    return await ask(item, _physical(request, item, commit_offset=physical(item, request.commit_offset)))


async def search(request: SearchOffset, items: Items, ask: Ask) -> Answer:
    """Return the offset at a stored time: of the first message at or after it, or of the last one at or before it."""
    readable = decided(items)
    item = await (_last_begun if (request.boundary_type or "").lower() == "upper" else _first_open)(
        request, readable, ask
    )
    answer = await ask(item, _physical(request, item))
    return OffsetAnswer(logical(item, answer.offset)) if isinstance(answer, OffsetAnswer) else answer


async def _last_begun(request: SearchOffset, items: Items, ask: Ask) -> MappingItem:
    """Return the last stretch whose first message isn't newer than a time."""
    for item in reversed(items):
        begun_ms = await _stored_ms(request.topic, item, ask)
        if 0 <= begun_ms <= request.timestamp:
            return item
    return items[0]


async def _first_open(request: SearchOffset, items: Items, ask: Ask) -> MappingItem:
    """Return the first stretch that has a message at or after a time; the last one if none has."""
    for item in items[:-1]:
        found = await ask(item, _physical(request, item))
        end = await ask(item, GetMaxOffset(request.topic, item.queue_id, bname=item.bname, lo=False))
        if isinstance(found, OffsetAnswer) and isinstance(end, OffsetAnswer) and found.offset < end.offset:
            return item
    return items[-1]


async def earliest(request: GetEarliestStoreTime, items: Items, ask: Ask) -> Answer:
    """Return when the oldest message was stored; -1 if there is none."""
    for item in decided(items):
        stored_ms = await _stored_ms(request.topic, item, ask)
        if stored_ms >= 0:
            return TimestampAnswer(stored_ms)
    return TimestampAnswer(-1)


async def _stored_ms(topic: str, item: MappingItem, ask: Ask) -> int:
    answer = await ask(item, GetEarliestStoreTime(topic, item.queue_id, bname=item.bname, lo=False))
    return answer.timestamp if isinstance(answer, TimestampAnswer) else -1
