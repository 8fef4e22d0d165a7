"""Notifies the replicas of a broker when their lowest id changes. RocketMQ: RouteInfoManager.notifyMinBrokerIdChanged.

Notifications are one-way requests over connections of their own, through TLS if `tls.enable` or `tls.server.mode` says
so, and are sent only with `notifyMinBrokerIdChanged`:
without it, replicas query the nameserver.
"""

from collections.abc import Iterable

from staticfire.nameserver.advertised_addresses import advertised_address
from staticfire.nameserver.min_broker_ids import MinIdChange
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.codecs import JSON
from staticfire.protocol.errors import NetworkError, UsageError
from staticfire.protocol.requests.brokers import NotifyMinBrokerIdChange
from staticfire.runtime.client_machine import with_client
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Machine
from staticfire.runtime.pool import ConnectionPool
from staticfire.runtime.service import Spawn

log = logger("nameserver")

LOOPBACK = "127.0.0.1"


class MinIdNotices:
    """Sends the notifications of one nameserver."""

    def __init__(self, machine: Machine, settings: NameserverSettings, spawn: Spawn) -> None:
        self._spawn = spawn
        # The files of TLS were checked at the start. One that can't be used now is logged with each notification.
        # JSON: Apache's brokers don't understand our own codec.
        self._pool = ConnectionPool(with_client(machine, settings.as_client()), codec_byte=JSON)

    def send(self, changes: Iterable[MinIdChange]) -> None:
        """Notify the replicas. Those that can't be reached are only logged: they query the nameserver themselves."""
        for change in changes:
            request = _request(change)
            for address in change.recipients:
                reached = advertised_address(address, LOOPBACK)
                self._spawn(self._send(reached, request, change.broker_name), f"notification of {reached}")

    async def _send(self, address: str, request: NotifyMinBrokerIdChange, broker_name: str) -> None:
        try:
            await self._pool.tell(address, request)
        except (NetworkError, UsageError) as error:
            log.warning("replica_not_notified", broker=broker_name, address=address, reason=str(error))

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.close()


def _request(change: MinIdChange) -> NotifyMinBrokerIdChange:
    return NotifyMinBrokerIdChange(
        min_broker_id=change.min_id,
        min_broker_addr=_reached(change.min_address),
        offline_broker_addr=_reached(change.offline_address),
        ha_broker_addr=_reached(change.ha_address),
    )


def _reached(filed: str | None) -> str | None:
    """Return the address at which this nameserver reaches a broker."""
    return None if filed is None else advertised_address(filed, LOOPBACK)
