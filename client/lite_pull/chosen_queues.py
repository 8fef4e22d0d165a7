"""The queues that a program has assigned itself, and the switch between these and a share of the group's."""

import asyncio
from collections.abc import Iterable

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.consume.membership.assigned_queues import AssignedQueues
from staticfire.client.consume.membership.rebalance_loop import Rebalanced


class ChosenQueues:
    """Keeps `held` at what the program has chosen; what can't be taken now is tried again, as in any rebalance."""

    def __init__(self, held: AssignedQueues, shared: Rebalanced) -> None:
        """`shared`: keeps it at this member's share of the group's queues, as long as the program has chosen none."""
        self._held = held
        self._shared = shared
        self._chosen: dict[MessageQueue, None] | None = None
        self._round = asyncio.Lock()
        # A round waits for answers between looking and changing: two at once would take a queue twice.

    @property
    def is_chosen(self) -> bool:
        """Whether the program has chosen them."""
        return self._chosen is not None

    @property
    def queues(self) -> list[MessageQueue]:
        """What has been assigned by the program or by the group, sorted; of the latter, what has been taken."""
        return self._held.queues if self._chosen is None else sorted(self._chosen)

    def choose(self, queues: Iterable[MessageQueue]) -> None:
        """Want these from now on, and no others."""
        self._chosen = dict.fromkeys(queues)

    async def rebalance(self) -> bool:
        """Bring the queues up to date; return whether everything could be done."""
        if self._chosen is None:
            return await self._shared.rebalance()
        async with self._round:
            held = self._held.queues
            await self._held.drop([queue for queue in held if queue not in self._chosen])
            missing = [queue for queue in self._chosen if queue not in held]
            return await self._held.take(missing) == len(missing)
