"""What a topic's route means: which queues can be written or read, and which broker to use. Pure.

RocketMQ: MQClientInstance.topicRouteData2TopicPublishInfo, topicRouteData2TopicSubscribeInfo, findBrokerAddressIn….
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.limits import QUEUES_OF_TOPIC_MAX
from staticfire.protocol.permissions import readable, writable
from staticfire.protocol.requests.routes import MASTER_ID, QueueData, TopicRouteData

BrokerAddresses = Mapping[str, Mapping[int, str]]


def publish_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """Return the queues that can be written, sorted by broker name: writable, on a broker that has a master.

    An orderly topic (orderTopicConf) has exactly the queues listed there.
    """
    if route.order_topic_conf:
        return listed_queues(topic, route.order_topic_conf)
    masters = {broker.broker_name for broker in route.broker_datas if MASTER_ID in broker.broker_addrs}
    return [
        MessageQueue(topic, queues.broker_name, queue_id)
        for queues in sorted(route.queue_datas, key=_broker_name)
        if writable(queues.perm) and queues.broker_name in masters
        for queue_id in range(queues.write_queue_nums)
    ]


def subscribe_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """Return the queues that can be read, sorted."""
    return [
        MessageQueue(topic, queues.broker_name, queue_id)
        for queues in sorted(route.queue_datas, key=_broker_name)
        if readable(queues.perm)
        for queue_id in range(queues.read_queue_nums)
    ]


def _broker_name(queues: QueueData) -> str:
    return queues.broker_name


def listed_queues(topic: str, order_topic_conf: str) -> list[MessageQueue]:
    """Return the queues of an ordered topic, `broker:count;broker:count`. Raises: ProtocolError (invalid format)."""
    queues = []
    for part in order_topic_conf.split(";"):
        broker_name, _, count = part.rpartition(":")
        if not broker_name or not count.isdecimal() or not count.isascii() or int(count) > QUEUES_OF_TOPIC_MAX:
            raise ProtocolError(
                f"orderTopicConf {order_topic_conf!r} of topic {topic} must be written as broker:count;broker:count"
            )
        queues += [MessageQueue(topic, broker_name, queue_id) for queue_id in range(int(count))]
    return queues


def limit_queues(route: TopicRouteData, queue_nums: int) -> TopicRouteData:
    """Return the route that an unknown topic will have: that of the default topic, with at most `queue_nums` queues.

    The broker creates the topic with that many queues when the first message arrives.
    """
    queue_datas = []
    for queues in route.queue_datas:
        limited = min(queue_nums, queues.read_queue_nums)
        queue_datas.append(msgspec.structs.replace(queues, read_queue_nums=limited, write_queue_nums=limited))
    return msgspec.structs.replace(route, queue_datas=queue_datas)


def same_route(one: TopicRouteData | None, other: TopicRouteData | None) -> bool:
    """Whether two routes are equal, apart from the order of their brokers."""
    if one is None or other is None:
        return one is other
    return _sorted(one) == _sorted(other)


def _sorted(route: TopicRouteData) -> TopicRouteData:
    return msgspec.structs.replace(
        route,
        queue_datas=sorted(route.queue_datas, key=_broker_name),
        broker_datas=sorted(route.broker_datas, key=lambda broker: broker.broker_name),
    )


def broker_addresses(routes: Iterable[TopicRouteData]) -> dict[str, dict[int, str]]:
    """Return the addresses of all brokers in the routes, by name and id; sorted, so that the order is repeatable.

    `routes`: the latest last. The latest that has a broker counts: an older one may have a master that is gone.
    """
    addresses: dict[str, dict[int, str]] = {}
    for route in routes:
        for broker in route.broker_datas:
            addresses[broker.broker_name] = dict(sorted(broker.broker_addrs.items()))
    return {name: addresses[name] for name in sorted(addresses)}


def address_to_write(addresses: BrokerAddresses, broker_name: str) -> str | None:
    """Return the address that a broker accepts messages at: its master's."""
    return addresses.get(broker_name, {}).get(MASTER_ID)


def without_master(broker_name: str, slaves: Mapping[int, str]) -> str:
    """Describe a broker without a master, of which perhaps slaves are left."""
    if not slaves:
        return f"broker {broker_name} has no master in the routes"
    shown = ", ".join(f"{broker_id} at {address}" for broker_id, address in slaves.items())
    return (
        f"broker {broker_name} has no master now, only slaves ({shown}): these can be read, but accept no messages, "
        "locks or pops; wait until its master is back"
    )


def not_found(addresses: BrokerAddresses, topic: str, broker_name: str) -> str:
    """Describe that the routes have no replica of a broker that can be used."""
    if broker_name in addresses:
        return without_master(broker_name, addresses[broker_name])
    return f"broker {broker_name} isn't in the route of {topic}; known brokers: {', '.join(addresses) or 'none'}"


class ReplicaAddress(NamedTuple):
    """A broker's process that has its queues: its master (id 0) or one of its slaves."""

    broker_id: int
    address: str


def replica_to_read(addresses: BrokerAddresses, broker_name: str, broker_id: int = MASTER_ID) -> ReplicaAddress | None:
    """Return where to pull from: this replica; without it, the next slave; else any replica."""
    replicas = addresses.get(broker_name, {})
    address = replicas.get(broker_id)
    if address is not None:
        return ReplicaAddress(broker_id, address)
    following = broker_id + 1
    if broker_id != MASTER_ID and following in replicas:
        return ReplicaAddress(following, replicas[following])
    return next((ReplicaAddress(*one) for one in replicas.items()), None)


def address_to_read(addresses: BrokerAddresses, broker_name: str, broker_id: int = MASTER_ID) -> str | None:
    """Return the address to pull from; see `replica_to_read`."""
    replica = replica_to_read(addresses, broker_name, broker_id)
    return None if replica is None else replica.address
