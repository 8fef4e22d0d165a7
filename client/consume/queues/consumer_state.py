"""What the queues of one consumer have in common, as far as decisions depend on it. Pure."""

from typing import NamedTuple

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.subscriptions import Subscriptions
from staticfire.client.consume.queues.flow_control import Flow, FlowControl
from staticfire.client.consume.queues.statistics import ConsumerStatistics
from staticfire.client.consume.queues.time_limits import TimeLimits
from staticfire.client.consume.results.hooks import ConsumerHooks
from staticfire.client.settings.push_settings import PushSettings
from staticfire.protocol.requests.pull import FLAG_LITE_PULL, FLAG_SUSPEND, LitePullMessage, PullMessage


class PullWay(NamedTuple):
    """How a kind of consumer pulls."""

    request: type[PullMessage]
    flags: int
    sends_version: bool
    """The version of a subscription to tags goes along, so that the broker can tell that its own is older."""
    keeps_illegal: bool
    """A queue whose offset is illegal is pulled on from where its broker says, and nothing is committed for that."""


PUSH = PullWay(PullMessage, FLAG_SUSPEND, sends_version=True, keeps_illegal=False)
LITE_PULL = PullWay(LitePullMessage, FLAG_SUSPEND | FLAG_LITE_PULL, sends_version=False, keeps_illegal=True)


class ConsumerState:
    """One consumer: what it wants, how much it takes, and whether it pulls at all."""

    def __init__(
        self,
        group: str,
        settings: PushSettings,
        subscriptions: Subscriptions,
        topic_retry_ms: int,
        way: PullWay = PUSH,
        flow: Flow | None = None,
        hooks: ConsumerHooks | None = None,
    ) -> None:
        """`topic_retry_ms`: after that a queue is taken anew whose topic its broker didn't have.

        `flow`: how much is taken, if not what the settings say of each queue.
        """
        self.group = group
        self.settings = settings
        self.subscriptions = subscriptions
        self.wanted = subscriptions.by_topic
        """What is wanted of each topic now."""
        self.topic_retry_ms = topic_retry_ms
        self.way = way
        self.limits = TimeLimits(settings)
        self.statistics = ConsumerStatistics()
        self.hooks = hooks or ConsumerHooks(group)
        self.flow = flow or FlowControl(settings)
        self.lost_topics: set[str] = set()  # A warning has told of them. Never iterated.
        self.own_topics: dict[str, str] = {}
        """The topics of retries that belong to one topic each: those of messages that were popped."""
        self.is_suspended = False
        self.paused: dict[MessageQueue, None] = {}
        """Queues that aren't pulled for now."""
        self.is_over = False
        """It is leaving: nothing is taken or pulled any more."""

    def is_paused(self, queue: MessageQueue) -> bool:
        """Whether a queue isn't pulled for now, by itself or with all others."""
        return self.is_suspended or (bool(self.paused) and queue in self.paused)
