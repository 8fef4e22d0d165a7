"""Which broker decides about a call: the first one that responds, in the order of their addresses.

A broker that doesn't respond within PATIENCE_MS, because it is frozen or unreachable, delays no other call: until its
request has ended, the others are queried first. Each response that comes of a check counts at once. That access isn't
checked counts only when each broker before has failed: a slow one may check it.
"""

import asyncio

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS, Answer
from staticfire.protocol.errors import ConnectFailed, NetworkError
from staticfire.protocol.requests.access import JudgeAnswer, JudgeCall
from staticfire.protocol.requests.routes import MASTER_ID, ClusterInfoAnswer, GetClusterInfo
from staticfire.proxy.services.background import retrieved

TIMEOUT_MS = 3_000
PATIENCE_MS = 100
"""For how long a call waits for one broker before it asks the next one, too."""


class JudgingBrokers:
    """Requests decisions about calls from brokers."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._slow: dict[str, asyncio.Task[Answer]] = {}
        """By address: the request that a broker hasn't answered in time."""

    async def ask(self, request: JudgeCall, has_judged: bool) -> Answer | None:
        """Return the response of a broker; None if none is reached, and none has judged before (`has_judged`).

        A broker that is reached but doesn't respond, because it is frozen or busy, may judge, and may handle the call
        later: then the call is refused. Raises: NetworkError.
        """
        lost: NetworkError | None = None
        is_reached, unchecked = has_judged, None
        late: list[tuple[str, asyncio.Task[Answer] | None]] = []
        addresses = await self._masters()
        for address in addresses:
            if address in self._slow and len(addresses) > 1:
                late.append((address, None))
                continue
            task = self._begin(address, request)
            await asyncio.wait([task], timeout=PATIENCE_MS / 1000)
            if not task.done():
                self._note_slow(address, task)
                late.append((address, task))
                continue
            try:
                answer = task.result()
            except NetworkError as error:
                lost, is_reached = error, is_reached or not isinstance(error, ConnectFailed)
                continue
            if not late or _is_of_a_check(answer):
                return answer
            unchecked = unchecked or answer
        for address, begun in late:
            try:
                return await asyncio.shield(begun or self._begin(address, request))
            except NetworkError as error:
                lost, is_reached = error, is_reached or not isinstance(error, ConnectFailed)
        if unchecked is None and is_reached:
            raise lost or NetworkError("no broker can be reached to check the client's access")
        return unchecked

    def _begin(self, address: str, request: JudgeCall) -> "asyncio.Task[Answer]":
        """Send the request in a task that continues when the call no longer waits for it; it ends after TIMEOUT_MS."""
        task = asyncio.get_running_loop().create_task(self._client.pool.ask(address, request, TIMEOUT_MS))
        task.add_done_callback(retrieved)
        return task

    def _note_slow(self, address: str, task: "asyncio.Task[Answer]") -> None:
        def ended(_: object) -> None:
            if self._slow.get(address) is task:
                del self._slow[address]

        self._slow[address] = task
        task.add_done_callback(ended)

    async def _masters(self) -> list[str]:
        """Return the addresses of brokers: those of known routes, otherwise those that the nameserver has."""
        known = [replicas[MASTER_ID] for replicas in self._client.routes.addresses.values() if MASTER_ID in replicas]
        if known:
            return sorted(known)
        try:
            answer = await self._client.nameservers.ask(GetClusterInfo())
        except NetworkError:
            return []
        if not isinstance(answer, ClusterInfoAnswer) or answer.body is None:
            return []
        brokers = answer.body.broker_addr_table.values()
        return sorted(one.broker_addrs[MASTER_ID] for one in brokers if MASTER_ID in one.broker_addrs)


def _is_of_a_check(answer: Answer) -> bool:
    """Return whether a broker has checked the call: it permits it, or refuses it."""
    if answer.code == SUCCESS:
        return isinstance(answer, JudgeAnswer) and answer.is_judging
    return answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED
