"""Reads the response to a pull. Pure. RocketMQ: PullAPIWrapper.processPullResult.

A broker filters tags by their hash codes, so it may return messages with other tags: here the tags are compared by
value. Compressed bodies are decompressed. If that fails, the body is left as it is, and `undecoded` contains the
reason: one damaged message doesn't block the others of its queue.
"""

from enum import Enum
from functools import lru_cache
from typing import TypeVar

import msgspec

from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.checksums import crc32
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer, RecordBatch
from staticfire.protocol.compression import expand
from staticfire.protocol.errors import ProtocolError, broker_answer
from staticfire.protocol.hosts import pack_host
from staticfire.protocol.limits import EXPANDED_BYTES_MAX
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.requests.pull import OFFSET_RESET, PullAnswer
from staticfire.protocol.sys_flag import COMPRESSED
from staticfire.protocol.tags import TagExpression
from staticfire.runtime.addresses import parse_address

M = TypeVar("M", bound=ReceivedMessage)


class PullStatus(Enum):
    """The result of a pull. RocketMQ: PullStatus."""

    FOUND = "FOUND"
    NO_NEW_MSG = "NO_NEW_MSG"
    NO_MATCHED_MSG = "NO_MATCHED_MSG"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"


_STATUS_OF_CODE: dict[int, PullStatus] = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MSG,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MSG,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


class PullResult(msgspec.Struct, gc=False):
    """Messages in queue order, and `next_offset`, where to pull next, whatever the status."""

    status: PullStatus
    messages: list[ReceivedMessage]
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int = 0
    """The replica that the next pull should go to."""
    is_reset: bool = False
    """Whether an administrator has reset the group to `next_offset`."""


def read_pull(answer: Answer, queue: MessageQueue, wanted: TagExpression | None, broker_host: bytes) -> PullResult:
    """Return the result of a pull.

    `wanted`: None if the broker filters by something other than tags. `broker_host`: the broker's address, 8 or 20
    bytes, for codecs whose records don't contain it. Raises: BrokerAnswer (refused), ProtocolError.
    """
    status = _STATUS_OF_CODE.get(answer.code)
    if status is None:
        raise broker_answer(answer.code, answer.remark, f"pull {queue}")
    if not isinstance(answer, PullAnswer):
        raise ProtocolError(f"the response to a pull of {queue} has code {answer.code} without any details")
    batch: RecordBatch | None = answer.body
    return PullResult(
        status,
        [] if batch is None else received(batch, queue.broker_name, wanted, broker_host),
        answer.next_begin_offset,
        answer.min_offset,
        answer.max_offset,
        answer.suggest_which_broker_id,
        status is PullStatus.OFFSET_ILLEGAL and answer.remark == OFFSET_RESET,
    )


def received(
    batch: RecordBatch, broker_name: str, wanted: TagExpression | None, broker_host: bytes
) -> list[ReceivedMessage]:
    """Return the messages of a batch that have a wanted tag, ready for the program."""
    messages = received_as(ReceivedMessage, batch, broker_name, broker_host)
    if wanted is None or wanted.all_tags:
        return messages
    return [message for message in messages if wanted.matches(message.tags)]


def received_as(kind: type[M], batch: RecordBatch, broker_name: str, broker_host: bytes) -> list[M]:
    """Return the messages of a batch as instances of this class."""
    if batch.store_hosts is None:
        messages = [kind(record, broker_name, broker_host) for record in batch.records]
    else:
        pairs = zip(batch.records, batch.store_hosts, strict=True)
        messages = [kind(record, broker_name, host) for record, host in pairs]
        for message in messages:
            if crc32(message.body) & 0x7FFFFFFF != message.record.body_crc:
                message.undecoded = "the body doesn't match its CRC"
    for message in messages:
        if message.record.sys_flag & COMPRESSED and message.undecoded is None:
            expand_body(message)
    return messages


def expand_body(message: ReceivedMessage) -> None:
    """Decompress the body, or note why that isn't possible."""
    try:
        message.body = expand(message.body, message.sys_flag, EXPANDED_BYTES_MAX)
    except ProtocolError as error:
        message.undecoded = str(error)


@lru_cache(maxsize=256)
def packed_address(address: str) -> bytes:
    """Return a broker's `host:port` as 8 or 20 bytes."""
    return pack_host(*parse_address(address))
