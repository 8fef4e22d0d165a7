"""Makes what mqadmin makes for clients of RocketMQ 5: topics of a type, and groups."""

import asyncio
from typing import Any

from staticfire.protocol.command import Request
from staticfire.protocol.requests.groups import SubscriptionGroupConfig, UpdateGroup
from staticfire.protocol.requests.topics import UpdateTopic
from staticfire.runtime.credentials import Credentials
from staticfire.runtime.live import live_machine
from staticfire.runtime.pool import ConnectionPool


def administer(requested: dict[str, Any], brokers: list[str], by: Credentials) -> None:
    """Make topics and groups, as a driver asks for them, on brokers at these addresses, as this user."""
    attributes = f"+message.type={requested.get('kind')}"
    requests: list[Request] = [
        UpdateTopic(topic, 4, 4, 6, attributes=attributes) for topic in requested.get("create", ())
    ]
    for name, fields in requested.get("groups", {}).items():
        requests.append(UpdateGroup(body=SubscriptionGroupConfig(name, **fields)))
    asyncio.run(_ask(brokers, requests, by))


async def _ask(brokers: list[str], requests: list[Request], by: Credentials) -> None:
    pool = ConnectionPool(live_machine(), credentials=by)
    for address in brokers:
        for request in requests:
            answer = await pool.ask(address, request)
            assert answer.code == 0, answer.remark
    await pool.close()
