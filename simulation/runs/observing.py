"""Reads the state of a run's brokers, periodically and at the end: offsets, rest, stored messages, sizes of tables."""

from collections import Counter
from collections.abc import Iterator

from staticfire.broker.server import Broker
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.store import MessageStore
from staticfire.client.cluster.namespaces import Namespace
from staticfire.protocol.names import (
    CHECK_MAX_TIME_TOPIC,
    is_system_topic,
    pop_retry_topic,
    retry_topic,
)
from staticfire.protocol.pop_handles import RETRY, RETRY_V2
from staticfire.protocol.properties import KEYS, find_property
from staticfire.protocol.record import StoredRecord, decode_records, join_records
from staticfire.simulation.checkers.events import (
    LocksSeen,
    MessageFound,
    OffsetSeen,
    OwnersSeen,
    QueuePlace,
    TablesSeen,
)
from staticfire.simulation.runs.cluster import RunCluster
from staticfire.simulation.runs.contents import content_in
from staticfire.simulation.runs.looking_up import StoredMessage
from staticfire.simulation.runs.sending import NAME_PROPERTY
from staticfire.simulation.workload.description import PUSH, Group, namespace_of
from staticfire.simulation.world.process import Process

LOOK_MS = 1_000
# The offset of a group that a broker doesn't have any more after a start.
NO_OFFSET = -1
READ_MAX = 64
REASONS_MAX = 6
# A cluster that has just started may look as if it were at rest: members keep their queues, heartbeats arrive within
# 30 s, and members rebalance within 20 s.
STAYS_AT_REST_MS = 60_000


