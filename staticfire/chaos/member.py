"""A member that joins a group, gets its share of the queues, consumes nothing, and leaves: a rebalance."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec

from staticfire.chaos.connections import connections
from staticfire.client import ClientSettings
from staticfire.protocol.errors import NetworkError, UsageError
from staticfire.protocol.requests.clients import (
    ConsumerData,
    Heartbeat,
    HeartbeatData,
    SubscriptionData,
    UnregisterClient,
)
from staticfire.protocol.requests.journal import JournalRecord
from staticfire.runtime.pool import ConnectionPool
from staticfire.runtime.service import pause_between_looks

CLIENT_ID = "127.0.0.1@staticfire-chaos"
TIMEOUT_MS = 3_000


def as_member(records: Sequence[JournalRecord], group: str) -> ConsumerData | None:
    """Return how the group's members consume, from the newest heartbeat of one; None if there is none."""
    for record in reversed(records):
        body = record.details.get("body")
        consumers = body.get("consumerDataSet", []) if isinstance(body, dict) else []
        for consumer in consumers:
            if consumer.get("groupName") == group and consumer.get("subscriptionDataSet"):
                return msgspec.convert(consumer, ConsumerData)
    return None


def from_events(records: Sequence[JournalRecord], group: str) -> ConsumerData | None:
    """Return how the group's members consume, from the newest event of a member that joined; None if there is none."""
    for record in reversed(records):
        if record.kind == "joined" and record.group == group:
            details = record.details
            subscriptions = [
                SubscriptionData(topic, expression) for topic, expression in details["subscriptions"].items()
            ]
            return ConsumerData(
                group, details["consumeType"], details["messageModel"], details["consumeFromWhere"], subscriptions
            )
    return None


@asynccontextmanager
async def joined(
    addresses: Mapping[str, str], consumer: ConsumerData, client_id: str, settings: ClientSettings | None = None
) -> AsyncIterator[None]:
    """Be a member of a group on all reachable brokers while the block runs."""
    async with connections(settings) as pool:
        heartbeat = HeartbeatData(client_id, consumer_data_set=[consumer])
        answers = [_request(pool, address, Heartbeat(body=heartbeat)) for address in addresses.values()]
        if not any(await asyncio.gather(*answers)):
            raise NetworkError(f"no broker answers, so nothing could join {consumer.group_name}")
        try:
            yield
        finally:
            unregister = UnregisterClient(client_id=client_id, consumer_group=consumer.group_name)
            await asyncio.gather(*(_request(pool, address, unregister) for address in addresses.values()))


async def join_for(namesrv: str, group: str, stay_ms: int) -> int:
    """Join a group as its members do, stay, and leave. Return how many members it had before.

    Raises: UsageError (the group has no member that this one could resemble), NetworkError, BrokerAnswer.
    """
    from staticfire.client import Admin

    async with Admin(namesrv) as admin:
        members = await admin.members(group)
        events, heartbeats = await admin.journal("joined", group=group), await admin.requests("HEART_BEAT")
        addresses = await admin.masters()
    consumer = as_member(heartbeats, group) or from_events(events, group)
    if not members or consumer is None:
        raise UsageError(f"{group} has no members, so there is nothing to rebalance; start a consumer first")
    async with joined(addresses, consumer, CLIENT_ID):
        await pause_between_looks(stay_ms)
    return len(members)


async def _request(pool: ConnectionPool, address: str, request: Heartbeat | UnregisterClient) -> bool:
    try:
        await pool.ask(address, request, TIMEOUT_MS)
    except NetworkError:
        return False
    return True
