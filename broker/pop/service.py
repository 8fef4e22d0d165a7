"""POP at one broker: its parts, and the loops that run them."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

from staticfire.broker.clock.due_loop import DueLoop
from staticfire.broker.clock.quiescence import PUSH
from staticfire.broker.groups.dead_letters import DeadLetters
from staticfire.broker.handlers.acks import AckHandlers
from staticfire.broker.handlers.pop import PopHandlers
from staticfire.broker.pop.events import GroupQueue, OrderState
from staticfire.broker.pop.in_flight import GIVEN_BACK, NEVER_MS, POP_MS_MAX, CheckPoint, joined_runs
from staticfire.broker.pop.orders import UNUSED_MS_MAX, is_blocked, visible_again
from staticfire.broker.pop.recovery import PopRecovery
from staticfire.broker.pop.returning import Returner
from staticfire.broker.pop.tables import PopTables
from staticfire.broker.store.consume_queue import Queue
from staticfire.protocol.names import requested_topic
from staticfire.protocol.requests.clock import Unrest
from staticfire.protocol.requests.group_state import OFFSET_RUNS_MAX, PoppedState
from staticfire.protocol.times import MessageMs
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger
from staticfire.runtime.service import Pause, Spawn

log = logger("broker")

RETRY_MS = 100
UPKEEP_MS = 1_000
UPKEEPS_PER_CLEANING = 60


class PopService:
    """Combines the parts of POP: popped messages, waiting requests and redelivery."""

    def __init__(self, tables: PopTables, dead_letters: DeadLetters, settle: Callable[[], None]) -> None:
        """`settle` writes the burst."""
        self._state = state = tables.state
        self._tables = tables
        self.log = tables.log
        self._recovery = PopRecovery(tables, settle)
        self.pops = PopHandlers(tables, settle)
        self.holding = self.pops.holding
        self.acks = AckHandlers(tables, self.holding)
        self._returner = Returner(tables, dead_letters, settle, self._returned)
        self._settle = settle
        self._due = DueLoop(
            state.clock, self.next_due_ms, self.return_until, "pops_not_returned", RETRY_MS, acts_while_frozen=True
        )  # It also acts while message time is frozen: a message that is handed back is due at once.
        self._tasks: list[asyncio.Task[None]] = []

    # -- start and stop ------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Restore what is in flight. Raises: StorageError."""
        self._recovery.restore()
        self._tables.take_owners()
        if self._tables.in_flight.check_points:
            log.info("pops_in_flight", check_points=self._tables.in_flight.check_points, next_due_ms=self.next_due_ms())

    def start(self, spawn: Spawn, pause: Pause) -> None:
        """Start the loops."""
        self._tasks = [
            spawn(self._due.run(), "pops_due"),
            spawn(self.holding.loop(), "pops_held"),
            spawn(self._upkeep_loop(pause), "pops_upkeep"),
        ]

    async def stop(self) -> None:
        """Stop the loops."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- bursts --------------------------------------------------------------------------------------------------

    def settled(self, arrivals: Mapping[Queue, int]) -> bool:
        """Handle the end of a burst; return whether there is another burst to write now."""
        tables = self._tables
        self.holding.settled(arrivals)
        soonest_ms = min(tables.in_flight.take_soonest(), tables.orders.take_soonest())
        if soonest_ms != NEVER_MS:
            self._due.expect(soonest_ms)
        return self.log.has_work

    def _returned(self, group: str, topic: str) -> None:
        """Wake held pops because messages were copied to a retry topic, if the settings request it."""
        settings = self._state.settings
        if settings.wake_pops_of_returning or settings.enable_retry_topic_v2:
            for name in dict.fromkeys((topic, requested_topic(topic, group))):
                self.holding.wake_group(name, group)

    # -- due times -----------------------------------------------------------------------------------------------

    def next_due_ms(self) -> MessageMs | None:
        """Return when the next invisible time is over; None if none is in flight, or only such that never are.

        A client that wants a message for ever requests Long.MAX_VALUE, and a skipping clock must not go there.
        """
        dues = [self._tables.in_flight.next_due_ms(), self._tables.orders.next_due_ms()]
        known = [due for due in dues if due is not None and due <= POP_MS_MAX]
        return MessageMs(min(known)) if known else None

    async def return_until(self, message_ms: MessageMs) -> int:
        """Redeliver all messages that are due by then; return how many. Raises: StorageError."""
        returned = await self._returner.return_until(message_ms)
        while (free := self._tables.orders.take_due(message_ms)) is not None:
            place, state = free
            returned += len(state.offsets) - len(state.acked)
            self.holding.wake_queue(place)
        self._settle()
        return returned

    def works_until_ms(self) -> MessageMs | None:
        """Return when the first invisible time of a message ends that a connected client has; None if there is none.

        A skipping clock must not go further, because the client needs real time to consume the message.
        """
        tables = self._tables
        owned = chain(((one.due_ms, one.owner) for queue in tables.in_flight for one in queue), tables.orders.owned())
        dues = [due_ms for due_ms, owner in owned if tables.owners.connection(owner) is not None]
        return MessageMs(min(dues)) if dues else None

    def unrest(self) -> Iterator[Unrest]:
        """Yield the queues from which push consumers have messages that they are still consuming."""
        push_groups = self._tables.owners.push_groups()
        for queue in self._tables.in_flight:
            place = queue.place
            if not queue.check_points:
                continue
            online = self._tables.groups.consumers.consumer_table.get(place.group)
            is_push = online is not None and online.consume_type == PUSH
            if is_push or place.group in push_groups:
                yield from self._being_consumed(place, (one.owner for one in queue), not is_push)
        for place, state in self._tables.orders if push_groups else ():
            if place.group in push_groups:
                owners = (self._tables.orders.owner(place, offset) for offset in visible_again(state))
                yield from self._being_consumed(place, owners, True)

    def _being_consumed(self, place: GroupQueue, owners: Iterable[int], by_push_numbers: bool) -> Iterator[Unrest]:
        """Yield a queue if a connected client has messages of it and hasn't given them back.

        `by_push_numbers`: only the numbers that connections have for push consumers count.
        """
        table = self._tables.owners
        for owner in owners:
            client = table.connection(owner) if table.is_push(owner) or not by_push_numbers else None
            if client is not None:
                names = [client.client_id or client.peer.address]
                yield self._described(place, names, "messages are being consumed")
                return

    def taken_by(self, group: str) -> Iterator[PoppedState]:
        """Yield what a group has popped, not in order, and not acknowledged. What was given back is separate."""
        for queue in self._tables.in_flight:
            taken = list(queue) if queue.place.group == group else []
            for failed in (False, True):
                of_kind = [one for one in taken if (one.owner == GIVEN_BACK) is failed]
                if of_kind:
                    yield self._taken(queue.place, of_kind, failed)

    def _taken(self, place: GroupQueue, taken: list[CheckPoint], failed: bool) -> PoppedState:
        dues = [one.due_ms for one in taken]
        return PoppedState(
            place.topic, place.queue_id, sum(one.messages.bit_count() for one in taken),
            self._clients(one.owner for one in taken), min(one.pop_ms for one in taken), min(dues), max(dues),
            joined_runs(taken)[:OFFSET_RUNS_MAX], failed,
        )  # fmt: skip

    def taken_in_order(self, group: str) -> Iterator[PoppedState]:
        """Yield what a group has popped in order and not acknowledged, for each queue that waits for it."""
        now_ms = self._state.clock.message_ms()
        for place, state in self._tables.orders:
            if place.group == group and is_blocked(state, None, now_ms):
                yield self._taken_in_order(place, state)

    def _taken_in_order(self, place: GroupQueue, state: OrderState) -> PoppedState:
        left = visible_again(state)
        clients = self._clients(self._tables.orders.owner(place, offset) for offset in left)
        dues = left.values()
        return PoppedState(place.topic, place.queue_id, len(left), clients, state.pop_ms, min(dues), max(dues))

    def _clients(self, owners: Iterable[int]) -> list[str]:
        """Return the names of the clients with these numbers that are still connected."""
        found = map(self._tables.owners.connection, owners)
        return list(dict.fromkeys(one.client_id or one.peer.address for one in found if one is not None))

    def in_flight(self, group: str, topic: str, queue_id: int) -> tuple[int, int]:
        """Return how many messages of a queue a group has popped and not acknowledged: not in order, and in order."""
        queue = self._tables.in_flight.find(group, topic, queue_id)
        order = self._tables.orders.find(GroupQueue(group, topic, queue_id))
        in_order = 0
        if order is not None and is_blocked(order, None, self._state.clock.message_ms()):
            in_order = len(order.offsets) - len(order.acked)
        return 0 if queue is None else queue.count, in_order

    def _described(self, place: GroupQueue, clients: list[str], reason: str) -> Unrest:
        state = self._state
        committed = self._tables.groups.offsets.committed(place.group, place.topic, place.queue_id)
        end = state.store.queue(place.topic, place.queue_id).max_offset
        return Unrest(place.group, place.topic, place.queue_id, committed, committed, end, clients, reason)

    # -- upkeep --------------------------------------------------------------------------------------------------

    def disconnected(self, connection: Connection) -> None:
        """Handle the loss of a connection: its messages are redelivered when their invisible time is over."""
        self._tables.owners.forget(connection)
        self.holding.forget(connection)

    def forget_topic(self, topic: str) -> None:
        """Remove the data of a deleted topic. If it is the topic of the events, reset their count and the low water."""
        if topic == self.log.topic:
            self.log.low_water = self.log.events = 0
        self._tables.in_flight.forget_topic(topic)
        self._tables.orders.forget(lambda place: place.topic == topic)

    def forget_group(self, group: str) -> None:
        """Drop the order states of a deleted group. Its other check-points are dropped when they are due."""
        for place in self._tables.orders.forget(lambda place: place.group == group):
            self._tables.put_order(place, None)

    async def _upkeep_loop(self, pause: Pause) -> None:
        rounds = 0
        while True:
            await pause(UPKEEP_MS)
            await self._recovery.round_if_due(pause)
            rounds += 1
            if rounds % UPKEEPS_PER_CLEANING == 0:
                self._forget_unused()

    def _forget_unused(self) -> None:
        before_ms = self._state.clock.message_ms() - UNUSED_MS_MAX
        states = self._tables.orders
        for place, state in states:
            if state.used_ms < before_ms:
                self._tables.put_order(place, None)
        if self.log.has_work:
            self._settle()
