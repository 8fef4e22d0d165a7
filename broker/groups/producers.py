"""The clients of each producer group, for transaction checks and replies. RocketMQ: ProducerManager."""

import msgspec

from staticfire.protocol.times import UptimeMs
from staticfire.runtime.connection import Connection


class ProducerClient(msgspec.Struct, gc=False):
    """One client of a producer group."""

    client_id: str
    connection: Connection
    last_seen_ms: UptimeMs


class ProducerManager:
    """Producer groups, and the connection of each client id."""

    def __init__(self) -> None:
        self.producer_table: dict[str, dict[Connection, ProducerClient]] = {}
        self._by_client_id: dict[str, Connection] = {}
        self._turns: dict[str, int] = {}

    def register(self, group: str, connection: Connection, client_id: str, uptime_ms: UptimeMs) -> None:
        """Register one producer of a heartbeat."""
        self.producer_table.setdefault(group, {})[connection] = ProducerClient(client_id, connection, uptime_ms)
        self._by_client_id[client_id] = connection

    def unregister(self, group: str, connection: Connection) -> None:
        """Remove a client from a group."""
        clients = self.producer_table.get(group)
        if clients is None:
            return
        client = clients.pop(connection, None)
        if not clients:
            del self.producer_table[group]
            self._turns.pop(group, None)
        if client is None or any(connection in others for others in self.producer_table.values()):
            return
        if self._by_client_id.get(client.client_id) is connection:  # It may have reconnected meanwhile.
            del self._by_client_id[client.client_id]

    def disconnect(self, connection: Connection) -> None:
        """Remove a connection from every group."""
        for group in [name for name, clients in self.producer_table.items() if connection in clients]:
            self.unregister(group, connection)

    def expire(self, uptime_ms: UptimeMs, silent_ms_max: int) -> list[Connection]:
        """Remove and return the connections without a heartbeat for that long."""
        silent = []
        for group, clients in list(self.producer_table.items()):
            for client in list(clients.values()):
                if uptime_ms - client.last_seen_ms > silent_ms_max:
                    silent.append(client.connection)
                    self.unregister(group, client.connection)
        return list(dict.fromkeys(silent))

    def connection_of(self, client_id: str) -> Connection | None:
        """Return the connection of a client."""
        return self._by_client_id.get(client_id)

    def connections_of(self, group: str) -> list[Connection]:
        """Return the open connections of a group's clients."""
        return [connection for connection in self.producer_table.get(group, {}) if connection.is_open]

    def next_connection(self, group: str) -> Connection | None:
        """Return the open connection of one client of a group; another client each time, in turn."""
        open_ones = self.connections_of(group)
        if not open_ones:
            return None
        turn = self._turns[group] = self._turns.get(group, -1) + 1
        return open_ones[turn % len(open_ones)]
