"""The brokers that follow a clock: requests to all of them, and those that are away for a moment.

A move waits for a broker whose connection was lost, because that broker may be restarting. Which brokers these are is
counted from the beginning of the move. The owner of the clock decides how long it waits.
"""

import asyncio

from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer, Request
from staticfire.protocol.errors import NetworkError, ProtocolError
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Clock

log = logger("nameserver")

TIMEOUT_MS = 10_000
# The timeout for a broker that didn't respond the last time.
SILENT_TIMEOUT_MS = 1_000
# The number of lost brokers that are remembered, newest last. No cluster of a test has as many.
LOST_MAX = 1_000


class FollowingBrokers:
    """The brokers that follow a clock, by the connection that each registered on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._names: dict[Connection, str] = {}
        self._silent: set[str] = set()
        """The brokers that didn't respond the last time."""
        self._lost: dict[str, UptimeMs] = {}
        """The brokers whose connections were lost and that haven't come back, and when that was."""

    def __bool__(self) -> bool:
        return bool(self._names)

    def add(self, connection: Connection, name: str) -> None:
        """Add a broker, or another connection of one."""
        self._names[connection] = name
        self._lost.pop(name, None)

    def remove(self, connection: Connection) -> None:
        """Remove the broker of a lost connection, if there is one, and remember it as lost."""
        name = self._names.pop(connection, None)
        if name is not None and name not in self._names.values():
            self._lost[name] = self._clock.uptime_ms()
            if len(self._lost) > LOST_MAX:
                del self._lost[next(iter(self._lost))]

    @property
    def lost(self) -> list[str]:
        """The names of the brokers that were lost and may come back."""
        return sorted(self._lost)

    def begin_move(self) -> None:
        """Forget the brokers that were lost before: the move begins without them."""
        self._lost.clear()

    def forget_lost(self, away_ms: int) -> None:
        """Don't wait any longer for brokers that have been away that long: most likely they have left for good."""
        now_ms = self._clock.uptime_ms()
        for name in [name for name, lost_ms in self._lost.items() if now_ms - lost_ms >= away_ms]:
            del self._lost[name]
            log.warning("skips_without_broker", broker=name, away_ms=away_ms)

    async def ask_all(self, request: Request, waits_ms: int = 0) -> dict[str, Answer]:
        """Send a request to every broker. One that is lost meanwhile counts as refusing; registering gives it the
        clock.

        `waits_ms`: how long a broker may wait before it responds.
        """
        by_name = {name: connection for connection, name in self._names.items()}
        answers = await asyncio.gather(*(self._ask(name, by_name[name], request, waits_ms) for name in by_name))
        return dict(zip(by_name, answers, strict=True))

    async def _ask(self, name: str, connection: Connection, request: Request, waits_ms: int) -> Answer:
        answers_in_ms = SILENT_TIMEOUT_MS if name in self._silent else TIMEOUT_MS
        try:
            answer = await connection.ask(request, waits_ms + answers_in_ms)
        except (NetworkError, ProtocolError) as error:
            self._silent.add(name)
            return Answer(code=int(ResponseCode.SYSTEM_ERROR), remark=str(error))
        self._silent.discard(name)
        if answer.code != ResponseCode.SUCCESS:
            log.warning("clock_refused", broker=name, code=answer.code, remark=answer.remark)
        return answer
