"""The state that all handlers of one nameserver share."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from staticfire.nameserver.advertised_addresses import advertised_address, filed_address
from staticfire.nameserver.clock_owner import ClockOwner
from staticfire.nameserver.kv_config import KVConfig
from staticfire.nameserver.route_table import RouteTable
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.addresses import parse_address
from staticfire.runtime.connection import Connection
from staticfire.runtime.machine import Machine
from staticfire.runtime.reach import Surroundings
from staticfire.runtime.service import Spawn
from staticfire.runtime.state_file import replace_state_file

if TYPE_CHECKING:
    from staticfire.nameserver.controller import Controller
    from staticfire.nameserver.min_id_notices import MinIdNotices

KV_CONFIG_FILE = "kvConfig.json"


class NameserverState(msgspec.Struct):
    """Tables and settings of one nameserver."""

    machine: Machine
    settings: NameserverSettings
    started_ms: UptimeMs
    clock: ClockOwner
    spawn: Spawn
    routes: RouteTable = msgspec.field(default_factory=RouteTable)
    at_start: NameserverSettings = msgspec.field(default_factory=NameserverSettings)
    """The settings that a reset restores."""
    kv: KVConfig = msgspec.field(default_factory=KVConfig)
    filed: dict[Connection, dict[str, str]] = {}
    """By connection: the filed address of each broker that registered on it, by the address that it stated."""

    _min_id_notices: "MinIdNotices | None" = None
    _controller: "Controller | None" = None

    _near: dict[Connection, bool] = {}
    """Whether a client connects directly, not through a port mapping. It is determined once per connection."""

    def __post_init__(self) -> None:
        self.at_start = self.settings

    def file(self, connection: Connection, declared: str, advertised: bool, external: str = "") -> str:
        """Return the address to file a broker under, and store it for later requests of that connection."""
        peer_host, _ = parse_address(connection.peer.address)
        address = filed_address(declared, advertised, peer_host, connection.local_address[0], external)
        self.filed.setdefault(connection, {})[declared] = address
        return address

    def filed_as(self, connection: Connection, declared: str) -> str:
        """Return the filed address of a broker that registered on this connection; otherwise the given address."""
        return self.filed.get(connection, {}).get(declared, declared)

    def advertiser(self, connection: Connection) -> Callable[[str], str]:
        """Return a function that turns filed addresses into those for the client on this connection."""
        local_host, is_near = connection.local_address[0], self.is_near(connection)
        return lambda filed: advertised_address(filed, local_host, is_near)

    def is_near(self, connection: Connection) -> bool:
        """Return whether a client connects directly, not through a port mapping."""
        is_near = self._near.get(connection)
        if is_near is None:
            peer_host, _ = parse_address(connection.peer.address)
            # A client on this machine is always near, whatever the surroundings are. Most clients are on this machine,
            # and reading the surroundings takes 0.1 ms.
            is_near = Surroundings().has_near(peer_host) or self.machine.network.surroundings().has_near(peer_host)
            self._near[connection] = is_near
        return is_near

    def notify_replicas(self) -> None:
        """Notify the replicas of brokers whose lowest id has changed since the last call, if the settings say so."""
        changes = self.routes.take_min_id_changes()
        if changes and self.settings.notify_min_broker_id_changed:
            if self._min_id_notices is None:
                # Imported here because few nameservers notify replicas.
                from staticfire.nameserver.min_id_notices import MinIdNotices

                self._min_id_notices = MinIdNotices(self.machine, self.settings, self.spawn)
            self._min_id_notices.send(changes)

    @property
    def controller(self) -> "Controller":
        """Masters, slaves and elections. It is made when the first request needs it."""
        if self._controller is None:
            # Imported here because few nameservers get requests about replicas.
            from staticfire.nameserver.controller import Controller

            self._controller = Controller(self.machine, self.settings, self.routes)
        return self._controller

    async def close(self) -> None:
        """Close the connections to brokers, if there are any."""
        if self._controller is not None:
            await self._controller.close()
        if self._min_id_notices is not None:
            await self._min_id_notices.close()

    def forget(self, connection: Connection) -> None:
        """Drop the data of a closed connection."""
        self.filed.pop(connection, None)
        self._near.pop(connection, None)

    def keep(self, kv: KVConfig) -> None:
        """Replace the key-value configuration, on the disk first. Raises: OSError."""
        if self.settings.folder:
            replace_state_file(self.machine.files, f"{self.settings.folder}/{KV_CONFIG_FILE}", kv.encode())
        self.kv = kv
