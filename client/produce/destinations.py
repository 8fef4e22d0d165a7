"""Where a producer's messages can be sent: the queues of a topic, a sender for each broker, brokers to avoid.

A topic's route is fetched when its first message is sent. After that, each change of the route replaces the queues to
choose from. If a change leaves no writable queue, the topic is forgotten, and the next message fetches its route again.
"""

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.routes import publish_queues, without_master
from staticfire.client.cluster.settings import ProducerSettings
from staticfire.client.produce.backpressure import Backpressure
from staticfire.client.produce.broker_faults import BrokerFaults
from staticfire.client.produce.broker_sender import BrokerSender, Troubled
from staticfire.client.produce.queue_choice import QueueChoice
from staticfire.protocol.errors import (
    BrokerAnswer,
    ClientError,
    ConnectFailed,
    ConnectionLost,
    NetworkError,
    NoMaster,
    ProtocolError,
    StaticfireError,
)
from staticfire.protocol.names import topic_fault
from staticfire.protocol.requests.routes import MASTER_ID, TopicRouteData
from staticfire.protocol.times import UptimeMs


def _unwritable(topic: str, route: TopicRouteData) -> ClientError:
    """Return the error that describes why no queue can be written."""
    slaves = {one.broker_name: one.broker_addrs for one in route.broker_datas if MASTER_ID not in one.broker_addrs}
    words = [without_master(name, slaves[name]) for name in sorted(slaves)]
    perms = [f"{one.broker_name}: perm {one.perm}" for one in route.queue_datas if one.broker_name not in slaves]
    if perms or not words:
        words.append(f"its route contains no broker with a master and write permission ({', '.join(perms)})")
    return (NoMaster if slaves else ClientError)(f"topic {topic} has no writable queue: {'; '.join(words)}")


class Destinations:
    """Follows the routes of the topics that the producer sends to. It uses the running event loop."""

    def __init__(
        self,
        group: str,
        client: ClusterClient,
        settings: ProducerSettings,
        backpressure: Backpressure,
        troubled: Troubled,
    ) -> None:
        """`troubled` gets each message whose outcome isn't success."""
        self._group = group
        self._client = client
        self._settings = settings
        self._backpressure = backpressure
        self._troubled = troubled
        self.choices: dict[str, QueueChoice[BrokerSender]] = {}
        """By topic, with its plain name and its full name. If a topic isn't here, await `queues` first."""
        self.faults = BrokerFaults()
        self.avoided = self.faults.avoided
        """The brokers to avoid; hot code checks whether it is empty."""
        self._answered = self._note_latency if settings.send_latency_fault_enable else None
        self._senders: dict[str, BrokerSender] = {}
        client.routes.listeners.append(self._route_changed)

    def sender(self, broker_name: str) -> BrokerSender:
        """Return the sender of a broker; it is created when first needed."""
        sender = self._senders.get(broker_name)
        if sender is None:
            sender = BrokerSender(
                broker_name, self._group, self._client, self._settings, self._backpressure, self._troubled,
                self._answered,
            )  # fmt: skip
            self._senders[broker_name] = sender
        return sender

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic that can be written. Raises: TopicNotFound, NetworkError, ClientError."""
        choice = self.choices.get(topic)
        if choice is None:
            settings = self._settings
            topic = self._client.namespace.wrap(topic)
            fault = topic_fault(topic)
            if fault is not None:
                raise ClientError(f"{topic!r}: {fault}")
            route = await self._client.routes.route_to_publish(
                topic, settings.create_topic_key, settings.default_topic_queue_nums
            )
            if not publish_queues(topic, route):
                # Its brokers had no master when it was fetched.
                route = await self._client.routes.fetch(topic)
            choice = self.choices.get(topic) or self._choose_from(topic, route)
        return choice.queues

    def _choose_from(self, topic: str, route: TopicRouteData) -> QueueChoice[BrokerSender]:
        plain = self._client.namespace.unwrap(topic)
        queues = publish_queues(plain, route)
        if not queues:
            raise _unwritable(topic, route)
        known = self.choices.get(topic)
        turn = known.turn if known is not None else self._client.machine.identity.random.randrange(len(queues))
        choice = self.choices[plain] = self.choices[topic] = QueueChoice(topic, queues, self.sender, turn)
        return choice

    def _route_changed(self, topic: str, route: TopicRouteData) -> None:
        if topic in self.choices:
            try:
                self._choose_from(topic, route)
            except (ClientError, ProtocolError):
                for name in {topic, self._client.namespace.unwrap(topic)}:
                    self.choices.pop(name, None)  # The next message fetches the route again, and fails with the reason.

    def next_queue(self, choice: QueueChoice[BrokerSender], last_broker: str | None = None) -> MessageQueue:
        """Return the next queue, if possible on a broker other than `last_broker` and the avoided ones."""
        if self.avoided:
            self.faults.lapse(self._client.machine.clock.uptime_ms())
        unreachable = self.faults.unreachable
        if last_broker is None:
            return choice.next(self.avoided, unreachable)
        if self._settings.send_latency_fault_enable:
            choice.turn = self._client.machine.identity.random.randrange(choice.count)
        return choice.next({last_broker, *self.avoided}, {last_broker, *unreachable})

    def queue_on(self, broker_name: str) -> MessageQueue | None:
        """Return any known queue of a broker, with its topic's full name."""
        queues = (queue._replace(topic=choice.topic) for choice in self.choices.values() for queue in choice.queues)
        return next((queue for queue in queues if queue.broker_name == broker_name), None)

    def _note_latency(self, broker_name: str, began_ms: UptimeMs) -> None:
        uptime_ms = self._client.machine.clock.uptime_ms()
        self.faults.answered(broker_name, uptime_ms - began_ms, uptime_ms)

    def note_failure(self, broker_name: str, error: StaticfireError) -> None:
        """Prefer other brokers to one that didn't accept a message, as the settings say."""
        settings, uptime_ms = self._settings, self._client.machine.clock.uptime_ms()
        if not settings.send_latency_fault_enable:
            if isinstance(error, ConnectFailed | ConnectionLost):
                self.faults.avoid(broker_name, self._client.settings.avoid_broker_ms, uptime_ms)
        elif isinstance(error, NetworkError):
            self.faults.failed(broker_name, not settings.start_detector_enable, uptime_ms)
        elif isinstance(error, BrokerAnswer):
            self.faults.failed(broker_name, False, uptime_ms)

    def close(self) -> None:
        """Stop following routes."""
        self._client.routes.listeners.remove(self._route_changed)
