"""Empty a cluster in milliseconds: brokers delete their data, then nameservers delete the routes.

Fault rules are removed first, since a rule may affect any of these requests, and slaves copy again without a lag.
Like its master, each slave has the settings of its start again. A lag that it was started with is one of them.
Message time runs at its normal rate again, from its current value: it never goes back. Killed and suspended processes
are left as they are.
"""

import asyncio
from typing import Any

from staticfire.control.whole_cluster import TIMEOUT_MS, KnownBrokers, Undisturbed, tell_slave, undisturbed
from staticfire.protocol.command import Request
from staticfire.protocol.errors import broker_answer
from staticfire.protocol.requests.clock import READ, REAL, RUN, Clock, ClockAnswer
from staticfire.protocol.requests.reset import Forgotten, Reset, ResetAnswer
from staticfire.protocol.requests.routes import DeleteTopicInNameserver
from staticfire.runtime.pool import ConnectionPool


async def reset(pool: ConnectionPool, namesrv: str, known: KnownBrokers) -> dict[str, Any]:
    """Reset all brokers; return what they deleted.

    A nameserver that has ended isn't needed, unless it is the first one, which has the message time.
    Raises: ClientError (a broker has no master), NetworkError, BrokerAnswer.
    """
    return await empty(pool, await undisturbed(pool, namesrv, known))


async def empty(pool: ConnectionPool, servers: Undisturbed) -> dict[str, Any]:
    """Reset these servers; return what the brokers deleted. Raises: NetworkError, BrokerAnswer."""
    nameservers, masters, slaves = servers
    forgotten = await asyncio.gather(*(_reset_broker(pool, address) for address in masters.values()))
    await asyncio.gather(*(tell_slave(pool, address, Reset(only_settings=True)) for address in slaves))
    topics = sorted({topic for one in forgotten for topic in one.topics})
    groups = sorted({group for one in forgotten for group in one.groups})
    # Brokers no longer register these topics, but a nameserver keeps a route until it gets a request to delete it.
    deletions: list[Request] = [DeleteTopicInNameserver(topic=topic) for topic in topics]
    pending = (pool.ask(address, what, TIMEOUT_MS) for address in nameservers for what in (Reset(), *deletions))
    for answer in await asyncio.gather(*pending):
        if answer.code != 0:
            raise broker_answer(answer.code, answer.remark, f"reset of nameserver {';'.join(nameservers)}")
    await _let_time_run(pool, nameservers[0])
    return {"topics": topics, "groups": groups}


async def _let_time_run(pool: ConnectionPool, address: str) -> None:
    reading = await pool.ask(address, Clock(READ), TIMEOUT_MS)
    if isinstance(reading, ClockAnswer) and reading.mode != REAL:
        answer = await pool.ask(address, Clock(RUN), TIMEOUT_MS)
        if answer.code != 0:
            raise broker_answer(answer.code, answer.remark, f"reset of message time at {address}")


async def _reset_broker(pool: ConnectionPool, address: str) -> Forgotten:
    answer = await pool.ask(address, Reset(), TIMEOUT_MS)
    if answer.code != 0 or not isinstance(answer, ResetAnswer):
        raise broker_answer(answer.code, answer.remark, f"reset of {address}")
    return answer.body or Forgotten()
