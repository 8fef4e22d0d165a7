"""Let connected consumers continue at the offsets of their groups in a restored snapshot.

A member continues to pull where it was, and commits that. As after a reset, its commits are ignored until its next
pull, and the response to that pull contains the offset where it must continue (broker/handlers/reset_offset.py).
Besides, each member is notified at once. Queues in which a group's offset equals the offset of its pulls are left
alone, because nothing changes there.
"""

from staticfire.broker.groups.consumers import BROADCASTING, ConsumerGroup
from staticfire.broker.groups.offsets import OffsetTable
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.tables import BrokerTables
from staticfire.protocol.requests.locks import MessageQueue
from staticfire.protocol.requests.reset_offset import ResetClientOffset, ResetOffsetBody

FROM_FIRST = "CONSUME_FROM_FIRST_OFFSET"


def reset_consumers(tables: BrokerTables, before: OffsetTable) -> int:
    """Move the members of all groups; return the number of queues. `before`: the offsets of the last core."""
    moved = 0
    for group in tables.groups.consumers.consumer_table.values():
        if group.message_model == BROADCASTING:
            continue  # Its members keep their own offsets.
        for topic in group.subscriptions:
            offsets = _offsets(tables, before, group, topic)
            for queue_id, offset in offsets.items():
                tables.groups.offsets.reset(group.name, topic, queue_id, offset)
            if offsets:
                _tell(tables.state.settings.broker_name, group, topic, offsets)
                moved += len(offsets)
    return moved


def _offsets(tables: BrokerTables, before: OffsetTable, group: ConsumerGroup, topic: str) -> dict[int, int]:
    """Return the new offset of a group by queue id, for queues where its pulls are elsewhere."""
    config = tables.topics.get(topic)
    offsets: dict[int, int] = {}
    for queue_id in range(config.read_queue_nums if config is not None else 0):
        pulled = before.pull_offset(group.name, topic, queue_id)
        offset = tables.groups.offsets.committed(group.name, topic, queue_id)
        if offset < 0:
            offset = _beginning(group, tables.state.store.queue(topic, queue_id))
        if pulled not in (-1, offset):
            offsets[queue_id] = offset
    return offsets


def _beginning(group: ConsumerGroup, queue: Queue) -> int:
    """Return where a group begins that had no offset in the snapshot, as for a new group."""
    if group.consume_from_where == FROM_FIRST or queue.min_offset == 0:
        return queue.min_offset
    return queue.max_offset


def _tell(broker: str, group: ConsumerGroup, topic: str, offsets: dict[int, int]) -> None:
    body = ResetOffsetBody({MessageQueue(topic, broker, queue_id): offset for queue_id, offset in offsets.items()})
    for member in group.channel_info_table.values():
        if member.connection.is_open:
            member.connection.tell(ResetClientOffset(topic, group.name, -1, body=body))
