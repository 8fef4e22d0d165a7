"""A member whose subscription is outdated adopts its group's version, rebalances, and continues.

Until then, brokers with fenceOlderSubscriptions refuse its pulls. It doesn't raise the version: that would make other
members outdated, whose different subscription may be intended.
"""

from staticfire.client.consume.membership.assigned_queues import AssignedQueues
from staticfire.client.consume.membership.rebalance_loop import Rebalanced
from staticfire.client.consume.queues.consumer_state import ConsumerState
from staticfire.protocol.requests.clients import GroupNews
from staticfire.runtime.log import logger
from staticfire.runtime.service import Spawn

log = logger("client")


class VersionAdoption:
    """Processes news of one consumer's group."""

    def __init__(self, state: ConsumerState, held: AssignedQueues, sharing: Rebalanced, spawn: Spawn) -> None:
        self._state = state
        self._held = held
        self._sharing = sharing
        self._spawn = spawn

    def take_news(self, news: GroupNews) -> None:
        """Adopt newer versions, if there are any."""
        state = self._state
        adopted = [topic for topic, version in news.newer_versions.items() if state.subscriptions.adopt(topic, version)]
        if adopted and not state.is_over:
            log.info("subscription_outdated", group=state.group, topics=adopted)
            self._spawn(self._go_on(), f"new versions of {state.group}")

    async def _go_on(self) -> None:
        await self._sharing.rebalance()
        self._held.resume()
