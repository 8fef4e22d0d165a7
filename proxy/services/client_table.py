"""The clients of this endpoint by client id: their settings, their telemetry streams, and their last heartbeats.

Pure except for `expected`; streams are only stored here. A client is known from its first settings until it terminates
or has been silent for CLIENT_EXPIRED_MS. RocketMQ: GrpcClientSettingsManager, GrpcChannelManager, ConsumerManager.
"""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from staticfire.protocol.times import UptimeMs
from staticfire.proxy.proto.rocketmq_v2_pb2 import ClientType, Settings, TelemetryCommand

CLIENT_EXPIRED_MS = 120_000
SETTINGS_WITHIN_MS = 1_000
CONSUMER_TYPES = (ClientType.PUSH_CONSUMER, ClientType.SIMPLE_CONSUMER)

SendCommand = Callable[[TelemetryCommand], Awaitable[None]]
"""Sends a command over a client's stream. Raises: GrpcError when the stream is over."""


class KnownClient(msgspec.Struct, gc=False, eq=False):
    """One client."""

    client_id: str
    settings: Settings
    """As the client sent them."""
    heard_ms: UptimeMs
    stream: SendCommand | None
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


class ClientTable:
    """The known clients."""

    def __init__(self) -> None:
        self._clients: dict[str, KnownClient] = {}
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

    def put(self, client: KnownClient) -> None:
        """Add a client; it replaces an earlier one with the same id."""
        self.remove(client.client_id)
        self._clients[client.client_id] = client
        for arrived in self._expected.get(client.client_id, ()):
            arrived.set()
        for topic in client.topics:
            self._publishers.setdefault(topic, {})[client.client_id] = client

    def remove(self, client_id: str) -> KnownClient | None:
        """Remove a client; return it if it was known."""
        client = self._clients.pop(client_id, None)
        for topic in client.topics if client is not None else ():
            publishers = self._publishers[topic]
            publishers.pop(client_id, None)
            if not publishers:
                del self._publishers[topic]
                self._turns.pop(topic, None)
        return client

    def stream_ended(self, client_id: str, stream: SendCommand) -> None:
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
