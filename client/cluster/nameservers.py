"""The nameservers of a client, of which one is asked at a time. RocketMQ: NettyRemotingClient.

The client sticks to a nameserver that answers; when it doesn't, the next of the list is asked, and so on once round.
Where it starts is random, so that many clients spread over the list.
"""

from collections.abc import Sequence
from random import Random

from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer, Request
from staticfire.protocol.errors import ConnectFailed, NetworkError
from staticfire.protocol.requests.routes import GetClusterInfo, GetRoute
from staticfire.runtime.addresses import format_address, parse_addresses
from staticfire.runtime.pool import ConnectionPool

OF_ANY_NAMESERVER = (GetRoute, GetClusterInfo)


class Nameservers:
    """A list of nameservers and the one in use."""

    def __init__(self, namesrv: str | Sequence[str], pool: ConnectionPool, random: Random, timeout_ms: int) -> None:
        """`namesrv`: addresses separated by semicolons or commas, or a list. Raises: UsageError."""
        text = namesrv if isinstance(namesrv, str) else ";".join(namesrv)
        self.addresses = [format_address(*address) for address in parse_addresses(text)]
        self._pool = pool
        self._timeout_ms = timeout_ms
        self._chosen = random.randrange(len(self.addresses))

    @property
    def chosen(self) -> str:
        """The one that answered last, or the one to ask first."""
        return self.addresses[self._chosen]

    def __str__(self) -> str:
        return ";".join(self.addresses)

    async def ask(self, request: Request, timeout_ms: int | None = None) -> Answer:
        """Return the first answer, refusals included. Raises: ConnectFailed when none of them answers."""
        failures = []
        first = self._chosen
        for step in range(len(self.addresses)):
            at = (first + step) % len(self.addresses)
            try:
                answer = await self._pool.ask(self.addresses[at], request, timeout_ms or self._timeout_ms)
            except NetworkError as error:
                failures.append(str(error))
                continue
            if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and isinstance(request, OF_ANY_NAMESERVER):
                failures.append(f"what listens at {self.addresses[at]} is no nameserver; a broker, perhaps")
                continue
            self._chosen = at
            return answer
        raise ConnectFailed(
            f"no nameserver answers ({'; '.join(failures)}): is one running there? `staticfire up` starts a cluster"
        )
