"""A running lite pull consumer: its parts, and the operations of a program.

The parts are those of a push consumer, with a buffer instead of a listener.
"""

from collections.abc import Iterable, Mapping

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.subscriptions import Subscriptions
from staticfire.client.consume.membership.assigned_queues import AssignedQueues
from staticfire.client.consume.membership.membership import Membership
from staticfire.client.consume.membership.rebalancer import QueuesChanged, Rebalancer
from staticfire.client.consume.queues.concurrent_policy import ConcurrentPolicy
from staticfire.client.consume.queues.consumer_state import LITE_PULL, ConsumerState
from staticfire.client.consume.results.consume_results import ConsumeStatus
from staticfire.client.consume.results.hooks import ConsumeCall, ConsumerHooks
from staticfire.client.lite_pull.chosen_queues import ChosenQueues
from staticfire.client.lite_pull.poll_buffer import PollBuffer
from staticfire.client.lite_pull.polled_offsets import PolledOffsets
from staticfire.client.lite_pull.shared_flow import SharedFlow
from staticfire.client.offsets.local_offsets import offsets_of
from staticfire.client.offsets.queue_offsets import QueueOffsets
from staticfire.client.settings.lite_pull_settings import LitePullSettings
from staticfire.protocol.errors import ClientError
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.service import Service


