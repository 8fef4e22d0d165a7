"""One broker: ports and connections, and a core that can be replaced while they are kept.

At start core.py opens the folder, the ports are opened, and the broker registers. At stop the routes are removed first,
then the ports are closed; everything promised to producers is written before the files are closed. Saving or restoring
a snapshot ends the core and begins a new one; clients stay connected.
"""

import asyncio
import socket
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from staticfire.broker.core import BrokerCore
from staticfire.broker.delay.service import DelayService
from staticfire.broker.pop.lazy_service import LazyPopService
from staticfire.broker.replication.lineage import with_last_role
from staticfire.broker.request_families import NextCore, Surface
from staticfire.broker.settings import BrokerSettings, reach_of
from staticfire.broker.state import BrokerState
from staticfire.broker.statistics import CLOSE, CONNECT, IDLE
from staticfire.broker.tables import BrokerTables
from staticfire.broker.timers.service import TimerService
from staticfire.broker.transactions.service import TransactionService
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import refusal
from staticfire.protocol.errors import StaticfireError, UsageError
from staticfire.protocol.requests.clock import ClockReading
from staticfire.runtime.client_machine import connecting
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Call, Dispatcher, failure
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Machine
from staticfire.runtime.pool import ConnectionPool
from staticfire.runtime.server import IDLE_MS_MAX, Server, ServerLimits, ServerTls
from staticfire.runtime.service import Service

if TYPE_CHECKING:
    from staticfire.broker.replication.role_change import RoleChange
    from staticfire.protocol.requests.replication import ReplicationState
    from staticfire.runtime.credentials import Credentials

log = logger("broker")

VIP_PORT_BELOW = 2


def _own_credentials(settings: BrokerSettings) -> "Credentials | None":
    """Return the access key for this broker's requests to other brokers. Raises: UsageError."""
    text = settings.inner_client_authentication_credentials
    if not text:
        return None
    from staticfire.runtime.credentials import Credentials  # here: most brokers that are started alone have none

    return Credentials.parse_setting(text)


