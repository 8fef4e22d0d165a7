"""Which broker decides about a call: the first one that responds; they are queried in the order of their addresses.

A broker that doesn't respond within PATIENCE_MS, because it is frozen or unreachable, delays a call by no more than
that: the next one is queried, too, and until its request has ended, other calls query it last. Each response that comes
of a check counts at once, in whatever order responses arrive. That access isn't checked counts only when each broker
before has failed: a slow one may check it.
"""

import asyncio
from collections.abc import Iterable

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
        asked: dict[str, asyncio.Task[Answer] | None] = dict.fromkeys(await self._masters())
        for address in sorted(asked, key=self._slow.__contains__):
            task = asked[address] = self._begin(address, request)
            if not await _first_of(asked.values(), PATIENCE_MS / 1000):
                self._note_slow(address, task)
            answer = _decisive(asked.values())
            if answer is not None:
                return answer
        while await _first_of(asked.values()):
            answer = _decisive(asked.values())
            if answer is not None:
                return answer
        errors = [outcome for task in asked.values() if isinstance(outcome := _outcome(task), NetworkError)]
        reached = [error for error in errors if not isinstance(error, ConnectFailed)]
        if has_judged or reached:
            raise (reached or errors or [NetworkError("no broker can be reached to check the client's access")])[0]
        return None

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


async def _first_of(asked: "Iterable[asyncio.Task[Answer] | None]", timeout_s: float | None = None) -> bool:
    """Wait until the next request ends; return False if none does in time, or if none is running."""
    running = [task for task in asked if task is not None and not task.done()]
    if not running:
        return False
    done, _ = await asyncio.wait(running, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    return bool(done)


def _outcome(task: "asyncio.Task[Answer] | None") -> Answer | NetworkError | None:
    """Return how a request ended; None if it is running, or hasn't begun."""
    if task is None or not task.done():
        return None
    try:
        return task.result()
    except NetworkError as error:
        return error


def _decisive(asked: "Iterable[asyncio.Task[Answer] | None]") -> Answer | None:
    """Return the response that decides about the call, if there is one; the requests are in the order of addresses."""
    unchecked, have_others_failed = None, True
    for task in asked:
        outcome = _outcome(task)
        if isinstance(outcome, NetworkError):
            continue
        if outcome is not None and _is_of_a_check(outcome):
            return outcome
        if outcome is not None and have_others_failed:
            unchecked = outcome
        have_others_failed = False
    return unchecked


def _is_of_a_check(answer: Answer) -> bool:
    """Return whether a broker has checked the call: it permits it, or refuses it."""
    if answer.code == SUCCESS:
        return isinstance(answer, JudgeAnswer) and answer.is_judging
    return answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED
