"""The consumers of a group, as brokers report them. RocketMQ: MQAdminExt.examineConsumerConnectionInfo."""

from collections.abc import Mapping

from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import broker_answer
from staticfire.protocol.requests.connections import ConsumerConnections, GetConsumerConnections
from staticfire.runtime.pool import ConnectionPool


async def consumer_connections(
    pool: ConnectionPool, brokers: Mapping[str, str], group: str, timeout_ms: int
) -> list[ConsumerConnections]:
    """Return what each of the brokers that have members of the group reports. `brokers`: addresses by name.

    Raises: BrokerAnswer, NetworkError.
    """
    found: list[ConsumerConnections] = []
    for name, address in brokers.items():
        answer = await pool.ask(address, GetConsumerConnections(group), timeout_ms)
        if answer.code == ResponseCode.CONSUMER_NOT_ONLINE:
            continue
        if answer.code != SUCCESS:
            raise broker_answer(answer.code, answer.remark, f"members of {group} at {name}")
        found.append(answer.body)
    return found
