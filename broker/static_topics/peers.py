"""Requests to other brokers of the cluster, which hold earlier stretches of logical queues.

The address of a broker is requested from a nameserver, and kept until a request to the broker fails.
"""

from staticfire.broker.registration import Registration
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer, Request
from staticfire.protocol.errors import BrokerAnswer, NetworkError, ProtocolError
from staticfire.protocol.hosts import pack_host
from staticfire.protocol.requests.routes import ClusterInfoAnswer, GetClusterInfo
from staticfire.runtime.addresses import parse_address
from staticfire.runtime.pool import ConnectionPool

# RocketMQ: forwardTimeout.
FORWARD_TIMEOUT_MS = 3_000
_MASTER_ID = 0


class BrokerPeers:
    """The other brokers, by name."""

    def __init__(self, registration: Registration, pool: ConnectionPool) -> None:
        self._registration = registration
        self._pool = pool
        self._addresses: dict[str, str] = {}

    async def ask(self, broker_name: str, request: Request) -> Answer:
        """Send a request to a broker and return its response. Raises: BrokerAnswer (unknown, or not reachable)."""
        try:
            address = self._addresses.get(broker_name) or await self._find(broker_name)
            return await self._pool.ask(address, request, FORWARD_TIMEOUT_MS)
        except (NetworkError, ProtocolError) as error:
            self._addresses.pop(broker_name, None)
            words = f"broker {broker_name} has that part of the logical queue, but connecting to it failed: {error}"
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, words) from error

    def store_host(self, broker_name: str) -> bytes:
        """Return the store host for a broker's messages. The broker must have answered a request before."""
        return pack_host(*parse_address(self._addresses[broker_name]))

    async def _find(self, broker_name: str) -> str:
        for nameserver in self._registration.nameservers:
            answer = await self._pool.ask(nameserver, GetClusterInfo(), FORWARD_TIMEOUT_MS)
            if not isinstance(answer, ClusterInfoAnswer) or answer.body is None:
                continue
            broker = answer.body.broker_addr_table.get(broker_name)
            if broker is not None and _MASTER_ID in broker.broker_addrs:
                address: str = broker.broker_addrs[_MASTER_ID]
                self._addresses[broker_name] = address
                return address
        words = (
            f"broker {broker_name} has that part of the logical queue, but isn't registered at a nameserver of this "
            "broker: check that it is running"
        )
        raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, words)
