"""What a consumer reports about its queues in its running info. RocketMQ: ProcessQueue.fillProcessQueueInfo."""

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.consume.membership.assigned_queues import AssignedQueues
from staticfire.client.consume.queues.queue_decisions import AssignedQueue
from staticfire.client.offsets.offset_store import OffsetStore
from staticfire.protocol.codes import VERSION
from staticfire.protocol.requests.clients import ConsumerData
from staticfire.protocol.requests.connections import CONSUME_TYPE, PopQueueInfo, ProcessQueueInfo
from staticfire.protocol.requests.locks import MessageQueue as WireQueue
from staticfire.runtime.machine import Clock

if TYPE_CHECKING:
    from staticfire.client.consume.popping.pop_queues import PopQueues

MIB = 1024 * 1024


def properties_of(client: ClusterClient, data: ConsumerData, began_ms: int) -> dict[str, str]:
    """Return the properties that consumers of all kinds report. `data`: the content of heartbeats."""
    return {
        "PROP_NAMESERVER_ADDR": str(client.nameservers),
        CONSUME_TYPE: data.consume_type or "",
        "PROP_CLIENT_VERSION": f"V5_3_3 ({VERSION}), staticfire",
        "PROP_CONSUMER_START_TIMESTAMP": str(began_ms),
        "consumerGroup": data.group_name,
        "messageModel": data.message_model or "",
        "consumeFromWhere": data.consume_from_where or "",
    }


def queue_table(
    held: AssignedQueues, offsets: OffsetStore, clock: Clock, has_listener: bool = False
) -> dict[WireQueue, ProcessQueueInfo]:
    """Return the state of the queues that a consumer pulls.

    `has_listener`: messages stay in the cache until they are consumed (otherwise: until they are polled).
    """
    queues = {queue: held.find(queue) for queue in held.queues}
    return {
        WireQueue(*queue): _queue_info(one, offsets, clock, has_listener)
        for queue, one in queues.items()
        if one is not None
    }


def pop_table(popped: "PopQueues | None", clock: Clock) -> dict[WireQueue, PopQueueInfo]:
    """Return the state of the queues that a consumer pops."""
    if popped is None:
        return {}
    wall_before_ms = clock.wall_ms() - clock.uptime_ms()
    queues = {queue: popped.find(queue) for queue in popped.queues}
    return {
        WireQueue(*queue): PopQueueInfo(len(one.cache), one.is_revoked, wall_before_ms + one.last_pop_ms)
        for queue, one in queues.items()
        if one is not None
    }


def _queue_info(queue: AssignedQueue[Any], offsets: OffsetStore, clock: Clock, has_listener: bool) -> ProcessQueueInfo:
    wall_before_ms = clock.wall_ms() - clock.uptime_ms()
    cache, smallest = queue.cache, queue.cache.smallest_offset
    consumed = offsets.memory(queue.queue)
    if consumed < 0:
        # The member has consumed nothing since it took the queue, perhaps at the end. RocketMQ's client queries its
        # offset store then, and reports -1 if that has none. With 0 or -1 the member would seem to lag by all messages
        # before its start.
        unread = queue.next_offset if smallest is None else smallest
        consumed = unread if has_listener else queue.start_offset
    return ProcessQueueInfo(
        commit_offset=max(consumed, 0),
        cached_msg_min_offset=smallest or 0,
        cached_msg_max_offset=0 if smallest is None else cache.next_offset - 1,
        cached_msg_count=len(cache),
        cached_msg_size_in_mi_b=cache.bytes // MIB,
        droped=queue.is_dropped,
        last_pull_timestamp=wall_before_ms + queue.last_pull_ms,
        read_at=queue.replica.read_at or UNSET,
        locked=queue.policy.is_in_order and queue.policy.is_trusted(clock.uptime_ms()),
    )
