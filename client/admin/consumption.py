"""Which groups have consumed a message, as far as offsets show. RocketMQ: MQAdminExt.messageTrackDetail.

An offset shows that a group is past a message, not that its listener succeeded: the message may have been sent back, or
not acknowledged in time. Then it is also in a retry topic of the group.
"""

from enum import Enum

import msgspec

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import broker_answer
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.requests.clients import SubscriptionData
from staticfire.protocol.requests.connections import QueryGroupsOfTopic, QuerySubscription
from staticfire.protocol.requests.group_state import GetGroupState
from staticfire.protocol.requests.offsets import OffsetAnswer, QueryConsumerOffset
from staticfire.protocol.requests.totals import GetConsumption
from staticfire.protocol.tags import TagExpression, TagExpressionError


class ConsumptionState(Enum):
    """Whether a group has consumed a message."""

    CONSUMED = "consumed"
    FILTERED = "passed over"
    """The group is past the message, but its subscription filters it out."""
    NOT_YET = "not yet"
    POPPED = "popped"
    """Popped and not acknowledged: it is redelivered after its invisible time. RocketMQ's brokers don't report this."""
    UNKNOWN = "unknown"
    """No offset is committed in that queue: the group is new there, or keeps its offsets itself (BROADCASTING)."""


class GroupConsumption(msgspec.Struct, frozen=True):
    """One group and one message."""

    group: str
    state: ConsumptionState
    committed: int | None
    """The group's committed offset in the message's queue."""
    is_online: bool


async def consumption_of(client: ClusterClient, message: ReceivedMessage, timeout_ms: int) -> list[GroupConsumption]:
    """Return for each group of the topic, sorted by name, whether it has consumed the message.

    Groups that have consumed the topic before are included. Raises: BrokerAnswer, NetworkError.
    """
    queue = MessageQueue(message.record.topic, message.broker_name, message.queue_id)
    quick = await _as_its_broker_knows(client, message, queue, timeout_ms)
    if quick is not None:
        return quick
    answer = await client.ask_broker(queue, QueryGroupsOfTopic(queue.topic, bname=queue.broker_name), timeout_ms)
    if answer.code != SUCCESS:
        raise broker_answer(answer.code, answer.remark, f"groups of {queue.topic} at {queue.broker_name}")
    found = []
    for group in sorted(answer.body.group_list) if answer.body is not None else []:
        committed = await _committed(client, group, queue, timeout_ms)
        request = QuerySubscription(group, queue.topic, bname=queue.broker_name)
        response = await client.ask_broker(queue, request, timeout_ms)
        subscribed = response.body.subscription_data if response.code == SUCCESS and response.body is not None else None
        state = state_of(message, committed, subscribed)
        if state is ConsumptionState.CONSUMED and await _is_popped(client, group, queue, message, timeout_ms):
            state = ConsumptionState.POPPED
        if group == queue.topic and committed is None and subscribed is None:
            continue  # RocketMQ 5.3 names an online group like its topic.
        found.append(GroupConsumption(group, state, committed, subscribed is not None))
    return found


async def _as_its_broker_knows(
    client: ClusterClient, message: ReceivedMessage, queue: MessageQueue, timeout_ms: int
) -> list[GroupConsumption] | None:
    """Return the groups by one request, which only staticfire's brokers know; None otherwise. Raises: as above."""
    if client.settings.protocol != "staticfire":
        return None
    answer = await client.ask_broker(
        queue, GetConsumption(queue.topic, queue.queue_id, message.queue_offset), timeout_ms
    )
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        return None
    if answer.code != SUCCESS:
        raise broker_answer(answer.code, answer.remark, f"groups of {queue.topic} at {queue.broker_name}")
    found = []
    for one in answer.body or []:
        committed = None if one.committed < 0 else one.committed
        state = state_of(message, committed, one.subscription)
        if state is ConsumptionState.CONSUMED and one.is_popped:
            state = ConsumptionState.POPPED
        found.append(GroupConsumption(one.group, state, committed, one.subscription is not None))
    return found


async def _committed(client: ClusterClient, group: str, queue: MessageQueue, timeout_ms: int) -> int | None:
    """Return a group's committed offset; None, not the start offset 0, if it has committed nothing."""
    request = QueryConsumerOffset(group, queue.topic, queue.queue_id, set_zero_if_not_found=False)
    answer = await client.ask_broker(queue, request, timeout_ms)
    if answer.code == ResponseCode.QUERY_NOT_FOUND:
        return None
    if answer.code != SUCCESS or not isinstance(answer, OffsetAnswer):
        raise broker_answer(answer.code, answer.remark, f"offset of {group} in {queue}")
    return answer.offset


async def _is_popped(
    client: ClusterClient, group: str, queue: MessageQueue, message: ReceivedMessage, timeout_ms: int
) -> bool:
    """Whether a group has popped a message and not acknowledged it, as far as its broker reports that."""
    answer = await client.ask_broker(queue, GetGroupState(group), timeout_ms)
    if answer.code != SUCCESS or answer.body is None:
        return False
    place = queue.topic, queue.queue_id
    runs = [run for one in answer.body.popped if (one.topic, one.queue_id) == place for run in one.offsets]
    return any(first <= message.queue_offset <= last for first, last in runs)


def state_of(message: ReceivedMessage, committed: int | None, subscribed: SubscriptionData | None) -> ConsumptionState:
    """Return whether a group has consumed a message. `subscribed`: its subscription, None while it is offline."""
    if committed is None:
        return ConsumptionState.UNKNOWN
    if committed <= message.queue_offset:
        return ConsumptionState.NOT_YET
    if subscribed is not None and not _wants(subscribed, message):
        return ConsumptionState.FILTERED
    return ConsumptionState.CONSUMED


def _wants(subscribed: SubscriptionData, message: ReceivedMessage) -> bool:
    """Whether a subscription includes a message; True if that can't be determined."""
    if subscribed.expression_type in ("", "TAG"):
        try:
            return TagExpression.parse(subscribed.sub_string).matches(message.tags)
        except TagExpressionError:
            return True
    from staticfire.protocol.sql92.faults import FilterExpressionError  # Imported here because conditions are rare.
    from staticfire.protocol.sql92.filters import compile_filter

    try:
        return compile_filter(subscribed.sub_string).matches(message.record.properties)
    except FilterExpressionError:
        return True
