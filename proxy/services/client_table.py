"""The clients of this endpoint by client id: their settings, their telemetry streams, and their last heartbeats.

Pure except for `expected`. Of the streams, only those of known clients keep a place for their connection
(`GrpcCall.is_spare`). A client is known from its first settings until it terminates
or has been silent for CLIENT_EXPIRED_MS. Any program can send settings under any number of client ids, so their size,
the number of clients, and the size of all settings together have limits (docs/grpc-limits.md).

RocketMQ: GrpcClientSettingsManager, GrpcChannelManager, ConsumerManager.
"""

import asyncio

import msgspec

from staticfire.protocol.times import UptimeMs
from staticfire.proxy.proto.rocketmq_v2_pb2 import ClientType, Code, Settings
from staticfire.proxy.services.statuses import StatusError
from staticfire.proxy.transport.calls import GrpcCall

CLIENT_EXPIRED_MS = 120_000
SETTINGS_WITHIN_MS = 1_000
SETTINGS_BYTES_MAX = 256 * 1024
"""The size of one client's settings."""
SETTINGS_TOPICS_MAX = 1_000
"""The topics that one client publishes or subscribes to."""
CLIENTS_MAX = 10_000
CLIENTS_BYTES_MAX = 256 * 1024 * 1024
"""The size of the ids and settings of all clients, with TOPIC_BYTES for each topic."""
TOPIC_BYTES = 512
# The overhead that is counted for each topic: one of a single letter needs that much memory, too.
CONSUMER_TYPES = (ClientType.PUSH_CONSUMER, ClientType.SIMPLE_CONSUMER)


class KnownClient(msgspec.Struct, gc=False, eq=False):
    """One client."""

    client_id: str
    settings: Settings
    """As the client sent them."""
    heard_ms: UptimeMs
    stream: GrpcCall | None
    """The newest stream that brought settings."""
    address: str = ""
    language: str = ""

    @property
    def is_producer(self) -> bool:
        return self.settings.HasField("publishing")

    @property
    def group(self) -> str:
        """A consumer's group; empty for a producer."""
        return self.settings.subscription.group.name if self.settings.HasField("subscription") else ""

    @property
    def topics(self) -> list[str]:
        """The topics that a producer publishes."""
        return [resource.name for resource in self.settings.publishing.topics] if self.is_producer else []

    @property
    def counted_bytes(self) -> int:
        """The size that counts for CLIENTS_BYTES_MAX."""
        return len(self.client_id) + self.settings.ByteSize() + TOPIC_BYTES * topics_of(self.settings)


def topics_of(settings: Settings) -> int:
    """Return how many topics settings have."""
    return len(settings.publishing.topics) + len(settings.subscription.subscriptions)


def check_size(client_id: str, settings: Settings) -> None:
    """Check that settings aren't too large. Raises: StatusError."""
    size, topics = settings.ByteSize(), topics_of(settings)
    if size > SETTINGS_BYTES_MAX:
        words = (
            f"the settings of client {client_id} have {size} bytes, more than SETTINGS_BYTES_MAX "
            f"({SETTINGS_BYTES_MAX}): shorten their filter expressions, or distribute their topics over several clients"
        )
        raise StatusError(Code.PAYLOAD_TOO_LARGE, words)
    if topics > SETTINGS_TOPICS_MAX:
        words = (
            f"the settings of client {client_id} have {topics} topics, more than SETTINGS_TOPICS_MAX "
            f"({SETTINGS_TOPICS_MAX}): distribute them over several clients"
        )
        raise StatusError(Code.PAYLOAD_TOO_LARGE, words)


