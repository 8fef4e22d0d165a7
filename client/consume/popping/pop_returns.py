"""Popped messages that nobody consumes now: put off, put back, buried. `pop_policy.py` says which."""

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
UNBURIED_MS = 10_000
# When a message comes again that no broker would take as a dead letter.


class PopReturns:
    """Those of one consumer."""

    def __init__(
        self,
        group: str,
        settings: PushSettings,
        clock: Clock,
        acknowledging: Acknowledging,
        bury: Callable[[ReceivedMessage], Awaitable[None]],
        ignores_spent: bool,
    ) -> None:
        """`bury`: puts a message to the group's dead letters. Raises: StaticfireError.

        `ignores_spent`: brokers do nothing for a message that has been redelivered since, as ours. RocketMQ's would
        redeliver it once more.
        """
        self._group = group
        self._settings = settings
        self._clock = clock
        self._acknowledging = acknowledging
        self._bury = bury
        self._ignores_spent = ignores_spent

    async def give_back(self, message: ReceivedMessage, delay_level: int) -> None:
        """Do what is to be done about a message whose listener has failed. Raises: StaticfireError."""
        assert isinstance(message, PoppedMessage)
        clock = self._clock
        verdict = judge_failed(message, delay_level, self._settings, clock.wall_ms(), clock.uptime_ms())
        if isinstance(verdict, PutOff):
            await self._acknowledging.change(message, verdict.invisible_ms)
        elif isinstance(verdict, Bury):
            await self._buried(message)
        elif isinstance(verdict, Acknowledge):
            log.warning("message_dropped", group=self._group, message_id=message.message_id, reason="tried for hours")
            await self._acknowledging.ack(message)
        else:
            await self.put_back(message)

    async def _buried(self, message: PoppedMessage) -> None:
        """Raises: StaticfireError: then the message comes again, since it isn't acknowledged."""
        try:
            await self._bury(message)
        except StaticfireError as error:
            log.warning("message_not_buried", group=self._group, message_id=message.message_id, reason=str(error))
            await self._acknowledging.change(message, UNBURIED_MS)
        else:
            await self._acknowledging.ack(message)

    async def give_up(self, message: PoppedMessage) -> None:
        """Do what is to be done about a message that came once more than it may. Raises: StaticfireError."""
        if self._settings.pop_dead_letters:
            await self._buried(message)
        else:
            log.warning("message_dropped", group=self._group, message_id=message.message_id, reason="failed too often")
            await self._acknowledging.ack(message)

    async def put_back(self, message: PoppedMessage) -> None:
        """Let a message be redelivered at once, unless it has been. Raises: StaticfireError.

        Its invisible time is message time. While that is frozen it isn't over, however long the message was here.
        """
        if self._ignores_spent or self._clock.uptime_ms() < message.invisible_until_ms:
            await self._acknowledging.change(message, AT_ONCE_MS)
