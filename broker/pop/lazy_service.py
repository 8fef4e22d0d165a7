"""The interface of POP for the rest of the broker.

The other modules are imported at the first pop, or at the start if there were pops before.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from staticfire.broker.groups.dead_letters import DeadLetters
from staticfire.broker.state import BrokerState
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer
from staticfire.protocol.names import revive_topic
from staticfire.protocol.requests.clock import Unrest
from staticfire.protocol.requests.group_state import PoppedState
from staticfire.protocol.times import MessageMs
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Call, Dispatcher
from staticfire.runtime.service import Pause, Spawn

if TYPE_CHECKING:
    from staticfire.broker.pop.service import PopService
    from staticfire.broker.pop.tables import PopTables

Handler = Callable[[Call], Answer | None]


class LazyPopService:
    """POP of one broker, in use or not."""

    def __init__(
        self,
        state: BrokerState,
        make_tables: Callable[[str], "PopTables"],
        dead_letters: DeadLetters,
        settle: Callable[[], None],
        spawn: Spawn,
        pause: Pause,
    ) -> None:
        """`make_tables` makes the tables, for a topic of the events. `settle` writes the burst.

        `spawn` and `pause` are the broker's, for loops.
        """
        self._store = state.store
        self._make_tables = make_tables
        self._dead_letters = dead_letters
        self._settle = settle
        self._topic = revive_topic(state.settings.broker_cluster_name)
        self._spawn = spawn
        self._pause = pause
        self._is_started = False
        self.service: PopService | None = None
        """None until the first request of POP."""

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        for code, handler in (
            (RequestCode.POP_MESSAGE, lambda call: self._in_use().pops.pop(call)),
            (RequestCode.CANCEL_POP, lambda call: self._in_use().pops.cancel(call)),
            (RequestCode.PEEK_MESSAGE, lambda call: self._in_use().pops.peek(call)),
            (RequestCode.NOTIFICATION, lambda call: self._in_use().pops.notification(call)),
            (RequestCode.POLLING_INFO, lambda call: self._in_use().pops.polling_info(call)),
            (RequestCode.POP_ROLLBACK, lambda call: self._in_use().pops.rollback(call)),
            (RequestCode.ACK_MESSAGE, lambda call: self._in_use().acks.ack(call)),
            (RequestCode.BATCH_ACK_MESSAGE, lambda call: self._in_use().acks.batch_ack(call)),
            (RequestCode.CHANGE_MESSAGE_INVISIBLETIME, lambda call: self._in_use().acks.change(call)),
        ):
            dispatcher.handle(code, handler)

    def _in_use(self) -> "PopService":
        service = self.service
        if service is None:
            from staticfire.broker.pop.service import PopService  # imported here: most brokers never need it

            service = self.service = PopService(self._make_tables(self._topic), self._dead_letters, self._settle)
            if self._is_started:
                service.start(self._spawn, self._pause)
        return service

    # -- start and stop ------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Restore what was popped before. Raises: StorageError."""
        if self._store.queue(self._topic, 0).max_offset > 0:
            self._in_use().restore()

    def start(self) -> None:
        """Start the loops, or let the first request start them."""
        self._is_started = True
        if self.service is not None:
            self.service.start(self._spawn, self._pause)

    async def stop(self) -> None:
        """Stop the loops."""
        if self.service is not None:
            await self.service.stop()

    def answer_held(self) -> None:
        """Answer the held requests: the broker stops."""
        if self.service is not None:
            self.service.holding.end_all()
            self._settle()

    # -- while running -------------------------------------------------------------------------------------------

    def next_due_ms(self) -> MessageMs | None:
        """Return when the next invisible time is over."""
        return None if self.service is None else self.service.next_due_ms()

    async def return_until(self, message_ms: MessageMs) -> int:
        """Redeliver all messages that are due by then; return how many. Raises: StorageError."""
        return 0 if self.service is None else await self.service.return_until(message_ms)

    def works_until_ms(self) -> MessageMs | None:
        """Return the limit for a skipping clock: until then a connected client has messages. None for no limit."""
        return None if self.service is None else self.service.works_until_ms()

    def unrest(self) -> list[Unrest]:
        """Return which popped messages are still being consumed."""
        return [] if self.service is None else list(self.service.unrest())

    def taken_by(self, group: str) -> list[PoppedState]:
        """Return what a group has popped, not in order, and not acknowledged."""
        return [] if self.service is None else list(self.service.taken_by(group))

    def taken_in_order(self, group: str) -> list[PoppedState]:
        """Return what a group has popped in order and not acknowledged."""
        return [] if self.service is None else list(self.service.taken_in_order(group))

    def in_flight(self, group: str, topic: str, queue_id: int) -> tuple[int, int]:
        """Return how many messages of a queue a group has popped and not acknowledged: not in order, and in order.

        The group's offset is after the messages of the first number, and before those of the second.
        """
        return (0, 0) if self.service is None else self.service.in_flight(group, topic, queue_id)

    def disconnected(self, connection: Connection) -> None:
        """Handle the loss of a connection."""
        if self.service is not None:
            self.service.disconnected(connection)

    def group_moved(self, group: str, topic: str) -> None:
        """Try the held pops of a group again after a reset: there may be messages for them now."""
        if self.service is not None:
            self.service.holding.wake_group(topic, group)
            self._settle()

    def forget_topic(self, topic: str) -> None:
        """Remove the data of a deleted topic."""
        if self.service is not None:
            self.service.forget_topic(topic)

    def forget_group(self, group: str) -> None:
        """Remove the data of a deleted group."""
        if self.service is not None:
            self.service.forget_group(group)