class Broker(Service):
    """Stores messages, delivers them, and keeps the groups' offsets. RocketMQ: BrokerController."""

    def __init__(self, machine: Machine, settings: BrokerSettings, sock: socket.socket | None = None) -> None:
        """`sock`: a listening socket to use instead of opening the port.

        Raises: UsageError (no folder, or that of another broker; a file of TLS that can't be used), StorageError (the
        last role can't be read).
        """
        super().__init__()
        if not settings.store_path_root_dir:
            raise UsageError("storePathRootDir is empty: the broker needs a folder for its data")
        self.settings = settings = with_last_role(machine.files, settings)
        self._machine = machine
        self._sock = sock
        self.dispatcher = Dispatcher()
        self._nameserver_requests = Dispatcher()
        self._pool = ConnectionPool(
            connecting(machine, settings), self._nameserver_requests, lost=self._lost_nameserver,
            credentials=_own_credentials(settings),
        )  # fmt: skip
        self._surface = Surface(
            self.dispatcher,
            lambda: self.connections,
            self._pool,
            self._listen,
            self._leave_clients,
            self._change,
            self._change_role,
        )
        self._core = core = BrokerCore(machine, settings, self._surface)
        self._has_core = False
        self._is_ready = asyncio.Event()
        self._changing: asyncio.Task[None] | None = None
        self._next_change: RoleChange | None = None
        """What the new core wants to become, which began to copy before the change that began it was done."""
        self.dispatcher.take_over(core.dispatcher)
        self._nameserver_requests.take_over(core.nameserver_requests)
        limits = ServerLimits(settings.unfinished_frame_bytes_max, settings.unfinished_frame_ms_max)
        came = partial(core.tables.statistics.channel, CONNECT)
        tls = ServerTls(settings, self._refused_tls)
        self._server = Server(machine, self.dispatcher, reach_of(settings), limits, self._disconnected, came, tls)

    @property
    def connections(self) -> Mapping[Connection, None]:
        """The open connections, in the order of arrival."""
        return self._server.connections

    @property
    def port(self) -> int:
        """The port in use."""
        return self._server.port or self.settings.listen_port

    @property
    def state(self) -> BrokerState:
        """What belongs to the broker as a whole. It is replaced when a snapshot is saved or restored."""
        return self._core.tables.state

    @property
    def tables(self) -> BrokerTables:
        """The tables of the core. They are replaced together with it."""
        return self._core.tables

    def replication_state(self) -> "ReplicationState":
        """Return how this broker takes part in replication, as `staticfire replication` shows it."""
        return self._core.replication_state()

    @property
    def delays(self) -> DelayService:
        return self._core.waiting.delays

    @property
    def timers(self) -> TimerService:
        return self._core.waiting.timers

    @property
    def transactions(self) -> TransactionService:
        return self._core.waiting.transactions

    @property
    def pops(self) -> LazyPopService:
        return self._core.pops

    def _refused_tls(self, address: str, reason: str) -> None:
        journals = self.tables.journals
        if journals is not None and journals.events is not None:
            journals.events.tls_refused(address, reason)

    # -- start and stop ------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        await self._begin(self._core)
        self.spawn(self._idle_loop(), "idle_connections")
        self.spawn(self._server.slow_loop(self.pause_for), "slow_connections")
        self._is_ready.set()

    async def _begin(self, core: BrokerCore) -> None:
        await core.__aenter__()
        self._has_core = True
        self.spawn(core.wait(), "core")  # A crash of the core is a crash of the broker.

    async def _listen(self) -> int:
        if self._server.port:
            return self._server.port
        host = self.settings.listen_host
        port = await self._server.listen_widely(host, self.settings.listen_port, self._sock)
        if self.settings.vip_port_enable and port > VIP_PORT_BELOW:
            try:
                await self._server.listen_widely(host, port - VIP_PORT_BELOW)
            except OSError as error:
                log.warning("vip_port_unavailable", port=port - VIP_PORT_BELOW, error=str(error))
        return port

    async def _stop(self) -> None:
        if self._changing is not None:
            await asyncio.wait([self._changing])
        if self._has_core:
            await self._end_core()
        await self._server.close()
        await self._pool.close()

    async def _leave_clients(self, core: BrokerCore) -> None:
        """Disconnect all clients and nameservers, unless another core is about to begin."""
        if self._changing is not None:
            await core.finish_calls()
            return
        if core.is_open:
            await core.registration.unregister()
            await self._server.stop_accepting()
            core.answer_held()
            await self._server.close()
            await core.dispatcher.close()
            if core.tables.journals is not None:
                core.tables.journals.close()
        await self._pool.close()

    # -- another core --------------------------------------------------------------------------------------------

    def _change(self, call: Call) -> None:
        """Save, restore or remove a snapshot, and respond afterwards."""
        if self._changing is not None:
            words = "a snapshot is being saved, restored or removed: try again"
            call.answer(refusal(ResponseCode.SYSTEM_BUSY, words))
            return
        self._changing = self.spawn(self._carry_out(call), "snapshot")

    async def _carry_out(self, call: Call) -> None:
        from staticfire.broker.snapshots.change import change  # here: most brokers never save one

        try:
            core = NextCore(self._end_core, self._next_core, self._dispatchers, self._lost)
            answer = await change(call.request, self.tables, core)
        except (StaticfireError, OSError) as error:
            call.answer(failure(error, call))
            if not self._has_core:
                raise  # Without a core, no request can be handled any more.
            return
        finally:
            self._changed()
        call.answer(answer)

    def _change_role(self, change: "RoleChange", call: Call | None) -> None:
        """Become a master or a slave, and respond afterwards, if there is a request. The current core ends."""
        if self._changing is not None:
            if call is not None:
                words = "the broker is changing its role, or a snapshot is being saved or restored: try again"
                call.answer(refusal(ResponseCode.SYSTEM_BUSY, words))
            else:
                self._next_change = change
            return
        self._changing = self.spawn(self._carry_out_role(change, call), "role")

    def _changed(self) -> None:
        """Note that a change is done, and begin the one that its core has requested meanwhile."""
        self._changing = None
        change, self._next_change = self._next_change, None
        if change is not None and self._has_core and not self._is_left:
            self._change_role(change, None)

    async def _carry_out_role(self, change: "RoleChange", call: Call | None) -> None:
        from staticfire.broker.replication.between_cores import take_role  # here: most brokers keep their role

        try:
            await self._is_ready.wait()
            core = NextCore(self._end_core, self._next_core, self._dispatchers, self._lost)
            answer = await take_role(change, self.tables, core)
        except (StaticfireError, OSError) as error:
            log.error("role_not_changed", role=change.role, error=str(error))
            if call is not None:
                call.answer(failure(error, call))
            if not self._has_core:
                raise
            return
        finally:
            self._changed()
        if call is not None:
            call.answer(answer)

    def _dispatchers(self) -> list[tuple[Dispatcher, Dispatcher]]:
        core = self._core
        return [(self.dispatcher, core.dispatcher), (self._nameserver_requests, core.nameserver_requests)]

    async def _end_core(self) -> None:
        self._has_core = False
        self._core.stop()
        await self._core.__aexit__()

    async def _next_core(
        self, message_time: ClockReading | None, settings: BrokerSettings | None = None
    ) -> BrokerTables:
        before = self._core.tables
        settings = settings or before.state.settings
        self._next_change = None  # It was the core's that has ended.
        self._core = core = BrokerCore(self._machine, settings, self._surface, before, message_time)
        await self._begin(core)
        return core.tables

    # -- while running -------------------------------------------------------------------------------------------

    def _disconnected(self, connection: Connection) -> None:
        self.tables.statistics.channel(CLOSE)
        self._lost(connection)

    def _lost(self, connection: Connection) -> None:
        self._core.disconnected(connection)

    def _lost_nameserver(self, address: str, _: Connection) -> None:
        self._core.registration.lost(address)

    async def _idle_loop(self) -> None:
        while True:
            await self.pause_for(IDLE_MS_MAX)
            self.tables.statistics.channel(IDLE, times=self._server.close_idle())
