"""Reads what the brokers have stored, and the offsets of groups, when a program has ended."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from staticfire.client import Admin, ClusterClient, MessageQueue, PullConsumer, TopicNotFound
from staticfire.client.admin.peek import peek_messages
from staticfire.protocol.errors import BrokerAnswer, NetworkError
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.names import TOOLS_GROUP

MESSAGES_MAX = 100_000


@dataclass
class StoredMessages:
    """Messages by topic, in the order in which they were stored, and committed offsets by group."""

    topics: dict[str, list[ReceivedMessage]] = field(default_factory=dict)
    committed: dict[tuple[str, MessageQueue], int] = field(default_factory=dict)
    ends: dict[MessageQueue, int] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    """Topics that couldn't be read, or not all of them, and why."""


async def read_stored(namesrv: str, groups: Iterable[str] = ()) -> StoredMessages:
    """Return everything that is stored. A topic that can't be read is noted. Raises: NetworkError (no nameserver)."""
    found = StoredMessages()
    client = ClusterClient(namesrv)
    async with client, Admin(client=client) as admin, PullConsumer(TOOLS_GROUP, client=client) as reader:
        topics = await admin.topics()
        await asyncio.gather(*(_read_topic(found, reader, topic) for topic in topics if _is_read(topic)))
        queues = list(found.ends)
        await asyncio.gather(*(_read_offsets(found, admin, group, queues) for group in groups))
    return found


def _is_read(topic: str) -> bool:
    from staticfire.protocol.names import is_system_topic

    return not is_system_topic(topic)


async def _read_topic(found: StoredMessages, reader: PullConsumer, topic: str) -> None:
    try:
        queues = await reader.queues(topic)
        for queue in queues:
            found.ends[queue] = await reader.max_offset(queue)
        messages = await peek_messages(reader, [queue for queue in queues if found.ends[queue]], MESSAGES_MAX)
    except TopicNotFound:
        return
    except (BrokerAnswer, NetworkError) as error:
        found.unread[topic] = str(error)
        return
    found.topics[topic] = messages
    if len(messages) >= MESSAGES_MAX:
        found.unread[topic] = f"only the oldest {MESSAGES_MAX:,} messages were read"


async def _read_offsets(found: StoredMessages, admin: Admin, group: str, queues: list[MessageQueue]) -> None:
    for queue in queues:
        try:
            offset = await admin.offsets.committed(group, queue)
        except (BrokerAnswer, NetworkError):
            continue
        if offset is not None:
            found.committed[group, queue] = offset