class Observer:
    """Records state that no program reports."""

    def __init__(self, cluster: RunCluster) -> None:
        self._cluster = cluster
        self._seen: dict[tuple[str, str, str, int], tuple[int, int]] = {}
        self._activity: dict[str, tuple[int, int]] = {}
        cluster.started.append(self.look)  # Before members report their offsets to a broker.

    async def loop(self) -> None:
        """Record offsets and locks periodically."""
        while True:
            await self._cluster.world.run_for(LOOK_MS)
            self.look()
            self._look_at_locks()

    def look(self) -> None:
        """Record the offsets that have changed."""
        for name, broker in self._up():
            life = self._cluster.lives[name]
            activity = (life, broker.tables.groups.progress.activity)
            before = self._activity.get(name)
            if before != activity:
                self._activity[name] = activity
                self._look_at(name, broker, life, has_started=before is not None and before[0] != life)

    def _up(self) -> Iterator[tuple[str, Broker]]:
        yield from self._cluster.serving_brokers().items()

    def _look_at(self, name: str, broker: Broker, life: int, has_started: bool) -> None:
        store, now_ms = broker.state.store, self._cluster.now_ms
        online = broker.tables.groups.consumers.consumer_table
        all_committed = broker.tables.groups.offsets.all_committed()
        committed = {(name, group, topic, queue_id): offset for group, topic, queue_id, offset in all_committed}
        if has_started:
            committed = {at: NO_OFFSET for at in self._seen if at[0] == name} | committed
        for at, offset in committed.items():
            _, group, topic, queue_id = at
            if self._seen.get(at) != (life, offset):
                self._seen[at] = (life, offset)
                end = store.queue(topic, queue_id).max_offset
                is_own = group not in online
                self._cluster.record.note(OffsetSeen(now_ms, group, (name, topic, queue_id), offset, end, life, is_own))

    def _look_at_locks(self) -> None:
        """Record the holders of the queues of ordered groups whose listeners run: nothing else needs a lock."""
        cluster = self._cluster
        for group in cluster.workload.groups:
            for name, broker in self._up() if group.ordered and cluster.listener.running[group.name] else ():
                now_ms = broker.state.machine.clock.uptime_ms()
                holders = {
                    (queue.topic, queue.queue_id): cluster.member_of(lock.client_id)
                    for queue, lock in broker.tables.groups.queue_locks.of_group(group.name, now_ms)
                }
                cluster.record.note(LocksSeen(cluster.now_ms, name, group.name, holders))

    # -- rest --------------------------------------------------------------------------------------------------------

    def unrest(self) -> list[str]:
        """Return a few reasons why the cluster isn't at rest; empty if it is."""
        cluster = self._cluster
        reasons = [f"{name} isn't up" for name in cluster.names if name not in cluster.up | cluster.gone]
        for name, broker in self._up():
            reasons += [f"{reason} on {name}" for reason in self._unrest_of(name, broker)]
        if cluster.replicas is not None:
            reasons += [reason for name in cluster.brokers_there for reason in cluster.replicas.unrest_of(name)]
        reasons += self._not_popped()
        for group, owners in self._owners().items():
            reasons += [
                f"{place} belongs to {' and '.join(members) or 'no member'} in {group}"
                for place, members in owners.items()
                if len(members) != 1
            ]
        return reasons[:REASONS_MAX]

    def _unrest_of(self, name: str, broker: Broker) -> Iterator[str]:
        state = broker.state
        waiting = sum(broker.delays.queue.waiting().values())
        if waiting:
            yield f"{waiting} messages wait for their delay"
        if broker.timers.first_waiting_position() is not None:
            yield "messages wait for their delivery time"
        if len(broker.transactions):
            yield f"{len(broker.transactions)} transactions are open"
        for group in self._cluster.workload.groups:
            popped = sum(queue.count for queue in broker.pops.taken_by(group.name))
            if popped:
                yield f"{group.name} has popped {popped} messages without acknowledging them"
            versions = (RETRY, RETRY_V2) if group.popped else ()
            retries = [pop_retry_topic(topic, group.name, version) for topic in group.topics for version in versions]
            if group.broadcasts:
                yield from self._not_reached(name, broker, group)
                continue
            for topic in (*group.topics, retry_topic(group.name), *retries):
                config = broker.tables.topics.topics.get(topic)
                for queue_id in range(config.read_queue_nums if config else 0):
                    end = state.store.queue(topic, queue_id).max_offset
                    offset = broker.tables.groups.offsets.committed(group.name, topic, queue_id)
                    if end and offset < end:
                        yield f"{group.name} is at {offset} of {end} in {topic} {queue_id}"

    def _not_reached(self, name: str, broker: Broker, group: Group) -> Iterator[str]:
        """Yield a reason for each running member of a broadcasting group that hasn't consumed everything."""
        for member in sorted(self._cluster.up.intersection(group.member_names)):
            reached = self._cluster.listener.reached.get(member, {})
            for topic in group.topics:
                for queue_id in range(self._cluster.queues[topic]):
                    end = broker.state.store.queue(topic, queue_id).max_offset
                    if reached.get((name, topic, queue_id), 0) < end:
                        yield f"{member} has not consumed all of {topic} {queue_id}"

    def _not_popped(self) -> Iterator[str]:
        """Yield a reason for each broker from which a member of a popping group doesn't pop."""
        cluster = self._cluster
        for group in cluster.workload.groups:
            wanted = {(broker, topic) for broker in cluster.brokers_there for topic in group.topics}
            for member in sorted(
                cluster.up.intersection(group.member_names if group.popped and group.way == PUSH else ())
            ):
                popped = {(queue.broker_name, queue.topic) for queue in cluster.members[member].assignment}
                yield from (f"{member} doesn't pop {topic} on {broker}" for broker, topic in sorted(wanted - popped))

    def _owners(self) -> dict[str, dict[QueuePlace, list[str]]]:
        found: dict[str, dict[QueuePlace, list[str]]] = {}
        for group in self._cluster.workload.groups:
            if group.popped or group.broadcasts:
                continue
            owners: dict[QueuePlace, list[str]] = {
                (broker, topic.name, queue_id): []
                for topic in self._cluster.workload.topics
                if topic.name in group.topics
                for broker in self._cluster.brokers_there
                for queue_id in range(self._cluster.queues[topic.name])
            }
            namespace = Namespace(namespace_of(group.name))
            for member in group.member_names:
                if member in self._cluster.up:
                    for queue in self._cluster.members[member].assignment:
                        at = (queue.broker_name, namespace.wrap(queue.topic), queue.queue_id)
                        if at in owners:
                            owners[at].append(member)
            found[group.name] = owners
        return found

    # -- at the end --------------------------------------------------------------------------------------------------

    def note_owners(self) -> None:
        """Record the owners of all queues."""
        for group, owners in self._owners().items():
            self._cluster.record.note(OwnersSeen(self._cluster.now_ms, group, owners))

    def note_messages(self) -> list[StoredMessage]:
        """Record the messages of programs, retries and dead letters, and the half messages that were moved away.

        Return those of programs.
        """
        stored: list[StoredMessage] = []
        for name, broker in self._up():
            store = broker.state.store
            for topic in store.topics():
                if is_system_topic(topic) and topic != CHECK_MAX_TIME_TOPIC:
                    continue
                for queue_id in store.queue_ids(topic):
                    for message, record in _messages(store, store.queue(topic, queue_id)):
                        place, content = (name, topic, queue_id), content_in(record, broker.state.machine.clock)
                        offset, times = record.queue_offset, record.reconsume_times
                        found = MessageFound(self._cluster.now_ms, message, place, offset, times, content)
                        self._cluster.record.note(found)
                        if topic in self._cluster.queues:
                            keys = (find_property(record.properties, KEYS) or b"").decode().split(" ")
                            stored.append(StoredMessage(message, topic, content.message_id, message in keys))
        return stored

    def note_tables(self) -> None:
        """Record the sizes of tables: those of brokers, and the tasks and connections of all processes."""
        world = self._cluster.world
        tasks: Counter[Process | None] = Counter(task.process for task in world.loop.tasks if not task.done())
        connections = Counter(transport.process for transport in world.network.transports)
        for name in self._cluster.names:
            if self._cluster.replicas is not None and name in self._cluster.brokers:
                continue  # Its tasks and connections depend on its role.
            process = _process_of(tasks, name)
            sizes = {} if process is None else {"tasks": tasks[process], "connections": connections[process]}
            if name in self._cluster.brokers and name in self._cluster.up:
                sizes |= _tables_of(self._cluster.brokers[name])
            self._cluster.record.note(TablesSeen(self._cluster.now_ms, name, sizes))


