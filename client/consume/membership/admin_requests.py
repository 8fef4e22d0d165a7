"""Serves administrators' requests to a client, forwarded by a broker. RocketMQ: ClientRemotingProcessor,
MQClientInstance.

Behaviour
- Running info, positions, and direct consumption of a message get a response. A change of offsets is done without one.
- Unknown group: SYSTEM_ERROR, but an empty table for positions, as RocketMQ's client responds.
"""

from collections.abc import Mapping
from typing import Protocol

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.pull_answers import packed_address, received
from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.requests import connections, locks, reset_offset
from staticfire.runtime.dispatcher import Call, Dispatcher


def not_here(group: str) -> BrokerAnswer:
    """Return the error that RocketMQ's client returns."""
    return BrokerAnswer(ResponseCode.SYSTEM_ERROR, f"The Consumer Group <{group}> not exist in this consumer")


class AdministeredConsumer(Protocol):
    """A consumer that administrators can send requests to."""

    def running_info(self, with_stacks: bool) -> connections.ConsumerRunningInfo:
        """Return its running info."""

    def positions(self, topic: str) -> dict[MessageQueue, int]:
        """Return its positions in a topic, from memory."""

    async def consume_directly(self, message: ReceivedMessage) -> connections.ConsumedDirectly:
        """Call the listener with one message, of any queue. No offset changes."""

    async def go_on_at(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Continue at these offsets, in the queues that it owns."""


class OtherClients(Protocol):
    """Serves requests for clients other than this one: the gRPC endpoint."""

    async def running_info(self, request: connections.GetConsumerRunningInfo) -> connections.ConsumerRunningInfo:
        """Return the running info of a client. Raises: BrokerAnswer."""

    async def consume_directly(
        self, request: connections.ConsumeDirectly, message: ReceivedMessage
    ) -> connections.ConsumedDirectly:
        """Let a client consume a message. Raises: BrokerAnswer."""


class AdminRequests:
    """Passes administrators' requests to the consumers of one client."""

    @classmethod
    def of(cls, client: ClusterClient) -> "AdminRequests":
        """Return the instance of a client. Its consumers share it."""
        return client.part(cls._made_for)

    @classmethod
    def _made_for(cls, client: ClusterClient) -> "AdminRequests":
        return cls(client.dispatcher)

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.consumers: dict[str, AdministeredConsumer] = {}
        """The consumers of this client, by group."""
        self.endpoints: list[OtherClients] = []
        """The endpoint, if this is the client of one; it has no consumers of its own. Otherwise empty."""
        dispatcher.handle(RequestCode.GET_CONSUMER_RUNNING_INFO, self._running_info)
        dispatcher.handle(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, self._positions)
        dispatcher.handle(RequestCode.CONSUME_MESSAGE_DIRECTLY, self._consume_directly)
        dispatcher.handle(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, self._go_on_at)

    def _consumer(self, group: str) -> AdministeredConsumer:
        """Return a group's consumer. Raises: BrokerAnswer."""
        if group not in self.consumers:
            raise not_here(group)
        return self.consumers[group]

    async def _running_info(self, call: Call) -> Answer:
        request: connections.GetConsumerRunningInfo = call.request
        if self.endpoints:
            return connections.RunningInfoAnswer(body=await self.endpoints[0].running_info(request))
        info = self._consumer(request.consumer_group).running_info(request.jstack_enable)
        return connections.RunningInfoAnswer(body=info)

    def _positions(self, call: Call) -> Answer:
        request: reset_offset.GetClientStatus = call.request
        consumer = self.consumers.get(request.group)
        positions = {} if consumer is None else consumer.positions(request.topic)
        table = {locks.MessageQueue(*queue): offset for queue, offset in positions.items()}
        return reset_offset.ConsumerStatusAnswer(body=reset_offset.ConsumerStatus(table))

    async def _consume_directly(self, call: Call) -> Answer:
        request: connections.ConsumeDirectly = call.request
        consumer = None if self.endpoints else self._consumer(request.consumer_group)
        if request.body is None or not request.body.records:
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, f"the request of {call.peer} contains no message to consume")
        broker_host = packed_address(call.peer.address)
        message = received(request.body, request.broker_name or "", None, broker_host)[0]
        if consumer is None:
            return connections.ConsumedDirectlyAnswer(body=await self.endpoints[0].consume_directly(request, message))
        return connections.ConsumedDirectlyAnswer(body=await consumer.consume_directly(message))

    async def _go_on_at(self, call: Call) -> None:
        request: reset_offset.ResetClientOffset = call.request
        consumer = self.consumers.get(request.group)
        if consumer is not None and request.body is not None:
            offsets = request.body.offset_table.items()
            await consumer.go_on_at({MessageQueue(q.topic, q.broker_name, q.queue_id): o for q, o in offsets})
