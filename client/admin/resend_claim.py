"""The claim of a resend: while one program resends all dead letters of a group, a second one is refused.

Otherwise both would find that a letter wasn't sent yet, and both would send it. A claim is RocketMQ's lock of the
queues of dead letters, under the group that also has the progress. No consumer locks them for this group. The lock ends
when it is released, or 60 s after its last renewal, when its program was killed.
"""

from collections.abc import Iterable

from staticfire.client.admin.resending import ResendRunning
from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.consume.membership.queue_locks import by_broker
from staticfire.client.consume.queues.held_lock import BROKER_LOCK_MS
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import StaticfireError, broker_answer
from staticfire.protocol.names import TOOLS_GROUP
from staticfire.protocol.requests import locks as wire
from staticfire.runtime.log import logger

log = logger("client")

# Between a renewal and the next one lie at most this time and the requests for one letter.
RENEW_MS = 20_000


class ResendClaim:
    """The locks of one resend. Entering it takes them, leaving it releases them."""

    def __init__(self, client: ClusterClient, group: str, queues: Iterable[MessageQueue], timeout_ms: int) -> None:
        """`queues`: all queues of the dead letters of the group."""
        self._client = client
        self._group = group
        self._timeout_ms = timeout_ms
        # Several resends may share a client.
        self._holder = f"{client.client_id}#{client.machine.identity.random.getrandbits(48):012x}"
        self._uptime_ms = client.machine.clock.uptime_ms
        self._requested_ms = self._uptime_ms()
        self._queues = by_broker(queues)

    async def __aenter__(self) -> "ResendClaim":
        """Raises: ResendRunning (another one has the claim), BrokerAnswer, NetworkError."""
        try:
            await self._lock()
        except BaseException:
            await self._unlock()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._unlock()

    async def keep(self) -> None:
        """Renew the claim if it is time to. Raises: ResendRunning (it is lost), BrokerAnswer, NetworkError."""
        if self._uptime_ms() - self._requested_ms >= RENEW_MS:
            await self._lock()

    async def _lock(self) -> None:
        """Lock all queues, broker by broker: all resends use the same order, so one of two gets all locks."""
        self._requested_ms = self._uptime_ms()
        for broker_name, queues in self._queues.items():
            request = wire.LockQueues(bname=broker_name, body=self._named(queues))
            answer = await self._client.ask_master(queues[0], request, self._timeout_ms)
            if answer.code != SUCCESS or not isinstance(answer, wire.LockAnswer):
                raise broker_answer(answer.code, answer.remark, f"claim the resend of {self._group} at {broker_name}")
            granted = [] if answer.body is None else answer.body.lock_ok_mq_set
            if len(granted) < len(queues):
                raise ResendRunning(
                    f"another resend of the dead letters of {self._group} is running: wait until it has ended; if it "
                    f"was killed, its claim ends after {BROKER_LOCK_MS // 1_000} s"
                )

    async def _unlock(self) -> None:
        for broker_name, queues in self._queues.items():
            request = wire.UnlockQueues(bname=broker_name, body=self._named(queues))
            try:
                await self._client.ask_master(queues[0], request, self._timeout_ms)
            except StaticfireError as error:
                log.info("resend_claim_not_released", group=self._group, broker=broker_name, reason=str(error))

    def _named(self, queues: Iterable[MessageQueue]) -> wire.QueuesOfClient:
        return wire.QueuesOfClient(TOOLS_GROUP, self._holder, [wire.MessageQueue(*queue) for queue in queues])
