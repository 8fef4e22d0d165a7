"""Where connected consumers go on when a snapshot is back: where their groups stood then.

A member goes on pulling where it was, and commits that: as after a reset, what it commits is ignored until its next
pull, which is answered with the offset from which it goes on (broker/handlers/reset_offset.py). Besides, each member
is told at once. Queues in which a group stands where its pulls have come to are left alone: nothing changes there.
"""

from staticfire.broker.groups.consumers import BROADCASTING, ConsumerGroup
from staticfire.broker.state import BrokerState
from staticfire.protocol.requests.locks import MessageQueue
from staticfire.protocol.requests.reset_offset import ResetClientOffset, ResetOffsetBody

FROM_FIRST = "CONSUME_FROM_FIRST_OFFSET"


def move_groups(state: BrokerState, before: BrokerState) -> int:
    """Let the members of all groups go on elsewhere; return in how many queues. `before`: what the last core knew."""
    moved = 0
    for group in state.consumers.consumer_table.values():
        if group.message_model == BROADCASTING:
            continue  # Its members keep their own offsets.
        for topic in group.subscriptions:
            offsets = _offsets(state, before, group, topic)
            for queue_id, offset in offsets.items():
                state.offsets.reset(group.name, topic, queue_id, offset)
            if offsets:
                _tell(state, group, topic, offsets)
                moved += len(offsets)
    return moved


def _offsets(state: BrokerState, before: BrokerState, group: ConsumerGroup, topic: str) -> dict[int, int]:
    """Return from where a group goes on, by queue id, where that isn't where its pulls are."""
    config = state.topics.get(topic)
    offsets: dict[int, int] = {}
    for queue_id in range(config.read_queue_nums if config is not None else 0):
        pulled = before.offsets.pull_offset(group.name, topic, queue_id)
        offset = state.offsets.committed(group.name, topic, queue_id)
        if offset < 0:
            offset = _beginning(state, group, topic, queue_id)
        if pulled not in (-1, offset):
            offsets[queue_id] = offset
    return offsets


def _beginning(state: BrokerState, group: ConsumerGroup, topic: str, queue_id: int) -> int:
    """Return where a group begins that stood nowhere then, as a new one does."""
    queue = state.store.queue(topic, queue_id)
    if group.consume_from_where == FROM_FIRST or queue.min_offset == 0:
        return queue.min_offset
    return queue.max_offset


def _tell(state: BrokerState, group: ConsumerGroup, topic: str, offsets: dict[int, int]) -> None:
    broker = state.settings.broker_name
    body = ResetOffsetBody({MessageQueue(topic, broker, queue_id): offset for queue_id, offset in offsets.items()})
    for member in group.channel_info_table.values():
        if member.connection.is_open:
            member.connection.tell(ResetClientOffset(topic, group.name, -1, body=body))
