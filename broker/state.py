"""What belongs to a broker as a whole: its machine, settings, clock and store, and what it permits."""

from collections.abc import Callable

import msgspec

from staticfire.broker.clock.message_clock import MessageClock
from staticfire.broker.settings import BrokerSettings
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.permissions import READ, WRITE
from staticfire.protocol.requests.clock import ClockReading
from staticfire.runtime.machine import DiskUse, Machine


class BrokerState(msgspec.Struct):
    """What every part of a broker may use. Tables are given to the parts that use them: tables.py."""

    machine: Machine
    settings: BrokerSettings
    clock: MessageClock
    store: MessageStore
    at_start: BrokerSettings
    """The settings that a reset restores: those with which the process started, with the role that it has now."""
    disk_use: DiskUse = DiskUse(0, 0)
    """The disk's usage at the last check."""
    is_read_only: bool = False
    """Whether a fault rule revokes the write permission, independent of brokerPermission."""
    permission: int = 0
    """What clients may do: brokerPermission, without WRITE if the broker is read-only.

    Cached because each send reads it.
    """
    masters_waiting_position: int = 0
    """Of a slave: no message before this log position waits at its master, as far as the master has reported it."""
    _keepers: list[Callable[[BrokerSettings], None]] = []

    def __post_init__(self) -> None:
        self._permit()

    def use(self, settings: BrokerSettings) -> None:
        """Replace the settings while the broker runs, and notify all parts that use them."""
        self.settings = settings
        self._permit()
        for keeper in self._keepers:
            keeper(settings)

    def set_clock(self, reading: ClockReading) -> None:
        """Set message time as the nameserver has moved it. Raises: StorageError."""
        self.clock.not_before(self.store.last_stored_ms)
        self.clock.set(reading)

    def follow_clock(self, reading: ClockReading) -> None:
        """Set the time with which the nameserver responded to a registration. Raises: StorageError."""
        self.clock.not_before(self.store.last_stored_ms)
        self.clock.follow(reading)

    def be_read_only(self, is_read_only: bool) -> None:
        """Revoke the write permission, or restore what brokerPermission allows."""
        self.is_read_only = is_read_only
        self._permit()

    def _permit(self) -> None:
        permission = self.settings.broker_permission
        self.permission = permission & ~WRITE if self.is_read_only else permission

    def on_settings(self, keeper: Callable[[BrokerSettings], None]) -> None:
        """Call `keeper` with new settings, for code that derives values from settings and keeps them."""
        self._keepers.append(keeper)

    @property
    def cluster(self) -> str:
        return self.settings.broker_cluster_name

    @property
    def writable(self) -> bool:
        """Whether the broker as a whole accepts messages."""
        return self.permission & WRITE != 0

    @property
    def readable(self) -> bool:
        """Whether the broker as a whole delivers messages."""
        return self.permission & READ != 0
