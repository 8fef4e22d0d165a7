"""What the queues of one consumer have in common, as far as decisions depend on it. Pure."""

from staticfire.client.cluster.subscriptions import Subscriptions
from staticfire.client.consume.flow_control import FlowControl
from staticfire.client.consume.push_settings import PushSettings


class ConsumerState:
    """One consumer: what it wants, how much it takes, and whether it pulls at all."""

    def __init__(self, group: str, settings: PushSettings, subscriptions: Subscriptions, topic_retry_ms: int) -> None:
        """`topic_retry_ms`: after that a queue is taken anew whose topic its broker didn't have."""
        self.group = group
        self.settings = settings
        self.subscriptions = subscriptions
        self.wanted = subscriptions.by_topic
        """What is wanted of each topic now."""
        self.topic_retry_ms = topic_retry_ms
        self.flow = FlowControl(settings)
        self.lost_topics: set[str] = set()  # A warning has told of them. Never iterated.
        self.is_suspended = False
        self.is_over = False
        """It is leaving: nothing is taken or pulled any more."""
