"""Makes requests of sends, and outcomes of their responses. Pure."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.settings import ProducerSettings
from staticfire.client.produce.pending_send import PendingSend
from staticfire.client.produce.send_result import STATUS_OF_CODE, SendDetails, SendResult
from staticfire.protocol.command import SUCCESS, Answer
from staticfire.protocol.errors import ProtocolError, StaticfireError, broker_answer
from staticfire.protocol.hosts import pack_host
from staticfire.protocol.message_ids import offset_id_prefix
from staticfire.protocol.names import is_retry_topic
from staticfire.protocol.properties import MAX_RECONSUME_TIMES, RECONSUME_TIME, find_property
from staticfire.protocol.requests.send import (
    ManyMessage,
    ManyResult,
    SendAnswer,
    SendBatch,
    SendMany,
    SendManyAnswer,
    SendMessageV2,
)
from staticfire.runtime.addresses import parse_address
from staticfire.runtime.pending_answers import Reply

Outcome = SendResult | StaticfireError


def many_request(
    messages: Sequence[ManyMessage] | Sequence[tuple[Any, ...]], group: str, settings: ProducerSettings
) -> SendMany:
    """Return the SEND_MANY of several messages, which may be tuples of a ManyMessage's fields."""
    return SendMany(
        producer_group=group,
        default_topic=settings.create_topic_key,
        default_topic_queue_nums=settings.default_topic_queue_nums,
        body=messages,
    )


def single_request(
    wire: ManyMessage, broker_name: str, group: str, settings: ProducerSettings, is_batch: bool = False
) -> SendMessageV2 | SendBatch:
    """Return the request of one message or batch, as RocketMQ's clients send it.

    For a retry topic, the message's retry counts are put in the header, where brokers read them.
    """
    kind = SendBatch if is_batch else SendMessageV2
    is_retry = is_retry_topic(wire.topic)
    return kind(
        producer_group=group,
        topic=wire.topic,
        default_topic=settings.create_topic_key,
        default_topic_queue_nums=settings.default_topic_queue_nums,
        queue_id=wire.queue_id,
        sys_flag=wire.sys_flag,
        born_timestamp=wire.born_timestamp,
        flag=wire.flag,
        properties=wire.properties.decode("utf-8", "replace"),
        reconsume_times=(_number(wire, RECONSUME_TIME) or 0) if is_retry else 0,
        unit_mode=False,
        max_reconsume_times=_number(wire, MAX_RECONSUME_TIMES) if is_retry else None,
        batch=is_batch,
        bname=broker_name,
        body=wire.body,
    )


def _number(wire: ManyMessage, name: str) -> int | None:
    text = find_property(wire.properties, name)
    return int(text) if text is not None and text.isdigit() else None


def results_of(count: int, reply: Reply, peer_address: str) -> list[ManyResult] | StaticfireError:
    """Return the result of each message of a SEND_MANY, or the error if the results are unknown."""
    if not isinstance(reply, Answer):
        return reply
    if reply.code != SUCCESS:
        return broker_answer(reply.code, reply.remark, f"send {count} messages to {peer_address}")
    results: list[ManyResult] | None = reply.body if isinstance(reply, SendManyAnswer) else None
    if results is None or len(results) != count:
        found = 0 if results is None else len(results)
        return ProtocolError(f"{peer_address} returned {found} results for {count} messages")
    return results


def outcome_of(pending: PendingSend, result: ManyResult, broker_prefix: str) -> Outcome:
    """Return the outcome of one message of a SEND_MANY."""
    status = STATUS_OF_CODE.get(result.code)
    if status is None:
        return _refused(pending.message_id, pending.queue, result.code, result.remark)
    return SendResult(
        status, pending.message_id, pending.queue, result.queue_offset, result.log_position, broker_prefix
    )


def result_of(pending: PendingSend, answer: Answer) -> Outcome:
    """Return the outcome of a single message or a batch."""
    return single_outcome(pending.message_id, pending.queue, answer)


def single_outcome(message_id: str, queue: MessageQueue, answer: Answer) -> Outcome:
    """Return the outcome of a message that was sent to a queue in its own request."""
    status = STATUS_OF_CODE.get(answer.code)
    if status is None:
        return _refused(message_id, queue, answer.code, answer.remark)
    if not isinstance(answer, SendAnswer):
        return ProtocolError(f"the response to a send to {queue} reports success without any result")
    return SendResult(
        status,
        answer.batch_uniq_id or message_id,
        queue if answer.queue_id is None else queue._replace(queue_id=answer.queue_id),
        answer.queue_offset or 0,
        details=SendDetails(
            answer.msg_id or "",
            answer.transaction_id,
            answer.region or "DefaultRegion",
            answer.trace_on != "false",
            answer.recall_handle,
        ),
    )


def _refused(message_id: str, queue: MessageQueue, code: int, remark: str | None) -> StaticfireError:
    return broker_answer(code, remark, f"send {message_id.partition(',')[0]} to {queue}")


@lru_cache(maxsize=256)
def offset_prefix(peer_address: str) -> str:
    """Return the prefix of a broker's offset message ids, at the address that this client uses."""
    return offset_id_prefix(pack_host(*parse_address(peer_address)))
