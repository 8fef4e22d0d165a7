"""Notifies a program when the queues of a topic have changed. RocketMQ: TopicMessageQueueChangeListener.

Routes are fetched again every `poll_name_server_interval_ms`, and whenever one has proved wrong.
"""

from collections.abc import Callable

from staticfire.client.cluster.namespaces import Namespace
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.route_cache import RouteCache
from staticfire.client.cluster.routes import subscribe_queues
from staticfire.protocol.errors import TopicNotFound
from staticfire.protocol.requests.routes import TopicRouteData
from staticfire.runtime.log import logger

log = logger("client")

TopicQueuesChanged = Callable[[str, list[MessageQueue]], None]
"""Called after a change, with the topic and all its current queues."""


def for_plain_names(listener: TopicQueuesChanged, namespace: Namespace) -> TopicQueuesChanged:
    """Return a listener that is called with plain names of topics."""
    return lambda topic, queues: listener(namespace.unwrap(topic), list(map(namespace.unwrapped, queues)))


class TopicWatch:
    """The topics that one consumer watches."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._listeners: dict[str, list[TopicQueuesChanged]] = {}
        self._known: dict[str, list[MessageQueue]] = {}

    def add(self, topic: str, listener: TopicQueuesChanged) -> None:
        """Notify of this topic's changes, too."""
        self._listeners.setdefault(topic, []).append(listener)

    async def begin(self, routes: RouteCache) -> None:
        """Start to watch. A topic that doesn't exist yet is reported when it does. Raises: NetworkError."""
        routes.listeners.append(self.route_changed)
        for topic in list(self._listeners):
            await self.learn(topic, routes)

    async def learn(self, topic: str, routes: RouteCache) -> None:
        """Remember a topic's queues, to compare them later. Raises: NetworkError."""
        try:
            self._known[topic] = subscribe_queues(topic, await routes.route(topic))
        except TopicNotFound:
            self._known[topic] = []
            routes.awaited[topic] = None

    def end(self, routes: RouteCache) -> None:
        """Stop watching."""
        if self.route_changed in routes.listeners:
            routes.listeners.remove(self.route_changed)

    def route_changed(self, topic: str, route: TopicRouteData) -> None:
        """Notify the listeners of a topic if its queues have changed."""
        queues = subscribe_queues(topic, route)
        if topic not in self._listeners or self._known.get(topic) in (None, queues):
            return
        self._known[topic] = queues
        for listener in self._listeners[topic]:
            try:
                listener(topic, list(queues))
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 (as in hooks)
                log.error("topic_listener_failed", group=self._group, topic=topic, error=repr(error))
