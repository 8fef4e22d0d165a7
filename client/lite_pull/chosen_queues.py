"""The queues that a program has assigned itself, and the switch between these and a share of the group's."""

import asyncio
from collections.abc import Iterable

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.consume.membership.assigned_queues import AssignedQueues
from staticfire.client.consume.membership.rebalance_loop import Rebalanced


class ChosenQueues:
    """Keeps the owned queues (`held`) as the program has chosen. What can't be taken is tried again at a rebalance."""

    def __init__(self, held: AssignedQueues, shared: Rebalanced) -> None:
        """`shared`: keeps this member's share of the group's queues, while the program has chosen none."""
        self._held = held
        self._shared = shared
        self._chosen: dict[MessageQueue, None] | None = None
        # A round waits for responses before it changes anything: two rounds at once would take a queue twice.
        self._round = asyncio.Lock()

    @property
    def is_chosen(self) -> bool:
        """Whether the program has chosen queues."""
        return self._chosen is not None

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues assigned by the program, or those taken of the group's share; sorted."""
        return self._held.queues if self._chosen is None else sorted(self._chosen)

    def choose(self, queues: Iterable[MessageQueue]) -> None:
        """Own exactly these queues from now on."""
        self._chosen = dict.fromkeys(queues)

    async def rebalance(self) -> bool:
        """Update the queues. Return whether everything could be done."""
        if self._chosen is None:
            return await self._shared.rebalance()
        async with self._round:
            held = self._held.queues
            await self._held.drop([queue for queue in held if queue not in self._chosen])
            missing = [queue for queue in self._chosen if queue not in held]
            return await self._held.take(missing) == len(missing)
