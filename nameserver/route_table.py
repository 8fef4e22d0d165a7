"""The table of brokers, their liveness, and the queues of each topic. RocketMQ: RouteInfoManager.

There are five tables, as in RocketMQ: topics with their queues by broker; brokers with their replicas' addresses;
clusters with their brokers; the live brokers, by cluster and address; and which logical queues of static topics each
broker leads.
Invariants: an address belongs to one id of a broker; a topic without queues is removed; a refused registration leaves
no address behind.

The class is pure. Liveness uses uptime. `channel` is the object that represents the connection on which a broker
registered. Addresses are filed ones (`advertised_addresses`).
"""

from collections.abc import Callable, Iterable

import msgspec

from staticfire.nameserver.min_broker_ids import MinIdChange, after_arrival, after_loss
from staticfire.protocol.permissions import READ_WRITE, WRITE
from staticfire.protocol.requests.routes import MASTER_ID, BrokerData, QueueData
from staticfire.protocol.requests.static_topics import MappingInfo
from staticfire.protocol.requests.topics import DataVersion, TopicConfig
from staticfire.protocol.times import UptimeMs


class BrokerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker states about itself when it registers."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str
    expiry_ms: int
    version: DataVersion
    enable_acting_master: bool | None = None
    """None: the broker's version is older than acting masters."""
    zone_name: str | None = None
    filter_servers: list[str] = []
    auto_create_groups: bool = False


class LiveBroker(msgspec.Struct):
    """A live broker, with its last sign of life and its connection."""

    entry: BrokerEntry
    channel: object
    seen_ms: UptimeMs


class Registered(msgspec.Struct, frozen=True):
    """The result of a registration. The addresses are those of a live master, for its slave."""

    master_address: str | None = None
    master_ha_address: str | None = None
    is_new: bool = False
    is_outdated: bool = False
    """Another broker holds the id with a newer state, so this broker's address and topics weren't stored."""


