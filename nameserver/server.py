"""The nameserver: it keeps which brokers exist and which of them has which topic. RocketMQ: NamesrvController.

    async with Nameserver(live_machine(), NameserverSettings(listen_port=0)) as nameserver:
        ... NAMESRV_ADDR=127.0.0.1:{nameserver.port}

Only the key-value configuration is stored on disk. After a restart, brokers register again.
"""

import socket
from collections.abc import Mapping

from staticfire.nameserver.clock_owner import ClockOwner
from staticfire.nameserver.handlers import add_handlers
from staticfire.nameserver.handlers.brokers import drop_connection, drop_silent_brokers
from staticfire.nameserver.handlers.refused import RefusedConnections
from staticfire.nameserver.kv_config import KVConfig
from staticfire.nameserver.settings import NameserverSettings
from staticfire.nameserver.state import KV_CONFIG_FILE, NameserverState
from staticfire.protocol.errors import UsageError, os_words
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Dispatcher
from staticfire.runtime.folders import sync_folders_above
from staticfire.runtime.log import logger
from staticfire.runtime.machine import FolderLock, Machine
from staticfire.runtime.server import IDLE_MS_MAX, Server, ServerLimits, ServerTls
from staticfire.runtime.service import Service
from staticfire.runtime.state_file import read_state_file

log = logger("nameserver")


class Nameserver(Service):
    """One nameserver. `async with` returns when it is ready; on exit its port is free again."""

    def __init__(
        self, machine: Machine, settings: NameserverSettings | None = None, sock: socket.socket | None = None
    ) -> None:
        """`sock`: a listening socket to use instead of host and port of the settings."""
        super().__init__()
        clock = ClockOwner(machine.clock, self.pause_for)
        self.state = NameserverState(
            machine, settings or NameserverSettings(), machine.clock.uptime_ms(), clock, self.spawn
        )
        refused = RefusedConnections(self.state)
        self.dispatcher = Dispatcher()
        self._server = Server(
            machine,
            self.dispatcher,
            limits=ServerLimits(
                self.state.settings.unfinished_frame_bytes_max, self.state.settings.unfinished_frame_ms_max
            ),
            lost=self._lost,
            tls=ServerTls(self.state.settings, refused.note),
        )
        self._is_stopping = False
        self._sock = sock
        self._folder_lock: FolderLock | None = None
        add_handlers(self.dispatcher, self.state, lambda: self.connections, refused)

    @property
    def connections(self) -> Mapping[Connection, None]:
        """The open connections, in the order of arrival."""
        return self._server.connections

    @property
    def port(self) -> int:
        """The port in use, also if port 0 was requested."""
        return self._server.port

    async def _start(self) -> None:
        if self.state.settings.as_client() is not None:
            # Imported here, because few nameservers open connections through TLS.
            from staticfire.runtime.client_machine import check_client_files

            check_client_files(self.state.settings)
        self.state.started_ms = self.state.machine.clock.uptime_ms()
        self._open_folder()
        await self._listen()
        self.spawn(self._expiry_loop(), "nameserver_expiry")
        self.spawn(self._idle_loop(), "nameserver_idle_connections")
        self.spawn(self._server.slow_loop(self.pause_for), "nameserver_slow_connections")
        self.spawn(self.state.clock.skip_loop(), "nameserver_clock")
        log.info("nameserver_started", port=self.port)

    async def _stop(self) -> None:
        self._is_stopping = True
        await self._server.close()
        await self.dispatcher.close()
        await self.state.close()
        if self._folder_lock is not None:
            self._folder_lock.release()

    def _open_folder(self) -> None:
        """Lock the folder for this process and read its content. Raises: UsageError, StorageError."""
        folder, files = self.state.settings.folder, self.state.machine.files
        if not folder:
            return
        path = f"{folder}/{KV_CONFIG_FILE}"
        try:
            files.make_folder(folder)
            sync_folders_above(files, folder)
            self._folder_lock = files.lock_folder(folder)
            self.state.kv = read_state_file(files, path, KVConfig.decode) or KVConfig()
        except BlockingIOError:
            raise UsageError(
                f"{folder} is in use by another process: stop that process, or use another folder"
            ) from None
        except OSError as error:
            words = f"{folder} can't be used: {os_words(error)}; use a writable folder"
            raise UsageError(words) from None

    async def _listen(self) -> None:
        """Open the port; if the host means every address, on IPv6 too. Raises: UsageError."""
        host, port = self.state.settings.listen_host, self.state.settings.listen_port
        try:
            await self._server.listen_widely(host, port, self._sock)
        except OSError as error:
            words = f"the nameserver can't listen: {os_words(error)}; choose another listenPort, or 0 for any free port"
            raise UsageError(words) from None

    def _lost(self, connection: Connection) -> None:
        if self._is_stopping:
            # The nameserver closes these connections itself, so their brokers aren't lost.
            return
        self.state.clock.left(connection)
        drop_connection(self.state, connection)

    async def _idle_loop(self) -> None:
        while True:
            await self.pause_for(IDLE_MS_MAX)
            self._server.close_idle()

    async def _expiry_loop(self) -> None:
        while True:
            await self.pause_for(self.state.settings.scan_not_active_broker_interval)
            drop_silent_brokers(self.state)
