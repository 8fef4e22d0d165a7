"""Routes of topics, and the queues from which a consumer receives. RocketMQ: RouteActivity.

Behaviour
- All brokers in a response have the endpoints of the request, unchanged: the client reached us there, even through
  mapped ports. RocketMQ's proxy inserts its own port unless `useEndpointPortFromRequest` is set.
- Every client of a group gets every queue. A group that doesn't consume in order gets one queue -1 per broker.

Not done
- Balancing: the broker decides what a receive returns.
"""

from collections.abc import Iterator

from staticfire.protocol.permissions import readable, writable
from staticfire.protocol.requests.routes import MASTER_ID, BrokerData, QueueData, TopicRouteData
from staticfire.proxy.proto.rocketmq_v2_pb2 import (
    Assignment,
    Broker,
    Code,
    Endpoints,
    MessageQueue,
    MessageType,
    Permission,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    QueryRouteRequest,
    QueryRouteResponse,
    Resource,
)
from staticfire.proxy.services.callers import Caller
from staticfire.proxy.services.known_cluster import KnownCluster
from staticfire.proxy.services.message_types import accepted
from staticfire.proxy.services.names import group_of, topic_of
from staticfire.proxy.services.statuses import StatusError, ok

ANY_QUEUE = -1


class RouteCalls:
    """QueryRoute and QueryAssignment."""

    def __init__(self, cluster: KnownCluster) -> None:
        self._cluster = cluster

    async def query_route(self, request: QueryRouteRequest, _: Caller) -> QueryRouteResponse:
        """Return the queues of a topic. Raises: StaticfireError."""
        topic = topic_of(request.topic)
        route = await self._cluster.route(topic, newest=True)
        types = accepted(await self._cluster.topic_type(topic, newest=True))
        queues = [
            queue
            for queue_data, broker in _queues_of(route)
            for broker_id in sorted(broker.broker_addrs)
            for queue in _queues(queue_data, _broker(broker, broker_id, request.endpoints), request.topic, types)
        ]
        return QueryRouteResponse(status=ok(), message_queues=queues)

    async def query_assignment(self, request: QueryAssignmentRequest, _: Caller) -> QueryAssignmentResponse:
        """Return the queues from which a consumer receives. Raises: StaticfireError."""
        topic, group = topic_of(request.topic), group_of(request.group)
        route = await self._cluster.route(topic)
        in_order = (await self._cluster.group(group)).consume_message_orderly
        assignments = []
        for queue_data, broker in _queues_of(route):
            if not readable(queue_data.perm) or MASTER_ID not in broker.broker_addrs:
                continue
            for queue_id in (
                range(queue_data.read_queue_nums) if in_order else [ANY_QUEUE][: queue_data.read_queue_nums]
            ):
                queue = MessageQueue(
                    topic=request.topic,
                    id=queue_id,
                    permission=_permission(queue_data.perm),
                    broker=_broker(broker, MASTER_ID, request.endpoints),
                )
                assignments.append(Assignment(message_queue=queue))
        if not assignments:
            raise StatusError(Code.FORBIDDEN, "no readable queue")
        return QueryAssignmentResponse(status=ok(), assignments=assignments)


def _queues_of(route: TopicRouteData) -> Iterator[tuple[QueueData, BrokerData]]:
    """Yield each broker's queues of a topic, sorted by the broker's name."""
    brokers = {broker.broker_name: broker for broker in route.broker_datas}
    for queue_data in sorted(route.queue_datas, key=lambda one: one.broker_name):
        if queue_data.broker_name in brokers:
            yield queue_data, brokers[queue_data.broker_name]


def _broker(broker: BrokerData, broker_id: int, endpoints: Endpoints) -> Broker:
    return Broker(name=broker.broker_name, id=broker_id, endpoints=endpoints)


def _permission(perm: int) -> Permission:
    if readable(perm):
        return Permission.READ_WRITE if writable(perm) else Permission.READ
    return Permission.WRITE if writable(perm) else Permission.NONE


def _queues(data: QueueData, broker: Broker, topic: Resource, types: list[MessageType]) -> Iterator[MessageQueue]:
    """Yield the queues of a broker: the read-only ones, the write-only ones, then the rest."""
    reads = data.read_queue_nums if readable(data.perm) else 0
    writes = data.write_queue_nums if writable(data.perm) else 0
    both = min(reads, writes)
    permissions = [Permission.READ] * (reads - both) + [Permission.WRITE] * (writes - both)
    permissions += [Permission.READ_WRITE] * both
    if not permissions:
        permissions = [Permission.NONE] * max(1, data.read_queue_nums, data.write_queue_nums)
    for queue_id, permission in enumerate(permissions):
        yield MessageQueue(topic=topic, id=queue_id, permission=permission, broker=broker, accept_message_types=types)
