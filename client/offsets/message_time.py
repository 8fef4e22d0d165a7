"""The current message time: a consumer compares it with the store times of messages."""

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.requests.clock import READ, Clock, ClockAnswer
from staticfire.protocol.times import MessageMs
from staticfire.runtime.log import logger

log = logger("client")


async def message_ms_now(client: ClusterClient) -> MessageMs:
    """Return the cluster's message time, which the first nameserver of the list keeps.

    Without one, as with RocketMQ's nameservers, it is the wall clock.
    """
    wall_ms = client.machine.clock.wall_ms()
    address, timeout_ms = client.nameservers.addresses[0], client.settings.mq_client_api_timeout_ms
    try:
        answer = await client.pool.ask(address, Clock(READ), timeout_ms)
    except StaticfireError as error:
        log.warning("message_time_unknown", nameserver=address, taken_for=wall_ms, reason=str(error))
        return wall_ms
    return MessageMs(answer.message_ms) if isinstance(answer, ClockAnswer) and answer.code == 0 else wall_ms
