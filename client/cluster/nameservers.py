"""A client's nameservers, which it queries one at a time. RocketMQ: NettyRemotingClient.

The client keeps using a nameserver that responds. If it doesn't respond, the next of the list is queried, and so on,
once round. It starts at a random one, so that many clients spread over the list. While there are others, a nameserver
has one second to respond (RocketMQ: the whole timeout, so if a nameserver hangs, the first message of a topic is late).

Nameservers don't exchange data. One that has just started, or that a broker can't reach, knows fewer topics. So "no
route" is accepted only if all nameservers that respond agree (RocketMQ: if one says so).
"""

from collections.abc import Iterator, Sequence
from random import Random

from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer, Request
from staticfire.protocol.errors import ConnectFailed, NetworkError
from staticfire.protocol.requests.routes import ClusterInfoAnswer, GetClusterInfo, GetRoute
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.addresses import format_address, parse_addresses
from staticfire.runtime.machine import Clock
from staticfire.runtime.pool import ConnectionPool

OF_ANY_NAMESERVER = (GetRoute, GetClusterInfo)

# After this time without a response the next one is queried.
FAILOVER_MS = 1_000

IS_ONE_RUNNING = "check that one is running there; `staticfire up` starts a cluster"
# How long a silent nameserver isn't queried for a second opinion.
QUIET_MS = 30_000


class Nameservers:
    """A list of nameservers, and the one in use."""

    def __init__(
        self, namesrv: str | Sequence[str], pool: ConnectionPool, random: Random, clock: Clock, timeout_ms: int
    ) -> None:
        """`namesrv`: addresses separated by semicolons or commas, or a list. Raises: UsageError."""
        text = namesrv if isinstance(namesrv, str) else ";".join(namesrv)
        addresses = [format_address(*address) for address in parse_addresses(text)]
        self.addresses = list(dict.fromkeys(addresses))
        self._pool = pool
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._chosen = random.randrange(len(self.addresses))
        self._quiet_until_ms: dict[str, UptimeMs] = {}

    @property
    def chosen(self) -> str:
        """The one that responded last, or the one to query first."""
        return self.addresses[self._chosen]

    def __str__(self) -> str:
        return ";".join(self.addresses)

    async def ask(self, request: Request, timeout_ms: int | None = None) -> Answer:
        """Return the first response; error responses count. Raises: ConnectFailed if none responds."""
        failures: list[str] = []
        limit_ms = timeout_ms or self._timeout_ms
        for address, is_last in self._in_turn():
            patience_ms = limit_ms if is_last else min(limit_ms, FAILOVER_MS)
            answer = await self._ask_one(address, request, patience_ms, failures)
            if answer is None:
                continue
            self._chosen = self.addresses.index(address)
            if _has_no_news(answer, request):
                return await self._known_to_others(address, request, min(limit_ms, FAILOVER_MS)) or answer
            return answer
        hint = "" if any("TLS" in failure for failure in failures) else f": {IS_ONE_RUNNING}"
        raise ConnectFailed(f"no nameserver responds ({'; '.join(failures)}){hint}")

    def _in_turn(self) -> Iterator[tuple[str, bool]]:
        """Yield the addresses, from the chosen one on, each with whether it is the last."""
        first, count = self._chosen, len(self.addresses)
        for step in range(count):
            yield self.addresses[(first + step) % count], step == count - 1

    async def _ask_one(self, address: str, request: Request, timeout_ms: int, failures: list[str]) -> Answer | None:
        """Return its response; if there is none, add to `failures` and return None."""
        try:
            answer = await self._pool.ask(address, request, timeout_ms)
        except NetworkError as error:
            self._quiet_until_ms[address] = UptimeMs(self._clock.uptime_ms() + QUIET_MS)
            failures.append(str(error))
            return None
        self._quiet_until_ms.pop(address, None)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and isinstance(request, OF_ANY_NAMESERVER):
            failures.append(f"the program at {address} is not a nameserver; it may be a broker")
            return None
        return answer

    async def _known_to_others(self, tried: str, request: Request, timeout_ms: int) -> Answer | None:
        """Return the response of another nameserver that has the data; None if there is none."""
        for address, _ in self._in_turn():
            if address == tried or self._quiet_until_ms.get(address, 0) > self._clock.uptime_ms():
                continue
            answer = await self._ask_one(address, request, timeout_ms, [])
            if answer is not None and answer.code == ResponseCode.SUCCESS and not _has_no_news(answer, request):
                return answer
        return None


def _has_no_news(answer: Answer, request: Request) -> bool:
    """Whether a response contains no route (unknown, or the nameserver isn't ready), or no brokers at all."""
    if isinstance(request, GetRoute):
        return answer.code != ResponseCode.SUCCESS
    is_list = isinstance(request, GetClusterInfo) and isinstance(answer, ClusterInfoAnswer)
    return is_list and not answer.body.broker_addr_table
