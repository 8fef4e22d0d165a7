"""The state that the queues of one consumer share, and that decisions depend on. Pure."""

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
    """Whether the version of a tag subscription is sent, so that the broker can see that its own is older."""
    keeps_illegal: bool
    """Whether a queue with an illegal offset continues at the offset that the broker returned, without a commit."""


PUSH = PullWay(PullMessage, FLAG_SUSPEND, sends_version=True, keeps_illegal=False)
LITE_PULL = PullWay(LitePullMessage, FLAG_SUSPEND | FLAG_LITE_PULL, sends_version=False, keeps_illegal=True)


class ConsumerState:
    """One consumer: its subscriptions, its limits, and whether it pulls at all."""

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
        """`topic_retry_ms`: if a broker doesn't have a queue's topic, the queue is taken again after this time.

        `flow`: the flow control, if it isn't the limits per queue of the settings.
        """
        self.group = group
        self.settings = settings
        self.subscriptions = subscriptions
        self.wanted = subscriptions.by_topic
        """The current subscription of each topic."""
        self.topic_retry_ms = topic_retry_ms
        self.way = way
        self.limits = TimeLimits(settings)
        self.statistics = ConsumerStatistics()
        self.hooks = hooks or ConsumerHooks(group)
        self.flow = flow or FlowControl(settings)
        # A warning was logged for these topics. Never iterated.
        self.lost_topics: set[str] = set()
        self.own_topics: dict[str, str] = {}
        """Retry topics that belong to one topic each (retries of popped messages), with that topic."""
        self.is_suspended = False
        self.paused: dict[MessageQueue, None] = {}
        """Queues that aren't pulled at the moment."""
        self.is_over = False
        """Whether the consumer is leaving: no queue is taken or pulled any more."""

    def is_paused(self, queue: MessageQueue) -> bool:
        """Whether a queue isn't pulled at the moment: it is paused, or the whole consumer is suspended."""
        return self.is_suspended or (bool(self.paused) and queue in self.paused)