def _process_of(tasks: Counter[Process | None], name: str) -> Process | None:
    return next(
        (process for process in tasks if process is not None and process.name == name and not process.is_dead), None
    )


def _tables_of(broker: Broker) -> dict[str, int]:
    tables, consumers = broker.tables, broker.tables.groups.consumers.consumer_table
    return {
        "members": sum(len(group.channel_info_table) for group in consumers.values()),
        "groups online": len(consumers),
        "held pulls": tables.held.count,
        "queue locks": len(tables.groups.queue_locks),
        "open transactions": len(broker.transactions),
        "popped messages": sum(queue.count for group in consumers for queue in broker.pops.taken_by(group)),
    }


def _messages(store: MessageStore, queue: Queue) -> Iterator[tuple[str, StoredRecord]]:
    """Yield the names of a queue's messages, with their records."""
    offset = queue.min_offset
    while offset < queue.max_offset:
        found = store.read(queue, offset, READ_MAX)
        if found.record_count:
            for record in decode_records(join_records(store.records(found), found.record_count)):
                name = find_property(record.properties, NAME_PROPERTY)
                if name is not None:
                    yield name.decode(), record
                offset = max(offset, record.queue_offset + 1)
        offset = max(found.next_offset, offset) if found.next_offset > offset or found.record_count else offset + 1


async def settled(observer: Observer, cluster: RunCluster, within_ms: int) -> list[str]:
    """Wait until the cluster is at rest for a while. If it isn't within the limit, return the reasons."""
    until_ms, rests_from_ms = cluster.now_ms + within_ms, cluster.now_ms
    while True:
        reasons, now_ms = observer.unrest(), cluster.now_ms
        if reasons and now_ms >= until_ms:
            return reasons
        if reasons:
            rests_from_ms = now_ms + LOOK_MS
        elif now_ms >= rests_from_ms + STAYS_AT_REST_MS:
            return []
        await cluster.world.run_for(LOOK_MS)
