"""The messages of one broker that wait: for a delay level, for a time of their own, for the end of a transaction."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from staticfire.broker.delay.service import DelayService
from staticfire.broker.timers.service import TimerService
from staticfire.broker.transactions.service import TransactionService
from staticfire.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC
from staticfire.runtime.log import logger
from staticfire.runtime.service import Pause, Spawn

log = logger("broker")


class WaitingMessages(NamedTuple):
    """The services whose messages wait."""

    delays: DelayService
    timers: TimerService
    transactions: TransactionService

    def restore(self, delay_queues: int) -> None:
        """Find what waits. `delay_queues`: the number of queues of the schedule topic. Raises: StorageError."""
        self.delays.restore(delay_queues)
        self.timers.restore()
        self.transactions.restore()

    def start(self, spawn: Spawn, pause: Pause) -> None:
        """Start to deliver and to check."""
        self.delays.start(spawn)
        self.timers.start(spawn, pause)
        self.transactions.start(spawn, pause)

    async def stop(self) -> None:
        """Stop delivering and checking."""
        await self.delays.stop()
        await self.timers.stop()
        await self.transactions.stop()

    def keep_within_bounds(self) -> None:
        """Adjust delays and timers after retention has removed records; log the messages that are lost."""
        words = "the disk was too full to keep the log that contains them; see diskSpaceCleanForciblyRatio"
        if by_level := self.delays.keep_within_bounds():
            log.error("delayed_messages_lost", by_level=by_level, reason=words)
        if timers := self.timers.keep_within_bounds():
            log.error("timers_lost", messages=timers, reason=words)

    def first_position(self) -> int | None:
        """Return the log position of the oldest waiting message; None if none waits. Raises: StorageError."""
        positions = [
            self.delays.first_waiting_position(),
            self.timers.first_waiting_position(),
            self.transactions.first_waiting_position(),
        ]
        return min((position for position in positions if position is not None), default=None)

    def forgetting(self) -> dict[str, Callable[[], None]]:
        """Return what to call when all messages of a topic are removed, by topic."""
        return {
            SCHEDULE_TOPIC: self.delays.forget,
            HALF_TOPIC: self.transactions.forget,
            WHEEL_TIMER_TOPIC: self.timers.forget,
        }

    def places(self) -> dict[str, Iterator[tuple[int, int]]]:
        """Return due time and log position of each waiting message, by the reason why it waits."""
        return {
            "level": self.delays.waiting_places(),
            "timer": self.timers.waiting_places(),
            "transaction": self.transactions.waiting_places(),
        }

    @property
    def timing(self) -> int:
        """The number of messages that wait for a time."""
        return len(self.delays) + len(self.timers)

    @property
    def half(self) -> int:
        """The number of open half messages."""
        return len(self.transactions)
