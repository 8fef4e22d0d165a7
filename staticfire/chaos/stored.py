"""Reads what the brokers have stored, and the offsets of groups, when a program has ended."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from staticfire.client import Admin, ClientSettings, ClusterClient, MessageQueue, PullConsumer, TopicNotFound
from staticfire.client.admin.peek import peek_messages
from staticfire.protocol.errors import BrokerAnswer, NetworkError
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.names import TOOLS_GROUP, is_system_topic

MESSAGES_MAX = 100_000


@dataclass
class StoredMessages:
    """Messages by topic, in the order in which they were stored."""

    topics: dict[str, list[ReceivedMessage]] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    """Topics that couldn't be read, or not all of them, and why."""


async def read_stored(namesrv: str, settings: ClientSettings | None = None) -> StoredMessages:
    """Return everything that is stored. A topic that can't be read is noted. Raises: NetworkError (no nameserver)."""
    found = StoredMessages()
    client = ClusterClient(namesrv, settings)
    async with client, Admin(client=client) as admin, PullConsumer(TOOLS_GROUP, client=client) as reader:
        topics = await admin.topics()
        await asyncio.gather(*(_read_topic(found, reader, topic) for topic in topics if not is_system_topic(topic)))
    return found


async def _read_topic(found: StoredMessages, reader: PullConsumer, topic: str) -> None:
    try:
        messages = await peek_messages(reader, await reader.queues(topic), MESSAGES_MAX)
    except TopicNotFound:
        return
    except (BrokerAnswer, NetworkError) as error:
        found.unread[topic] = str(error)
        return
    found.topics[topic] = messages
    if len(messages) >= MESSAGES_MAX:
        found.unread[topic] = f"only the oldest {MESSAGES_MAX:,} messages were read"


async def read_left(
    namesrv: str,
    pairs: Sequence[tuple[str, str]],
    claimed: Callable[[str, MessageQueue], int],
    settings: ClientSettings | None = None,
) -> dict[tuple[str, str], int]:
    """Return how many messages each group hasn't committed, for these groups and topics.

    `claimed`: the highest offset that a client has requested to commit. The request may have been lost, and a client
    without new messages doesn't repeat it. Raises: NetworkError.
    """
    left: dict[tuple[str, str], int] = {}
    client = ClusterClient(namesrv, settings)
    async with client, Admin(client=client) as admin, PullConsumer(TOOLS_GROUP, client=client) as reader:
        for group, topic in pairs:
            try:
                left[group, topic] = sum(
                    [
                        await _uncommitted(admin, group, queue, claimed(group, queue))
                        for queue in await reader.queues(topic)
                    ]
                )
            except (BrokerAnswer, NetworkError):
                left[group, topic] = 1  # Unknown: it counts as not consumed.
    return left


async def _uncommitted(admin: Admin, group: str, queue: MessageQueue, claimed: int) -> int:
    end = await admin.offsets.max_offset(queue)
    if end <= claimed:
        return 0
    return end - max(claimed, await admin.offsets.committed(group, queue) or 0)
