"""Requests for queue locks. RocketMQ: RebalanceImpl.lock, lockAll, unlock.

A broker holds a lock for 60 s after its last renewal. There is one request to lock or unlock per broker.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.routes import address_to_write
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import StaticfireError, broker_answer
from staticfire.protocol.requests import locks as wire
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.log import logger

log = logger("client")


@dataclass
class LockOutcome:
    """The result of a request for locks. A queue whose broker didn't respond is in neither set."""

    requested_ms: UptimeMs
    """When the request was sent: the time of a lock counts from then."""
    granted: set[MessageQueue] = field(default_factory=set)  # Never iterated.
    refused: set[MessageQueue] = field(default_factory=set)  # Never iterated.


class LockRequests:
    """The lock requests of one consumer."""

    def __init__(self, group: str, client: ClusterClient, timeout_ms: int) -> None:
        self._group = group
        self._client = client
        self._timeout_ms = timeout_ms
        self.granted_by: dict[str, str] = {}
        """The broker name of each address that has responded."""
        # By broker: the reason that a warning was logged for. Never iterated.
        self._silent: dict[str, str] = {}

    def address(self, broker_name: str) -> str | None:
        """Return the address of a broker's master, which grants locks."""
        return address_to_write(self._client.routes.addresses, broker_name)

    async def lock(self, queues: Iterable[MessageQueue]) -> LockOutcome:
        """Lock queues, or renew their locks."""
        outcome = LockOutcome(self._client.machine.clock.uptime_ms())
        requests = [self._lock_at(name, some, outcome) for name, some in by_broker(queues).items()]
        await asyncio.gather(*requests)
        return outcome

    async def _lock_at(self, broker_name: str, queues: list[MessageQueue], outcome: LockOutcome) -> None:
        request = wire.LockQueues(bname=broker_name, body=self._named(queues))
        try:
            address = await self._client.address_to_write(queues[0])
            answer = await self._client.pool.ask(address, request, self._timeout_ms)
            if answer.code != SUCCESS or not isinstance(answer, wire.LockAnswer):
                raise broker_answer(answer.code, answer.remark, f"locks of {self._group} at {broker_name}")
        except StaticfireError as error:
            if self._silent.get(broker_name) != str(error):
                self._silent[broker_name] = str(error)
                log.warning("queues_not_locked", group=self._group, broker=broker_name, reason=str(error))
            return
        self.granted_by[address] = broker_name
        self._silent.pop(broker_name, None)
        locked = answer.body.lock_ok_mq_set if answer.body is not None else []
        granted = {MessageQueue(each.topic, each.broker_name, each.queue_id) for each in locked}
        outcome.granted |= granted
        outcome.refused.update(queue for queue in queues if queue not in granted)

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Release locks, and wait for the brokers' responses. At a broker that can't be reached, the locks expire."""
        requests = [self._unlock_at(name, some) for name, some in by_broker(queues).items()]
        await asyncio.gather(*requests)

    async def _unlock_at(self, broker_name: str, queues: list[MessageQueue]) -> None:
        address = self.address(broker_name)
        connection = self._client.pool.open_connection(address) if address is not None else None
        if connection is None:
            return
        try:
            await connection.ask(wire.UnlockQueues(bname=broker_name, body=self._named(queues)), self._timeout_ms)
        except StaticfireError as error:
            log.warning("queues_not_unlocked", group=self._group, broker=broker_name, reason=str(error))

    def _named(self, queues: Sequence[MessageQueue]) -> wire.QueuesOfClient:
        return wire.QueuesOfClient(self._group, self._client.client_id, [wire.MessageQueue(*queue) for queue in queues])


def by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    """Return queues grouped by broker name."""
    found: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        found.setdefault(queue.broker_name, []).append(queue)
    return found
