"""Checks that brokers filter by a consumer's conditions. RocketMQ: MQClientInstance.checkClientInBroker."""

import asyncio
from collections.abc import Iterable

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.subscriptions import TAG, Subscription, shortened
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import ClientError, NetworkError
from staticfire.protocol.requests.clients import SubscriptionData
from staticfire.protocol.requests.connections import CheckClientConfig, ClientConfig
from staticfire.protocol.requests.routes import MASTER_ID
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger

log = logger("client")

# The first version of RocketMQ that has conditions.
V4_1_0 = 232


async def check_conditions(client: ClusterClient, group: str, wanted: Iterable[Subscription]) -> None:
    """For each topic with a condition, let one of its brokers check it. If it can't be reached, the pulls find out.

    Raises: ClientError (the broker doesn't filter by it, and why).
    """
    conditions = [one.data for one in wanted if one.data.expression_type != TAG]
    await asyncio.gather(*(_check(client, group, data) for data in conditions))


async def _check(client: ClusterClient, group: str, data: SubscriptionData) -> None:
    route = client.routes.known(data.topic)
    brokers = [] if route is None else sorted(route.broker_datas, key=lambda broker: broker.broker_name)
    address = next((broker.broker_addrs[MASTER_ID] for broker in brokers if MASTER_ID in broker.broker_addrs), None)
    if address is None:
        return
    request = CheckClientConfig(body=ClientConfig(client.client_id, group, data))
    try:
        connection = await client.pool.connection(address)
        answer = await connection.ask(request, client.settings.mq_client_api_timeout_ms)
    except NetworkError as error:
        log.info("condition_not_checked", topic=data.topic, reason=str(error))
        return
    refuse_too_old(connection, data.expression_type)
    if answer.code != SUCCESS:
        shown = shortened(data.sub_string)
        raise ClientError(f"{data.topic!r}: the broker at {address} doesn't filter by {shown}: {answer.remark}")


def refuse_too_old(connection: Connection, expression_type: str) -> None:
    """Raises: ClientError if the broker is known to support tags only: it would send all messages."""
    version = connection.peer.version
    if expression_type != TAG and 0 < version < V4_1_0:
        raise ClientError(
            f"the broker at {connection.peer.address}, of version {version}, is too old to filter by "
            f"{expression_type}: filter by tags"
        )