class ClientTable:
    """The known clients."""

    def __init__(self) -> None:
        self._clients: dict[str, KnownClient] = {}
        # The sum of the clients' counted bytes.
        self._bytes = 0
        self._publishers: dict[str, dict[str, KnownClient]] = {}
        self._turns: dict[str, int] = {}
        # By client id, an event for each call that waits for the settings.
        self._expected: dict[str, list[asyncio.Event]] = {}

    def __len__(self) -> int:
        return len(self._clients)

    def get(self, client_id: str) -> KnownClient | None:
        """Return a client, None if it hasn't sent settings."""
        return self._clients.get(client_id)

    def consumes(self, client_id: str, group: str) -> bool:
        """Return whether a client is known, and its settings are those of a consumer of this group."""
        client = self._clients.get(client_id)
        return client is not None and client.group == group

    async def expected(self, client_id: str) -> KnownClient | None:
        """Like `get`, but wait a moment for the settings: some clients don't wait for the response to theirs."""
        if client_id not in self._clients:
            arrived, waiting = asyncio.Event(), self._expected.setdefault(client_id, [])
            waiting.append(arrived)
            try:
                async with asyncio.timeout(SETTINGS_WITHIN_MS / 1000):
                    await arrived.wait()
            except TimeoutError:
                pass
            finally:
                waiting.remove(arrived)
                if not waiting:
                    del self._expected[client_id]
        return self._clients.get(client_id)

    def _check_room(self, client: KnownClient) -> None:
        replaced = self._clients.get(client.client_id)
        if replaced is None and len(self._clients) >= CLIENTS_MAX:
            full = f"this endpoint has {len(self._clients)} clients, its maximum (CLIENTS_MAX)"
        else:
            added = client.counted_bytes - (0 if replaced is None else replaced.counted_bytes)
            if added <= 0 or self._bytes + added <= CLIENTS_BYTES_MAX:
                return
            full = f"the settings of all clients would exceed {CLIENTS_BYTES_MAX} bytes (CLIENTS_BYTES_MAX)"
        words = (
            f"client {client.client_id} can't be {'added' if replaced is None else 'changed'}: {full}; retry when one "
            f"of them has terminated or has been silent for {CLIENT_EXPIRED_MS // 1000} s, or connect to another "
            "endpoint"
        )
        raise StatusError(Code.TOO_MANY_REQUESTS, words)

    def put(self, client: KnownClient) -> None:
        """Add a client; it replaces an earlier one with the same id. Raises: StatusError (there is no room)."""
        self._check_room(client)
        self.remove(client.client_id)
        self._clients[client.client_id] = client
        if client.stream is not None:
            client.stream.is_spare = False
        self._bytes += client.counted_bytes
        for arrived in self._expected.get(client.client_id, ()):
            arrived.set()
        for topic in client.topics:
            self._publishers.setdefault(topic, {})[client.client_id] = client

    def remove(self, client_id: str) -> KnownClient | None:
        """Remove a client; return it if it was known. Its stream remains: some clients never open another one."""
        client = self._clients.pop(client_id, None)
        if client is not None:
            self._bytes -= client.counted_bytes
            if client.stream is not None:
                client.stream.is_spare = True
        for topic in client.topics if client is not None else ():
            publishers = self._publishers[topic]
            publishers.pop(client_id, None)
            if not publishers:
                del self._publishers[topic]
                self._turns.pop(topic, None)
        return client

    def stream_ended(self, client_id: str, stream: GrpcCall) -> None:
        """Remove a stream that has ended. The client remains: its calls use other streams."""
        client = self._clients.get(client_id)
        if client is not None and client.stream is stream:
            client.stream = None

    def expire(self, uptime_ms: UptimeMs) -> list[KnownClient]:
        """Remove and return the clients that have been silent for too long."""
        silent = [one for one in self._clients.values() if uptime_ms - one.heard_ms > CLIENT_EXPIRED_MS]
        for client in silent:
            self.remove(client.client_id)
        return silent

    def is_published(self, topic: str) -> bool:
        """Return whether any client publishes a topic."""
        return topic in self._publishers

    def publisher(self, topic: str) -> KnownClient | None:
        """Return a client that publishes a topic and has a telemetry stream; clients take turns."""
        able = [one for one in self._publishers.get(topic, {}).values() if one.stream is not None]
        if not able:
            return None
        turn = self._turns.get(topic, 0)
        self._turns[topic] = turn + 1
        return able[turn % len(able)]