class LitePulling:
    """The parts of one consumer. They use the running event loop."""

    def __init__(
        self,
        service: Service,
        client: ClusterClient,
        group: str,
        settings: LitePullSettings,
        subscriptions: Subscriptions,
        queue_listeners: list[QueuesChanged],
        hooks: ConsumerHooks,
    ) -> None:
        """`service`: runs the loops."""
        push = settings.as_push()
        self.buffer = PollBuffer()
        flow = SharedFlow(push, self.buffer, settings.pull_threshold_for_all)
        retry_ms = client.settings.rebalance_retry_ms
        self.state = ConsumerState(group, push, subscriptions, retry_ms, LITE_PULL, flow, hooks)
        self.offsets = PolledOffsets(offsets_of(group, client, push), settings.auto_commit)
        self.held = AssignedQueues(
            self.state,
            client,
            self.offsets,
            lambda _: self.buffer,
            lambda cache, _: ConcurrentPolicy(cache, group, push),
            is_locking=False,
            spawn=service.spawn,
        )
        listeners = [self._queues_changed, *queue_listeners]
        self.assigned = ChosenQueues(self.held, Rebalancer(self.state, client, self.held, listeners))
        self.membership = Membership(service, client, self.state, self.held, self.offsets, self.assigned)
        self.questions = QueueOffsets(client, settings.offset_timeout_ms)
        self._uptime_ms = client.machine.clock.uptime_ms
        self.last_poll_ms = self._uptime_ms()
        """The time of the program's last poll."""
        self._polls = 0
        self._auto_commit_ms = settings.auto_commit_interval_ms if settings.auto_commit else None
        self._commit_due_ms = 0
        self._is_hooked = hooks.hears_of("consume")

    # -- polling -------------------------------------------------------------------------------------------------

    async def poll(self, timeout_ms: int) -> list[ReceivedMessage]:
        """Return the messages of one pull; none after `timeout_ms`."""
        self._polls += 1
        try:
            return await self._poll(timeout_ms)
        finally:
            self._polls -= 1
            self.last_poll_ms = self._uptime_ms()

    @property
    def is_polling(self) -> bool:
        """Whether the program is waiting in a poll."""
        return self._polls > 0

    async def _poll(self, timeout_ms: int) -> list[ReceivedMessage]:
        uptime_ms = self._uptime_ms()
        self.offsets.poll_begins()
        if self._auto_commit_ms is not None and uptime_ms >= self._commit_due_ms:
            self._commit_due_ms = uptime_ms + self._auto_commit_ms
            self.offsets.note_done()
        end_ms = UptimeMs(uptime_ms + timeout_ms)
        while (batch := self.buffer.take()) is None:
            left_ms = end_ms - self._uptime_ms()
            if left_ms <= 0 or self.state.is_over:
                return []
            await self.buffer.wait(left_ms / 1000)
        queue, messages = batch
        polled = list(messages)
        self.held.driver.carry_out(queue, queue.done(polled, self._uptime_ms()))
        if self._is_hooked:
            call = ConsumeCall(self.state.group, queue.queue, polled)
            self.state.hooks.call("before_consume", call)
            self.state.hooks.consumed(call, ConsumeStatus.CONSUME_SUCCESS, None, self.state.limits.consume_timeout_ms)
        return polled

    # -- moving --------------------------------------------------------------------------------------------------

    async def choose(self, queues: list[MessageQueue]) -> None:
        """Own exactly these queues, as far as they can be taken now."""
        for queue in [queue for queue in self.state.paused if queue not in queues]:
            del self.state.paused[queue]
        self.assigned.choose(queues)
        if not await self.assigned.rebalance():
            self.membership.try_again()

    async def limits(self, queue: MessageQueue) -> tuple[int, int]:
        """Return the offset range of one of the queues: its oldest offset, and that of its next message.

        Raises: ClientError, BrokerAnswer, NetworkError.
        """
        self.check([queue])
        low = await self.questions.min_offset(queue)
        high = await self.questions.max_offset(queue)
        if self.held.find(queue) is None:
            await self.assigned.rebalance()
        return low, high

    def go_to(self, queue: MessageQueue, queue_offset: int) -> None:
        """Continue at another offset in a queue; its prefetched messages are discarded. Raises: ClientError."""
        self.check([queue])
        if not self.held.restart(queue, queue_offset):
            raise ClientError(f"{queue} is assigned, but its consumption couldn't start yet: see the log")
        self.offsets.update(queue, queue_offset)

    def filter_anew(self, topic: str) -> None:
        """Pull prefetched messages again, because the subscription has changed."""
        for queue in self.held.queues:
            held = self.held.find(queue)
            if held is not None and not held.is_dropped and queue.topic == topic:
                smallest = held.cache.smallest_offset
                self.held.restart(queue, held.cache.next_offset if smallest is None else smallest, held.start_offset)

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Stop pulling some of the queues. Raises: ClientError."""
        for queue in self.check(queues):
            self.state.paused[queue] = None

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Pull these queues again. Raises: ClientError."""
        for queue in self.check(queues):
            if queue in self.state.paused:
                del self.state.paused[queue]
                self.held.hurry(queue)

    def _queues_changed(self, topic: str, _: list[MessageQueue], own: list[MessageQueue]) -> None:
        """End the pause of a lost queue: if it is owned again, it starts unpaused."""
        for queue in [queue for queue in self.state.paused if queue.topic == topic and queue not in own]:
            del self.state.paused[queue]

    def check(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Return the queues, after a check that all are assigned now. Raises: ClientError."""
        given, assigned = list(dict.fromkeys(queues)), self.assigned.queues
        for queue in given:
            if queue not in assigned:
                now = "" if self.assigned.is_chosen else " now; queues are reassigned when a member joins or leaves"
                raise ClientError(f"{queue} isn't assigned to this consumer of {self.state.group}{now}")
        return given

    # -- committing ----------------------------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[MessageQueue, int] | Iterable[MessageQueue] | None, persist: bool) -> None:
        """Commit what was polled: of all queues, of some, or these offsets.

        Raises: ClientError, BrokerAnswer, NetworkError.
        """
        wanted = self.offsets.uncommitted()
        if isinstance(offsets, Mapping):
            self.check(offsets)
            wanted = dict(offsets)
        elif offsets is not None:
            wanted = {queue: wanted[queue] for queue in self.check(offsets) if queue in wanted}
        below = {str(queue): queue_offset for queue, queue_offset in wanted.items() if queue_offset < 0}
        if below:
            raise ClientError(f"{self.state.group} can't commit offsets below 0: {below}")
        self.offsets.note(wanted)
        if persist:
            await self.offsets.store(list(wanted))

    async def leave(self, is_failing: bool) -> None:
        """Stop pulling, store offsets, unregister. `is_failing`: the messages of the last poll aren't done."""
        self.membership.stop_pulling()
        try:
            await self.buffer.leave()
            if not is_failing:
                self.offsets.poll_begins()
            await self.held.leave()
        finally:
            unregistered = self.membership.leave()
        await unregistered
