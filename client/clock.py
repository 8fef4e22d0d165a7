"""Message time, read and moved through the nameserver. staticfire's own; Apache RocketMQ has nothing like it."""

from staticfire.client.cluster_client import ClusterClient
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import ClientError, broker_answer
from staticfire.protocol.requests.clock import ADVANCE, FREEZE, NOW, RUN, SCALE, SKIP, Clock, ClockAnswer

TIMEOUT_MS = 10_000
ADVANCE_TIMEOUT_MS = 3_600_000
# An advance ends with rest or with NotAtRest, by itself.


class ClusterClock:
    """The clock of a cluster. Everything raises BrokerAnswer (refused) and NetworkError (nobody answers)."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    async def now(self) -> ClockAnswer:
        """Return what it shows."""
        return await self._ask(Clock(NOW))

    async def freeze(self) -> ClockAnswer:
        """Let time stand."""
        return await self._ask(Clock(FREEZE))

    async def run(self) -> ClockAnswer:
        """Let time run at its usual pace."""
        return await self._ask(Clock(RUN))

    async def scale(self, rate: float) -> ClockAnswer:
        """Let time run that many times faster."""
        return await self._ask(Clock(SCALE, rate=rate))

    async def skip(self) -> ClockAnswer:
        """Let time skip to whatever falls due next, as soon as the cluster is at rest."""
        return await self._ask(Clock(SKIP))

    async def advance(
        self, by_ms: int | None = None, to_ms: int | None = None, settle_ms_max: int | None = None
    ) -> ClockAnswer:
        """Jump; return when everything that fell due on the way is consumed. Raises: NotAtRest."""
        request = Clock(ADVANCE, by_ms=by_ms, to_ms=to_ms, settle_ms_max=settle_ms_max)
        return await self._ask(request, ADVANCE_TIMEOUT_MS)

    async def _ask(self, request: Clock, timeout_ms: int = TIMEOUT_MS) -> ClockAnswer:
        answer = await self._client.nameservers.ask(request, timeout_ms)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            chosen = self._client.nameservers.chosen
            raise ClientError(f"the nameserver {chosen} isn't staticfire's: message time is staticfire's own")
        if answer.code != SUCCESS or not isinstance(answer, ClockAnswer):
            raise broker_answer(answer.code, answer.remark, f"clock {request.action}")
        return answer
