"""Namespaces of names: `ns%orders`, `%RETRY%ns%billing`. Pure. RocketMQ: NamespaceUtil, ClientConfig.withNamespace.

Programs use plain names of topics and groups; brokers, heartbeats and routes use full names with the namespace. So
several programs, or several runs of a test, can use the same names on one cluster and stay separate. RocketMQ's own
topics and groups are in no namespace. Neither are reply topics (in RocketMQ's client they are).
"""

from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.errors import UsageError
from staticfire.protocol.names import (
    DLQ_PREFIX,
    REPLY_SUFFIX,
    RETRY_PREFIX,
    SYSTEM_GROUP_PREFIX,
    is_system_topic,
    topic_fault,
)

SEPARATOR = "%"


class Namespace:
    """One namespace; or none, which changes no names."""

    def __init__(self, name: str = "") -> None:
        """Raises: UsageError (the name isn't allowed in a topic's name)."""
        if name and (topic_fault(name) is not None or SEPARATOR in name):
            raise UsageError(f"namespace={name!r} can't be part of a topic's name: use letters, digits, _, - and |")
        self.name = name
        self._prefix = f"{name}{SEPARATOR}" if name else ""

    def wrap(self, name: str) -> str:
        """Return the full name of a topic or group. A full name is returned unchanged."""
        if not self._prefix or not name or is_common(name):
            return name
        kind, plain = _parts(name)
        return name if plain.startswith(self._prefix) else f"{kind}{self._prefix}{plain}"

    def unwrap(self, name: str) -> str:
        """Return the plain name of a topic or group. A name of another namespace is returned unchanged."""
        if not self._prefix:
            return name
        kind, plain = _parts(name)
        return f"{kind}{plain.removeprefix(self._prefix)}"

    def wrapped(self, queue: MessageQueue) -> MessageQueue:
        """Return a queue with the full name of its topic."""
        return queue._replace(topic=self.wrap(queue.topic)) if self._prefix else queue

    def unwrapped(self, queue: MessageQueue) -> MessageQueue:
        """Return a queue with the plain name of its topic."""
        return queue._replace(topic=self.unwrap(queue.topic)) if self._prefix else queue


def is_common(name: str) -> bool:
    """Whether a topic or group never has a namespace."""
    return is_system_topic(name) or name.startswith(SYSTEM_GROUP_PREFIX) or name.endswith(REPLY_SUFFIX)


def _parts(name: str) -> tuple[str, str]:
    """Split a name into its `%RETRY%` or `%DLQ%` prefix, if it has one, and the rest."""
    for kind in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(kind):
            return kind, name[len(kind) :]
    return "", name
