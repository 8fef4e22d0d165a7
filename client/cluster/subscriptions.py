"""A consumer's subscriptions, as its heartbeats contain them. RocketMQ: SubscriptionData, FilterAPI."""

from dataclasses import dataclass
from functools import lru_cache

from staticfire.client.cluster.namespaces import Namespace
from staticfire.protocol.errors import ClientError
from staticfire.protocol.names import topic_fault
from staticfire.protocol.requests.clients import SubscriptionData
from staticfire.protocol.tags import ALL_TAGS, TagExpression
from staticfire.protocol.times import MessageMs

TAG, SQL92 = "TAG", "SQL92"
SHOWN_CHARACTERS_MAX = 100


@dataclass(slots=True)
class Subscription:
    """The subscription to one topic. `tags` is None if only the broker filters."""

    data: SubscriptionData
    tags: TagExpression | None


def subscribe(topic: str, expression: str, expression_type: str, version_ms: MessageMs) -> Subscription:
    """Return a subscription. `version_ms`: 0 if the time isn't known. Raises: ClientError (topic or expression)."""
    fault = topic_fault(topic)
    if fault is not None:
        raise ClientError(f"{topic!r}: {fault}")
    tags = expected_tags(expression, expression_type, topic)
    if tags is None:
        data = SubscriptionData(topic, expression, sub_version=version_ms, expression_type=expression_type)
        return Subscription(data, None)
    data = SubscriptionData(
        topic,
        ALL_TAGS if tags.all_tags else expression,
        sorted(tags.tags),
        sorted(tags.codes),
        version_ms,
    )
    return Subscription(data, tags)


@lru_cache(maxsize=256)
def expected_tags(expression: str, expression_type: str, topic: str) -> TagExpression | None:
    """Return the subscribed tags; None if a broker filters by a condition. Raises: ClientError (invalid expression)."""
    if expression_type == TAG:
        tags = TagExpression.parse(expression)
        if not tags.all_tags and not tags.tags:
            raise ClientError(f"{expression!r} contains no tag: write `paid || refunded`, or `*` for all")
        return tags
    if expression_type != SQL92:
        words = f"unknown expression type {expression_type!r}: filter by tags, expression_type={TAG!r}"
        raise ClientError(f"{topic!r}: {words}, or by a condition, {SQL92!r}")
    from staticfire.protocol.sql92.faults import FilterExpressionError
    from staticfire.protocol.sql92.filters import compile_filter

    try:
        compile_filter(expression)
    except FilterExpressionError as error:
        raise ClientError(f"{topic!r}: {shortened(expression)} is not a valid condition: {error}") from None
    return None


def shortened(expression: str) -> str:
    """Return an expression, shortened for a message."""
    shown = repr(expression)
    return shown if len(shown) <= SHOWN_CHARACTERS_MAX else f"{shown[:SHOWN_CHARACTERS_MAX]}..."


class Subscriptions:
    """All topics of a consumer, in the order of subscription.

    Versions are times, and brokers accept a subscription only with a higher version than the known one. So within a
    topic each version is higher than the one before: even in the same millisecond, after the clock was set back, and
    after the topic was unsubscribed. A subscription made before the time is known gets its version at the first
    heartbeat.
    """

    def __init__(self, namespace: Namespace | None = None) -> None:
        """`namespace`: that of the consumer's topics, which are kept here with their full names."""
        self.namespace = namespace or Namespace()
        self.by_topic: dict[str, Subscription] = {}
        self._versions: dict[str, int] = {}

    def put(self, subscription: Subscription) -> None:
        """Subscribe to a topic, or change its subscription."""
        data = subscription.data
        known = self._versions.get(data.topic)
        if known is not None:
            data.sub_version = max(data.sub_version, known + 1)
        self._note(data)
        self.by_topic[data.topic] = subscription

    def stamp(self, version_ms: MessageMs) -> None:
        """Give a version to the subscriptions that have none, now that the time is known."""
        for subscription in self.by_topic.values():
            data = subscription.data
            if not data.sub_version:
                data.sub_version = version_ms
                self._note(data)

    def adopt(self, topic: str, version: int) -> bool:
        """Adopt another member's version. Return whether it is newer."""
        subscription = self.by_topic.get(topic)
        if subscription is None or subscription.data.sub_version >= version:
            return False
        subscription.data.sub_version = version
        self._note(subscription.data)
        return True

    def _note(self, data: SubscriptionData) -> None:
        if data.sub_version:
            self._versions[data.topic] = data.sub_version
