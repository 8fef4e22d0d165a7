"""The parts of a running push consumer, chosen for its way to consume.

Queues are pulled, with the listener and the policy for ordered or for concurrent consumption; queue locks exist only
for ordered consumption in CLUSTERING mode. If brokers assign the queues, and consumption isn't ordered, there are also
the parts for popped queues.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.consume.listeners.concurrent_consumption import ConcurrentConsumption
from staticfire.client.consume.listeners.hooked_listener import with_hooks
from staticfire.client.consume.listeners.ordered_consumption import OrderedConsumption
from staticfire.client.consume.listeners.send_back import SendBacks
from staticfire.client.consume.membership.assigned_queues import AssignedQueues
from staticfire.client.consume.membership.membership import Membership
from staticfire.client.consume.membership.rebalancer import QueuesChanged, Rebalancer
from staticfire.client.consume.queues.concurrent_policy import ConcurrentPolicy
from staticfire.client.consume.queues.consumer_state import ConsumerState
from staticfire.client.consume.queues.held_lock import HeldLock
from staticfire.client.consume.queues.ordered_policy import OrderedPolicy
from staticfire.client.consume.queues.policy import Policy
from staticfire.client.consume.queues.process_queue import ProcessQueue
from staticfire.client.consume.queues.queue_decisions import AssignedQueue
from staticfire.client.consume.queues.queue_driver import Driver, Listening
from staticfire.client.consume.results.consume_results import Listener
from staticfire.client.consume.results.ordered_results import OrderedListener
from staticfire.client.offsets.local_offsets import offsets_of
from staticfire.client.settings.push_settings import MessageModel
from staticfire.protocol.codecs import NATIVE
from staticfire.protocol.errors import ClientError
from staticfire.runtime.service import Service, Spawn

if TYPE_CHECKING:
    from staticfire.client.consume.popping.pop_queue import PopQueue
    from staticfire.client.consume.popping.pop_queues import PopQueues


class PushParts:
    """The parts of one consumer. They use the running event loop."""

    def __init__(
        self,
        service: Service,
        client: ClusterClient,
        state: ConsumerState,
        listener: Listener | OrderedListener,
        is_ordered: bool,
        queue_listeners: list[QueuesChanged],
    ) -> None:
        """`service`: runs the loops."""
        group, settings, machine, spawn = state.group, state.settings, client.machine, service.spawn
        self.state = state
        self.offsets = offsets = offsets_of(group, client, settings)
        self.send_backs = send_backs = SendBacks(group, client, settings.retries_max)

        hooked = with_hooks(listener, group, state.hooks, state.limits, machine.clock)

        def listen(driver: Driver) -> Listening:
            if is_ordered:
                return OrderedConsumption(group, hooked, settings, machine, send_backs.give_up, driver, spawn)
            return ConcurrentConsumption(group, hooked, settings, machine, send_backs.send_back, driver, spawn)

        def make_policy(cache: ProcessQueue, lock: HeldLock | None) -> Policy:
            return OrderedPolicy(cache, lock) if is_ordered else ConcurrentPolicy(cache, group, settings, state.limits)

        is_locking = is_ordered and settings.message_model is MessageModel.CLUSTERING
        self.held = AssignedQueues(state, client, offsets, listen, make_policy, is_locking, spawn)
        is_assigned = settings.is_assigned_by_brokers and not is_ordered
        self.popped = popped_queues(state, client, hooked, send_backs, spawn) if is_assigned else None
        sharing = Rebalancer(state, client, self.held, queue_listeners, self.popped)
        self.membership = Membership(service, client, state, self.held, offsets, sharing)

    @property
    def listening(self) -> Listening:
        """Runs the listener."""
        return self.held.driver.listening

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are pulled or popped, sorted."""
        return self.held.queues if self.popped is None else sorted([*self.held.queues, *self.popped.queues])

    @property
    def cached(self) -> dict[MessageQueue, int]:
        """The number of messages of each queue that are cached and not done."""
        found: dict[MessageQueue, AssignedQueue[Any] | PopQueue | None] = {}
        found.update((queue, self.held.find(queue)) for queue in self.held.queues)
        if self.popped is not None:
            found.update((queue, self.popped.find(queue)) for queue in self.popped.queues)
        return {queue: len(one.cache) for queue, one in sorted(found.items()) if one is not None}

    def resize(self, threads: int) -> None:
        """Allow this many concurrent listener calls from now on, and as many again for popped messages."""
        self.listening.resize(threads)
        if self.popped is not None:
            self.popped.driver.listening.resize(threads)

    def resume(self) -> None:
        """Pull and pop at once, whatever each queue waits for."""
        self.held.resume()
        if self.popped is not None:
            self.popped.resume()

    def subscriptions_changed(self) -> None:
        """Inform every broker, rebalance, and continue with queues that paused without a subscription."""
        self.membership.subscriptions_changed()
        if self.popped is not None:
            self.popped.resume()

    async def move_to_time(self, stored_ms: int) -> None:
        """Continue with messages stored at this time or later. Raises: ClientError, BrokerAnswer, NetworkError."""
        if self.popped is not None and self.popped.queues:
            words = "brokers manage its offsets: reset the offsets of the group with Admin"
            raise ClientError(f"{self.state.group} pops its messages and has no offsets of its own; {words}")
        await self.held.move_to_time(stored_ms)

    async def leave(self) -> None:
        """Stop pulling and popping, let listeners end, store offsets."""
        self.membership.stop_pulling()
        try:
            if self.popped is None:
                await self.listening.leave()
            else:
                await asyncio.gather(self.listening.leave(), self.popped.driver.listening.leave())
                await self.popped.leave()
            await self.held.leave()
        finally:
            await self.send_backs.close()


def popped_queues(
    state: ConsumerState, client: ClusterClient, listener: Any, send_backs: SendBacks, spawn: Spawn
) -> "PopQueues":
    """Make the parts for popped queues, and return the queues. Imported only if brokers assign the queues."""
    from staticfire.client.consume.listeners.unexpired_listener import without_expired
    from staticfire.client.consume.popping.pop_driver import PopDriver
    from staticfire.client.consume.popping.pop_queues import PopQueues
    from staticfire.client.consume.popping.pop_returns import PopReturns
    from staticfire.client.pop.acknowledging import Acknowledging

    group, settings, machine = state.group, state.settings, client.machine
    acknowledging = Acknowledging(group, client, client.settings.mq_client_api_timeout_ms)
    ignores_spent = client.settings.codec_byte == NATIVE
    returns = PopReturns(group, settings, machine.clock, acknowledging, send_backs.bury, ignores_spent)
    called = without_expired(listener, machine.clock)

    def listen(driver: Driver) -> Listening:
        return ConcurrentConsumption(group, called, settings, machine, returns.give_back, driver, spawn)

    return PopQueues(state, client, PopDriver(state, client, acknowledging, returns, listen, spawn))
