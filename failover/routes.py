"""Read from nameservers which brokers there are, for a failover."""

from collections.abc import Awaitable, Callable, Mapping

from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import ClientError, NetworkError, broker_answer
from staticfire.protocol.requests.routes import ClusterInfoAnswer, GetClusterInfo
from staticfire.runtime.addresses import each_address
from staticfire.runtime.pool import ConnectionPool

TIMEOUT_MS = 2_000

Sets = Mapping[str, Mapping[int, str]]
"""Addresses by broker name and id."""
ReadSets = Callable[[], Awaitable[Sets]]


def sets_at(pool: ConnectionPool, namesrv: str) -> ReadSets:
    """Return a function that reads all brokers from the first nameserver that answers.

    The function raises: ClientError, NetworkError, BrokerAnswer.
    """
    nameservers = each_address(namesrv)

    async def read() -> Sets:
        failure: Exception = ClientError("no nameserver is given")
        for nameserver in nameservers:
            try:
                answer = await pool.ask(nameserver, GetClusterInfo(), TIMEOUT_MS)
            except NetworkError as error:
                failure = error
                continue
            if answer.code == SUCCESS and isinstance(answer, ClusterInfoAnswer) and answer.body is not None:
                return {name: dict(data.broker_addrs) for name, data in answer.body.broker_addr_table.items()}
            failure = broker_answer(answer.code, answer.remark, "cluster info")
        raise failure

    return read