class RouteTable:
    """Everything that a nameserver stores about brokers and topics."""

    def __init__(self) -> None:
        self.topics: dict[str, dict[str, QueueData]] = {}
        self.brokers: dict[str, BrokerData] = {}
        self.clusters: dict[str, dict[str, None]] = {}
        self.live: dict[tuple[str, str], LiveBroker] = {}
        self.mappings: dict[str, dict[str, MappingInfo]] = {}
        """The logical queues of static topics, by broker. They outlive their brokers, because their number is fixed."""
        self._min_id_changes: list[MinIdChange] = []

    # -- registration --------------------------------------------------------------------------------------------

    def register(
        self,
        entry: BrokerEntry,
        topics: dict[str, TopicConfig],
        channel: object,
        uptime_ms: UptimeMs,
        delete_topics: bool = False,
    ) -> Registered | None:
        """Store a broker with its topics; return None if the registration is refused.

        It is refused if it contains only one changed topic and the broker hasn't registered in full yet.
        `delete_topics`: remove topics that aren't listed from the routes, unless only the one changed topic is listed.
        """
        self.clusters.setdefault(entry.cluster, {})[entry.broker_name] = None
        broker = self.brokers.get(entry.broker_name)
        is_first = broker is None
        if broker is None:
            broker = self.brokers[entry.broker_name] = BrokerData(entry.cluster, entry.broker_name, {})
        lowest_id = min(broker.broker_addrs, default=MASTER_ID)
        broker.enable_acting_master = bool(entry.enable_acting_master)
        broker.zone_name = entry.zone_name
        for other_id in [i for i, a in broker.broker_addrs.items() if a == entry.address and i != entry.broker_id]:
            # The broker changed its role: a slave became master, or a master became slave.
            del broker.broker_addrs[other_id]
        if self._is_outdated(broker, entry):
            self.live.pop((entry.cluster, entry.address), None)
            return Registered(is_outdated=True)
        if entry.broker_id not in broker.broker_addrs and len(topics) == 1:
            return None
        # Also if a slave takes the id of a master that is still there: that one may have published other queues.
        is_first |= broker.broker_addrs.get(entry.broker_id) != entry.address
        broker.broker_addrs[entry.broker_id] = entry.address
        self._publish(broker, entry, topics, is_first, delete_topics)
        key = entry.cluster, entry.address
        is_new = key not in self.live
        self.live[key] = LiveBroker(entry, channel, uptime_ms)
        if entry.broker_id < lowest_id:
            self._min_id_changes.append(after_arrival(broker, entry.ha_address))
        return self._with_master(broker, entry, is_new)

    def _is_outdated(self, broker: BrokerData, entry: BrokerEntry) -> bool:
        """Return whether a live broker at another address holds the id with a newer state."""
        holder = broker.broker_addrs.get(entry.broker_id)
        if holder is None or holder == entry.address:
            return False
        live = self.live.get((entry.cluster, holder))
        return live is not None and live.entry.version.state_version > entry.version.state_version

    def _publish(
        self, broker: BrokerData, entry: BrokerEntry, topics: dict[str, TopicConfig], is_first: bool, delete: bool
    ) -> None:
        """Store the queues that a master reports, or the slave with the lowest id if there is no master."""
        is_master = entry.broker_id == MASTER_ID
        is_prime_slave = entry.enable_acting_master is not None and entry.broker_id == min(broker.broker_addrs)
        if not is_master and not is_prime_slave:
            return
        if delete and len(topics) != 1:
            self._remove_queues(entry.broker_name, [topic for topic in self.topics if topic not in topics])
        has_changed = is_first or self.has_changed(entry.cluster, entry.address, entry.version)
        mask = ~WRITE if not is_master and broker.enable_acting_master else -1
        for topic in topics.values():
            queues = self.topics.get(topic.topic_name)
            if queues is None:
                queues = self.topics[topic.topic_name] = {}
            if has_changed or entry.broker_name not in queues:
                queues[entry.broker_name] = _queue_data(entry.broker_name, topic, topic.perm & mask)

    def map_queues(self, broker_name: str, topics: Iterable[str], mappings: dict[str, MappingInfo]) -> None:
        """Store the logical queues that a broker leads, for the registered topics; remove those that it no longer
        leads.
        """
        for topic in topics:
            if topic in mappings:
                self.mappings.setdefault(topic, {})[broker_name] = mappings[topic]
            elif topic in self.mappings:
                self._unmap(topic, [broker_name])

    def _unmap(self, topic: str, broker_names: Iterable[str]) -> None:
        mapping = self.mappings.get(topic, {})
        for broker_name in broker_names:
            mapping.pop(broker_name, None)
        if not mapping:
            self.mappings.pop(topic, None)

    def _with_master(self, broker: BrokerData, entry: BrokerEntry, is_new: bool) -> Registered:
        master = broker.broker_addrs.get(MASTER_ID)
        live = None if master is None else self.live.get((entry.cluster, master))
        if entry.broker_id == MASTER_ID or live is None:
            return Registered(is_new=is_new)
        return Registered(master, live.entry.ha_address, is_new)

    def add_queues(self, topic: str, queues: list[QueueData]) -> bool:
        """Add queues to a topic. If one of the brokers is unknown, add nothing and return False."""
        if not queues or any(data.broker_name not in self.brokers for data in queues):
            return False
        self.topics.setdefault(topic, {}).update({data.broker_name: data for data in queues})
        return True

    # -- signs of life -------------------------------------------------------------------------------------------

    def version_of(self, cluster: str, address: str) -> DataVersion | None:
        """Return the version of a live broker's topics."""
        live = self.live.get((cluster, address))
        return None if live is None else live.entry.version

    def has_changed(self, cluster: str, address: str, version: DataVersion) -> bool:
        """Return whether the version differs from the stored one. True also for an unknown broker."""
        return self.version_of(cluster, address) != version

    def refresh(self, cluster: str, address: str, uptime_ms: UptimeMs) -> None:
        """Record a sign of life of a broker, if it is registered."""
        live = self.live.get((cluster, address))
        if live is not None:
            live.seen_ms = uptime_ms

    def expire(self, uptime_ms: UptimeMs) -> list[LiveBroker]:
        """Remove and return the brokers that were silent for longer than their expiry."""
        expired = [live for live in self.live.values() if live.seen_ms + live.entry.expiry_ms < uptime_ms]
        for live in expired:
            self._remove_lost(live)
        return expired

    # -- removal of brokers --------------------------------------------------------------------------------------

    def unregister(self, cluster: str, broker_name: str, address: str) -> bool:
        """Remove an address of a broker; if it was the last, the broker with its queues. Return False if unknown."""
        live = self.live.pop((cluster, address), None)
        broker = self.brokers.get(broker_name)
        if broker is None:
            return live is not None
        held = [broker_id for broker_id, held in broker.broker_addrs.items() if held == address]
        is_lowest = min(broker.broker_addrs, default=MASTER_ID) in held
        for broker_id in held:
            del broker.broker_addrs[broker_id]
        if not broker.broker_addrs:
            del self.brokers[broker_name]
            self._remove_from_cluster(cluster, broker_name)
            self._remove_queues(broker_name, list(self.topics))
        elif broker.enable_acting_master and MASTER_ID not in broker.broker_addrs:
            self.wipe_write_permission(broker_name)
        if is_lowest and broker.broker_addrs and broker.enable_acting_master:
            self._min_id_changes.append(after_loss(broker, address))
        return live is not None or bool(held)

    def take_min_id_changes(self) -> list[MinIdChange]:
        """Return the changes of the lowest ids of brokers since the last call."""
        changes, self._min_id_changes = self._min_id_changes, []
        return changes

    def lose(self, channel: object) -> list[LiveBroker]:
        """Remove and return the brokers that registered on a lost connection."""
        lost = [live for live in self.live.values() if live.channel is channel]
        for live in lost:
            self._remove_lost(live)
        return lost

    def _remove_lost(self, live: LiveBroker) -> None:
        """Remove the broker under every name that has its address, because it may have changed its name meanwhile."""
        cluster, address = live.entry.cluster, live.entry.address
        self.live.pop((cluster, address), None)
        for name, broker in list(self.brokers.items()):
            if broker.cluster == cluster and address in broker.broker_addrs.values():
                self.unregister(cluster, name, address)

    def _remove_from_cluster(self, cluster: str, broker_name: str) -> None:
        names = self.clusters.get(cluster, {})
        names.pop(broker_name, None)
        if not names:
            self.clusters.pop(cluster, None)

    def _remove_queues(self, broker_name: str, topics: list[str]) -> None:
        for topic in topics:
            queues = self.topics[topic]
            queues.pop(broker_name, None)
            if not queues:
                del self.topics[topic]

    # -- administration ------------------------------------------------------------------------------------------

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Remove a topic's queues, on all brokers or on those of one cluster."""
        if not cluster:
            self.topics.pop(topic, None)
            self.mappings.pop(topic, None)
            return
        self._unmap(topic, self.clusters.get(cluster, {}))
        for broker_name in self.clusters.get(cluster, {}):
            if topic in self.topics:
                self._remove_queues(broker_name, [topic])

    def wipe_write_permission(self, broker_name: str) -> int:
        """Remove the write permission from all queues of a broker; return the number of topics."""
        return self._change_permission(broker_name, lambda perm: perm & ~WRITE)

    def add_write_permission(self, broker_name: str) -> int:
        """Make all queues of a broker readable and writable; return the number of topics."""
        return self._change_permission(broker_name, lambda _: READ_WRITE)

    def _change_permission(self, broker_name: str, change: Callable[[int], int]) -> int:
        held = [queues for queues in self.topics.values() if broker_name in queues]
        for queues in held:
            data = queues[broker_name]
            queues[broker_name] = msgspec.structs.replace(data, perm=change(data.perm))
        return len(held)


def _queue_data(broker_name: str, topic: TopicConfig, perm: int) -> QueueData:
    return QueueData(broker_name, topic.read_queue_nums, topic.write_queue_nums, perm, topic.topic_sys_flag)
