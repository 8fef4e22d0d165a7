"""Check whether clients can use a cluster now: query a nameserver, and every broker that it names, as a client would.

One working nameserver is enough, since clients fail over to the next.
"""

import asyncio

from staticfire.control.view import ClusterView
from staticfire.protocol.errors import BrokerAnswer, NetworkError, ProtocolError
from staticfire.protocol.requests.routes import MASTER_ID, ClusterInfoAnswer, GetClusterInfo, GetRoute, RouteAnswer
from staticfire.protocol.requests.statistics import STORE_REFUSAL, GetRuntimeInfo, RuntimeInfoAnswer
from staticfire.protocol.requests.topics import GetTopicConfig
from staticfire.runtime.addresses import each_address
from staticfire.runtime.pool import ConnectionPool

ASK_TIMEOUT_MS = 1_000


async def complaints(pool: ConnectionPool, cluster: ClusterView) -> list[str]:
    """Return the problems, one sentence each; an empty list if clients can work."""
    wrong: list[str] = []
    for namesrv in each_address(cluster.namesrv):
        complaints = await _complaints_of(pool, namesrv, sorted(cluster.addresses))
        if not complaints:
            return []
        wrong += complaints
    return wrong


async def _complaints_of(pool: ConnectionPool, namesrv: str, names: list[str]) -> list[str]:
    """Return the problems of a client that uses this nameserver."""
    try:
        registered = await _registered_addresses(pool, namesrv)
    except (NetworkError, BrokerAnswer, ProtocolError) as error:
        return [f"nameserver {namesrv}: {error}"]
    answers = await asyncio.gather(*(_broker_complaint(pool, namesrv, name, registered.get(name)) for name in names))
    return [words for words in answers if words]


async def _registered_addresses(pool: ConnectionPool, namesrv: str) -> dict[str, str]:
    """Return the masters that are registered at a nameserver. Raises: NetworkError, BrokerAnswer, ProtocolError."""
    answer = await pool.ask(namesrv, GetClusterInfo(), ASK_TIMEOUT_MS)
    if not isinstance(answer, ClusterInfoAnswer) or answer.code != 0 or answer.body is None:
        raise BrokerAnswer(answer.code, answer.remark or "no cluster info")
    table = answer.body.broker_addr_table
    return {name: data.broker_addrs[MASTER_ID] for name, data in table.items() if MASTER_ID in data.broker_addrs}


async def _broker_complaint(pool: ConnectionPool, namesrv: str, name: str, address: str | None) -> str:
    """Return the problem of one broker. It must be registered, respond, store, and its own topic must have a route."""
    if address is None:
        return f"{name} isn't registered at the nameserver {namesrv}"
    try:
        config = await pool.ask(address, GetTopicConfig(topic=name), ASK_TIMEOUT_MS)
        info = await pool.ask(address, GetRuntimeInfo(), ASK_TIMEOUT_MS)
        route = await pool.ask(namesrv, GetRoute(topic=name), ASK_TIMEOUT_MS)
    except (NetworkError, ProtocolError) as error:
        return f"{name}: {error}"
    if config.code != 0:
        return f"{name} at {address}: {config.remark}"
    texts = info.body.table if isinstance(info, RuntimeInfoAnswer) and info.body is not None else {}
    if STORE_REFUSAL in texts:
        return f"{name} stores nothing: {texts[STORE_REFUSAL]}"
    brokers = route.body.broker_datas if isinstance(route, RouteAnswer) and route.body is not None else []
    if not any(broker.broker_name == name for broker in brokers):
        return f"{name}: its topics have no route at the nameserver {namesrv}"
    return ""
