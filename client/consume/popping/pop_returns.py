"""Popped messages that aren't consumed now: delayed, put back, or moved to dead letters, as `pop_policy.py` decides."""

from collections.abc import Awaitable, Callable

from staticfire.client.consume.popping.pop_policy import Acknowledge, Bury, PutOff, judge_failed
from staticfire.client.pop.acknowledging import Acknowledging
from staticfire.client.pop.popped import PoppedMessage
from staticfire.client.settings.push_settings import PushSettings
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.messages import ReceivedMessage
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Clock

log = logger("client")

AT_ONCE_MS = 0
# The pause before the redelivery of a message that no broker accepted as a dead letter.
UNBURIED_MS = 10_000


class PopReturns:
    """Returns the popped messages of one consumer."""

    def __init__(
        self,
        group: str,
        settings: PushSettings,
        clock: Clock,
        acknowledging: Acknowledging,
        bury: Callable[[ReceivedMessage], Awaitable[None]],
        ignores_spent: bool,
    ) -> None:
        """`bury`: moves a message to the group's dead letters. Raises: StaticfireError.

        `ignores_spent`: brokers do nothing for a message that was redelivered meanwhile, as ours do. RocketMQ's would
        redeliver it once more.
        """
        self._group = group
        self._settings = settings
        self._clock = clock
        self._acknowledging = acknowledging
        self._bury = bury
        self._ignores_spent = ignores_spent

    async def give_back(self, message: ReceivedMessage, delay_level: int) -> None:
        """Process a message whose listener failed. Raises: StaticfireError."""
        assert isinstance(message, PoppedMessage)
        clock = self._clock
        verdict = judge_failed(message, delay_level, self._settings, clock.wall_ms(), clock.uptime_ms())
        if isinstance(verdict, PutOff):
            await self._acknowledging.change(message, verdict.invisible_ms)
        elif isinstance(verdict, Bury):
            await self._buried(message)
        elif isinstance(verdict, Acknowledge):
            log.warning("message_dropped", group=self._group, message_id=message.message_id, reason="retried for hours")
            await self._acknowledging.ack(message)
        else:
            await self.put_back(message)

    async def _buried(self, message: PoppedMessage) -> None:
        """Move a message to the dead letters. If that fails, it isn't acknowledged and so is redelivered.

        Raises: StaticfireError.
        """
        try:
            await self._bury(message)
        except StaticfireError as error:
            log.warning("message_not_buried", group=self._group, message_id=message.message_id, reason=str(error))
            await self._acknowledging.change(message, UNBURIED_MS)
        else:
            await self._acknowledging.ack(message)

    async def give_up(self, message: PoppedMessage) -> None:
        """Process a message that was redelivered too often. Raises: StaticfireError."""
        if self._settings.pop_dead_letters:
            await self._buried(message)
        else:
            log.warning("message_dropped", group=self._group, message_id=message.message_id, reason="failed too often")
            await self._acknowledging.ack(message)

    async def put_back(self, message: PoppedMessage) -> None:
        """Make a message visible again at once, unless it already is. Raises: StaticfireError.

        Its invisible time is in message time. While that is frozen it doesn't end, however long the message was here.
        """
        if self._ignores_spent or self._clock.uptime_ms() < message.invisible_until_ms:
            await self._acknowledging.change(message, AT_ONCE_MS)
