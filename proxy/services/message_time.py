"""Message time, as the nameserver keeps it: receipts expire by it. It can be frozen, moved and scaled.

A reading is used for a second, or until the nameserver sends the next one because the clock was moved: so what expires
by an advance has expired when the advance ends. A nameserver that doesn't answer at once delays no request for long:
the time is computed from the last reading then.
"""

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.protocol.clock_face import ClockFace
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import SUCCESS, Answer
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.requests.clock import WATCH, Clock, ClockAnswer, ClockMoved, ClockReading
from staticfire.protocol.times import MessageMs
from staticfire.runtime.dispatcher import Call
from staticfire.runtime.log import logger

log = logger("proxy")

BELIEVED_MS = 1_000
TIMEOUT_MS = 500


class MessageTime:
    """The cluster's message time. If no nameserver keeps one, as with RocketMQ's, it is the wall clock."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._face = ClockFace()
        self._read_ms: int = -BELIEVED_MS
        self._moves = 0
        client.dispatcher.handle(RequestCode.CLOCK_MOVED, self._moved)

    async def now_ms(self) -> MessageMs:
        """Return the time, computed from the last reading if that is recent enough."""
        if self._client.machine.clock.uptime_ms() - self._read_ms >= BELIEVED_MS:
            return await self.read()
        return self._shown()

    def _shown(self) -> MessageMs:
        return self._face.at(self._client.machine.clock.wall_ms())

    async def read(self) -> MessageMs:
        """Read the time from the nameserver and return it."""
        client, moves = self._client, self._moves
        self._read_ms = client.machine.clock.uptime_ms()
        try:
            address = client.nameservers.addresses[0]
            answer = await client.pool.ask(address, Clock(WATCH), TIMEOUT_MS)
        except StaticfireError as error:
            log.debug("message_time_unknown", reason=str(error))
            return self._shown()
        # The clock may have been moved after the nameserver responded, but before this task continues.
        if isinstance(answer, ClockAnswer) and answer.code == SUCCESS and moves == self._moves:
            self._show(answer)
        return self._shown()

    def _moved(self, call: Call) -> Answer:
        self._moves += 1
        self._show(call.request)
        return Answer()

    def _show(self, shown: ClockAnswer | ClockMoved) -> None:
        reading = ClockReading(shown.epoch, shown.mode, shown.rate, shown.message_ms)
        self._face = ClockFace.showing(reading, self._client.machine.clock.wall_ms())
