"""What clients and tools see of the route table. RocketMQ: RouteInfoManager's pickupTopicRouteData and lists.

These are pure functions. `advertise` turns a broker's filed address into the address for the requesting client; every
address goes through it. Broker ids are sorted; everything else is in the order of registration.
"""

from collections.abc import Callable, Iterator

from staticfire.nameserver.route_table import RouteTable
from staticfire.protocol.names import RETRY_PREFIX, may_create_group
from staticfire.protocol.permissions import READ_WRITE, UNIT, UNIT_SUB, writable
from staticfire.protocol.requests.brokers import MemberGroup
from staticfire.protocol.requests.routes import MASTER_ID, BrokerData, ClusterInfo, QueueData, TopicList, TopicRouteData

Advertise = Callable[[str], str]

# The replicas of a broker find each other through this topic, so its route shows them without an acting master.
SYNC_MEMBERS_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"


def topic_route(
    table: RouteTable, topic: str, advertise: Advertise, acting_masters: bool = False
) -> TopicRouteData | None:
    """Return where a topic's queues are, or None if no broker has any.

    `acting_masters`: if a broker has no master, show its lowest slave as master. The broker must allow acting masters,
    and its queues must not be writable.
    """
    queues = table.topics.get(topic, {})
    if topic.startswith(RETRY_PREFIX):
        queues = queues | _retry_queues(table, topic, queues)
    brokers = [_advertised_broker(table.brokers[name], advertise) for name in queues if name in table.brokers]
    if not brokers:
        return None
    filters = _filter_servers(table, [broker.broker_name for broker in brokers], advertise)
    if acting_masters and not topic.startswith(SYNC_MEMBERS_PREFIX):
        for broker in brokers:
            _promote_lowest_slave(broker, queues[broker.broker_name])
    mapping = table.mappings.get(topic)
    return TopicRouteData(list(queues.values()), brokers, filters, topic_queue_mapping_by_broker=mapping)


def _retry_queues(table: RouteTable, topic: str, known: dict[str, QueueData]) -> dict[str, QueueData]:
    """Return a queue on every master that would create this group, with its %RETRY% topic, when a client requests it.

    Because of this, a new group pulls its retries from its first rebalance on, and not only after the next route
    update.
    """
    group = topic[len(RETRY_PREFIX) :]
    if not group or not may_create_group(group):
        return {}
    creating = [
        live.entry.broker_name
        for live in table.live.values()
        if live.entry.auto_create_groups and live.entry.broker_id == MASTER_ID
    ]
    return {name: QueueData(name, 1, 1, READ_WRITE) for name in creating if name not in known}


def _advertised_broker(broker: BrokerData, advertise: Advertise) -> BrokerData:
    addresses = advertised_addresses(broker, advertise)
    return BrokerData(broker.cluster, broker.broker_name, addresses, broker.enable_acting_master, broker.zone_name)


def advertised_addresses(broker: BrokerData, advertise: Advertise) -> dict[int, str]:
    """Return a broker's addresses as clients get them, lowest id first."""
    return {broker_id: advertise(address) for broker_id, address in sorted(broker.broker_addrs.items())}


def _filter_servers(table: RouteTable, broker_names: list[str], advertise: Advertise) -> dict[str, list[str]]:
    return {
        advertise(live.entry.address): live.entry.filter_servers
        for live in table.live.values()
        if live.entry.filter_servers and live.entry.broker_name in broker_names
    }


def _promote_lowest_slave(broker: BrokerData, queues: QueueData) -> None:
    addresses = broker.broker_addrs
    if broker.enable_acting_master and addresses and MASTER_ID not in addresses and not writable(queues.perm):
        acting = addresses.pop(min(addresses))
        broker.broker_addrs = {MASTER_ID: acting} | addresses


def cluster_info(table: RouteTable, advertise: Advertise) -> ClusterInfo:
    """Return all brokers and the clusters they belong to."""
    brokers = {name: _advertised_broker(broker, advertise) for name, broker in table.brokers.items()}
    return ClusterInfo(brokers, {cluster: list(names) for cluster, names in table.clusters.items()})


def member_group(table: RouteTable, cluster: str, broker_name: str, advertise: Advertise) -> MemberGroup:
    """Return a broker's addresses; none for an unknown broker. The cluster is the requested one, as in RocketMQ."""
    broker = table.brokers.get(broker_name)
    return MemberGroup(cluster, broker_name, {} if broker is None else advertised_addresses(broker, advertise))


def all_topics(table: RouteTable) -> TopicList:
    """Return the names of all topics, including system topics, %RETRY% and %DLQ%."""
    return TopicList(list(table.topics))


def topics_of_cluster(table: RouteTable, cluster: str) -> TopicList:
    """Return the names of the topics that have queues in a cluster; none for an unknown cluster."""
    names = table.clusters.get(cluster, {})
    return TopicList([topic for topic, queues in table.topics.items() if any(name in names for name in queues)])


def system_topics(table: RouteTable, advertise: Advertise) -> TopicList:
    """Return the names of clusters and brokers, which are also topics, and the address of one broker."""
    names = {name: None for cluster, brokers in table.clusters.items() for name in (cluster, *brokers)}
    return TopicList(list(names), next(_addresses(table, advertise), None))


def _addresses(table: RouteTable, advertise: Advertise) -> Iterator[str]:
    for broker in table.brokers.values():
        yield from advertised_addresses(broker, advertise).values()


def unit_topics(table: RouteTable) -> TopicList:
    """Return the names of topics with the unit flag."""
    return _flagged(table, lambda flag: flag & UNIT != 0)


def unit_subscribed_topics(table: RouteTable) -> TopicList:
    """Return the names of topics with the unit-subscribed flag."""
    return _flagged(table, lambda flag: flag & UNIT_SUB != 0)


def unit_subscribed_only_topics(table: RouteTable) -> TopicList:
    """Return the names of topics with the unit-subscribed flag and without the unit flag."""
    return _flagged(table, lambda flag: flag & (UNIT | UNIT_SUB) == UNIT_SUB)


def _flagged(table: RouteTable, fits: Callable[[int], bool]) -> TopicList:
    """Return the topics whose first broker has a fitting flag. RocketMQ checks only the first broker, too."""
    first = {topic: next(iter(queues.values())) for topic, queues in table.topics.items()}
    return TopicList([topic for topic, data in first.items() if fits(data.topic_sys_flag)])
