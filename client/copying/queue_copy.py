"""Copies the messages of one queue to another: a batch is read while the one before is stored."""

import asyncio
from collections.abc import AsyncIterator, Callable

from staticfire.client.admin.admin import Admin
from staticfire.client.admin.look_ups import LookUp, find_by_key
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.copying.plan import (
    AlreadyThere,
    Bounds,
    MessageIdentity,
    OffsetsInCopy,
    OrderCheck,
    QueuePair,
    identity_of,
)
from staticfire.client.pull.pull_consumer import PullConsumer
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import broker_answer
from staticfire.protocol.record import StoredRecord
from staticfire.protocol.requests.imports import ImportAnswer, ImportedMessage, ImportMessages
from staticfire.protocol.requests.routes import MASTER_ID

TIMEOUT_MS = 30_000

Records = list[StoredRecord]


async def read_records(reader: PullConsumer, queue: MessageQueue, bounds: Bounds) -> AsyncIterator[Records]:
    """Yield the stored messages in this range of offsets, in order. Raises: BrokerAnswer, NetworkError."""
    offset = bounds.start
    while offset < bounds.end:
        result = await reader.pull(queue, offset, max_messages=32)
        records = [message.record for message in result.messages if message.queue_offset < bounds.end]
        if records:
            yield records
        if result.next_offset <= offset:
            return
        offset = result.next_offset


async def copy_queue(
    reader: PullConsumer,
    target: Admin,
    pair: QueuePair,
    bounds: Bounds,
    there: AlreadyThere,
    offsets: OffsetsInCopy,
    done: Callable[[int, int], object],
) -> None:
    """Copy missing messages, in order. `done` gets the numbers of copied messages and of those that were there already.

    Raises: UsageError (the order would break: nothing is copied), BrokerAnswer, NetworkError.
    """
    is_checked = False
    batches = read_records(reader, pair.source, bounds)
    following = asyncio.ensure_future(anext(batches, None))
    try:
        while (records := await following) is not None:
            following = asyncio.ensure_future(anext(batches, None))
            is_checked = is_checked or await _check_order(reader, pair, records, bounds.end, there)
            await _bring(target, pair, records, there, offsets, done)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await batches.aclose()  # type: ignore[attr-defined]  # an async generator


async def _check_order(reader: PullConsumer, pair: QueuePair, records: Records, end: int, there: AlreadyThere) -> bool:
    """Before the first message is copied, check that no later one is in the target; return False if it isn't in these.

    For that, the other messages to copy are read, unless the target has only messages that precede them; and what the
    target still has is looked up among the messages from `end` on, which aren't copied. Raises: UsageError.
    """
    if there.has_all(records):
        return False
    check = OrderCheck(pair, there.left())
    is_open = check.look_at(records) and await _may_be_later(
        reader, pair, check, Bounds(records[-1].queue_offset + 1, end)
    )
    if is_open and end < await reader.max_offset(pair.source) and not await _precedes(reader, pair, check, end, there):
        await _may_be_later(reader, pair, check, Bounds(end))
    return True


async def _may_be_later(reader: PullConsumer, pair: QueuePair, check: OrderCheck, bounds: Bounds) -> bool:
    """Check these messages of the source; return whether a later one may be in the target. Raises: UsageError."""
    async for records in read_records(reader, pair.source, bounds):
        if not check.look_at(records):
            return False
    return True


async def _precedes(reader: PullConsumer, pair: QueuePair, check: OrderCheck, end: int, there: AlreadyThere) -> bool:
    """Return whether the newest message of the source in the target is before `end`; False if it isn't known.

    It is the latest in the source, too, because each copy keeps the order. If it isn't found, nothing is known: it may
    be a message that the source never had, or one that its index lacks. Raises: UsageError (it isn't before `end`).
    """
    found = await _find(reader, pair.source, there.newest(check.left))
    check.look_at(record for record in found if record.queue_offset >= end)
    return bool(found)


async def _find(reader: PullConsumer, queue: MessageQueue, identity: MessageIdentity) -> Records:
    """Return the messages of a queue with this identity, as far as its broker finds them. Raises: BrokerAnswer."""
    try:
        wanted = LookUp(identity.unique_id.decode())
    except UnicodeDecodeError:
        return []
    if not identity.unique_id:
        return []
    topic, broker_name = reader.client.namespace.wrap(queue.topic), queue.broker_name
    address = await reader.client.address_to_read(queue, MASTER_ID)
    found = await find_by_key(reader.client, [(topic, broker_name, address)], wanted, TIMEOUT_MS)
    if found.gaps:
        return []
    records = [message.record for message in found]
    return [one for one in records if one.queue_id == queue.queue_id and identity_of(one) == identity]


async def _bring(
    target: Admin,
    pair: QueuePair,
    records: Records,
    there: AlreadyThere,
    offsets: OffsetsInCopy,
    done: Callable[[int, int], object],
) -> None:
    """Store the missing messages of a batch in the same form as in the source."""
    missing: Records = []
    known: dict[int, int] = {}
    for record in records:
        at = there.take(record)
        if at is None:
            missing.append(record)
        else:
            known[record.queue_offset] = at
    if missing:
        first = await _store(target, pair.target, missing)
        known |= {record.queue_offset: first + index for index, record in enumerate(missing)}
    for record in records:
        offsets.passed(record.queue_offset, known[record.queue_offset])
    done(len(missing), len(records) - len(missing))


async def _store(target: Admin, queue: MessageQueue, records: Records) -> int:
    messages = [
        ImportedMessage(
            record.properties, record.body, record.born_ms, record.born_host, record.sys_flag, record.flag,
            record.reconsume_times,
        )
        for record in records
    ]  # fmt: skip
    request = ImportMessages(queue.topic, queue.queue_id, body=messages)
    answer = await target.client.ask_master(queue, request, TIMEOUT_MS)
    if answer.code != SUCCESS or not isinstance(answer, ImportAnswer):
        raise broker_answer(answer.code, answer.remark, f"copy to {queue}")
    return answer.queue_offset
