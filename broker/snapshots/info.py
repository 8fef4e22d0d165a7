"""The description of a snapshot, and the message time after its restore."""

from staticfire.broker.clock.message_clock import MessageClock
from staticfire.broker.store.store import MessageStore
from staticfire.broker.tables import BrokerTables
from staticfire.protocol.names import is_system_group
from staticfire.protocol.requests.clock import REAL, ClockReading
from staticfire.protocol.requests.snapshots import SnapshotInfo


def describe(tables: BrokerTables, name: str) -> SnapshotInfo:
    """Return the description of a snapshot made now."""
    state, topics = tables.state, sorted(tables.topics.user_topics())
    # A move that is in progress isn't part of the snapshot: after the restore, no caller would end it.
    reading, is_wall = state.clock.reading().continued(), state.clock.is_wall
    return SnapshotInfo(
        name=name,
        saved_ms=state.machine.clock.wall_ms(),
        message_ms=reading.message_ms,
        clock_mode="" if is_wall else reading.mode,
        clock_rate=reading.rate,
        topics=topics,
        groups=sorted(group for group in tables.groups.configs.groups if not is_system_group(group)),
        messages=sum(_messages_of(state.store, topic) for topic in topics),
    )


def _messages_of(store: MessageStore, topic: str) -> int:
    queues = [store.queue(topic, queue_id) for queue_id in store.queue_ids(topic)]
    return sum(queue.max_offset - queue.min_offset for queue in queues)


def clock_then(info: SnapshotInfo, clock: MessageClock, wall_ms: int) -> ClockReading | None:
    """Return the message time to set after a restore; None: keep the real time.

    It has a new epoch, so that the nameserver follows it.
    """
    if info.clock_mode:
        return ClockReading(clock.epoch + 1, info.clock_mode, info.clock_rate, info.message_ms)
    return None if clock.is_wall else ClockReading(clock.epoch + 1, REAL, 1.0, wall_ms)
