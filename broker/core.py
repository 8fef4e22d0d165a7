"""The core of a broker, from opening its folder to closing it: tables, services, handlers, loops.

At start the store recovers, the small state files are read, and the broker registers with its nameservers. At stop,
everything that producers were promised is written before the files are closed. To restore a snapshot, a broker replaces
its core but keeps its ports and connections (server.py); the new core starts from the folder as in any other start.

tables.py, services.py and request_families.py create the parts. Here is their order: what a start, a burst and a stop
do one after the other.
"""

from typing import TYPE_CHECKING

from staticfire.broker.clock.control import ClockControl
from staticfire.broker.config_files import OFFSETS_FILE
from staticfire.broker.replication.around import BrokerAround
from staticfire.broker.replication.lineage import SYNC_MASTER, is_slave
from staticfire.broker.replication.part import ReplicationPart
from staticfire.broker.request_families import RequestFamilies, Surface
from staticfire.broker.restoring import find_orphan_topics, open_store, restore_tables
from staticfire.broker.scrubbing import Scrubbing
from staticfire.broker.services import make_services
from staticfire.broker.settings import BrokerSettings
from staticfire.broker.store.recovery import RecoveryReport
from staticfire.broker.tables import BrokerTables, make_tables
from staticfire.protocol.names import SCHEDULE_TOPIC
from staticfire.protocol.requests.clock import ClockReading
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Dispatcher
from staticfire.runtime.machine import Machine
from staticfire.runtime.service import Service

if TYPE_CHECKING:
    from staticfire.protocol.requests.replication import ReplicationState

# How long a core that ends waits for the remaining requests to be handled.
CALLS_MS_MAX = 2_000


class BrokerCore(Service):
    """Stores messages, delivers them, and keeps the groups' offsets."""

    def __init__(
        self,
        machine: Machine,
        settings: BrokerSettings,
        surface: Surface,
        before: BrokerTables | None = None,
        message_time: ClockReading | None = None,
    ) -> None:
        """Create the core. `before`: the tables of this broker's last core: its clients and counters are taken over.

        `message_time` is the message time to set.
        """
        super().__init__()
        self.settings = settings
        self._is_first = before is None
        self._topics_before = frozenset(() if before is None else before.topics.topics)
        self._message_time = message_time
        self._surface = surface
        self._uptime_ms = machine.clock.uptime_ms
        self.tables = tables = make_tables(machine, settings, before)
        self._state = tables.state
        self._progress = tables.groups.progress
        self._services = services = make_services(tables, surface.pool, self.settle, self.spawn, self.pause_for)
        self.registration = services.registration
        self.waiting = services.waiting
        self.pops = services.pops
        self._transactions = services.waiting.transactions
        self._administration = services.administration
        self._key_index = services.administration.index
        self._statistics = tables.statistics
        self._families = families = RequestFamilies(tables, services, surface, self.settle)
        self._pulls = families.pulls
        self._is_slave = is_slave(settings)
        self._replication = self._make_replication()
        self._clients = families.clients
        self._clock_control = ClockControl(
            self._state, tables.quiescence, self._progress, self.waiting, self.pops, services.disk_watch
        )
        self.nameserver_requests = Dispatcher(self.settle)
        self._clock_control.register(self.nameserver_requests)
        journals = tables.journals
        self.dispatcher = Dispatcher(self.settle, None if journals is None else journals.tap)
        families.register(self.dispatcher)
        self._replication.register(self.dispatcher)
        self._put_role_in_front()
        self._is_damaged = False
        self._hole_position = -1
        self.is_open = False
        """Whether the files are or were open, so that there is something to close."""

    def _make_replication(self) -> ReplicationPart:
        services, surface = self._services, self._surface
        return ReplicationPart(
            BrokerAround(
                self.tables, services.registration, self._families.assignments, self._families.access, surface.pool,
                services.waiting.first_position, self.settle, self._pulls.answer_topic, surface.change_role, self.spawn,
                self.pause_for,
            )
        )  # fmt: skip

    def replication_state(self) -> "ReplicationState":
        """Return how this broker takes part in replication."""
        return self._replication.describe()

    def _put_role_in_front(self) -> None:
        """Let a slave, or a master that waits for slaves, handle requests before their handlers."""
        if self._is_slave:
            from staticfire.broker.replication.slave_front import SlaveFront  # here: masters don't need it

            SlaveFront(self.dispatcher, self._state).intercept()
        elif self.settings.broker_role == SYNC_MASTER:
            from staticfire.broker.replication.enough_replicas import EnoughReplicas  # here: few brokers need it

            new_topics = self._services.targets.new_topics
            EnoughReplicas(self.dispatcher, self._state, self._replication, new_topics).intercept()

    # -- start and stop ------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        await self._open()
        port = await self._surface.listen()
        self._begin_journal(port)
        self.registration.start(port, has_fewer_topics=not self._topics_before <= self.tables.topics.topics.keys())
        is_replaced = await self._replication.start(self._is_first, self._is_damaged, self._hole_position)
        if self._hole_position >= 0:
            self._state.store.forget_hole()
        if not is_replaced:
            for address in self.registration.nameservers:
                self.spawn(self.registration.keep_registered(address), f"registration {address}")
        if not self._is_slave:
            self.waiting.start(self.spawn, self.pause_for)
            self.pops.start()
            self.spawn(self._begin_time(), "message_time")
        self._start_loops()
        if not is_replaced:
            await self.registration.registered()
        if self._is_first:
            await self._replication.ready()

    async def _begin_time(self) -> None:
        """Deliver as soon as message time is known: it may have been frozen since this broker knew it."""
        await self.registration.time_known()
        self._state.clock.begin()

    async def _open(self) -> None:
        """Read what the folder has, correct it, and make the corrections durable. Raises: StorageError."""
        state, tables = self._state, self.tables
        folder = self.settings.store_path_root_dir
        state.machine.files.make_folder(folder)
        self._finish_restoring()
        report = open_store(tables)
        self._is_damaged, self._hole_position = report.may_lack_records, report.hole_position
        tables.flusher.start(self.spawn)
        self.is_open = True
        self._services.disk_watch.look()
        state.machine.files.make_folder(f"{folder}/config")
        state.clock.restore()
        state.clock.not_before(state.store.last_stored_ms)
        if self._message_time is not None:
            state.clock.set(self._message_time)
        self._restore(report)
        # This must happen before anything is stored: new messages would hide what has just been corrected.
        await tables.config_files.saved()
        await self._administration.start(self.spawn, self.pause_for)

    def _restore(self, report: RecoveryReport) -> None:
        tables = self.tables
        restore_tables(tables, report)
        if not self._is_slave:
            self.waiting.restore(tables.topics.topics[SCHEDULE_TOPIC].read_queue_nums)
            self.pops.restore()
            tables.groups.offsets.copied_position = None
        else:
            tables.groups.offsets.begin_copying(tables.state.store.max_position)
        self._families.assignments.restore()
        self._families.access.restore()
        tables.config_files.restored()
        find_orphan_topics(tables)

    def _finish_restoring(self) -> None:
        """Finish restoring a snapshot if the broker was ended during it. Raises: StorageError."""
        files, folder = self._state.machine.files, self.settings.store_path_root_dir
        if files.exists(f"{folder}/restoring/plan"):
            from staticfire.broker.snapshots.plan import RestorePlan  # here: it is needed only after such an end

            RestorePlan(files, folder).finish()

    def _begin_journal(self, port: int) -> None:
        journals = self.tables.journals
        if journals is not None:
            if self._is_first:
                journals.open(f"{self.settings.broker_ip1 or self.settings.listen_host}:{port}")
            self.spawn(journals.loop(self.pause_for), "journal")

    def _start_loops(self) -> None:
        state = self._state
        self.spawn(self._pulls.expiry_loop(), "expiry")
        self.spawn(self._clients.let_in_loop(), "let_in")
        self.spawn(self._client_scan_loop(), "client_scan")
        self.spawn(self._offset_loop(), "offsets")
        self.spawn(self._services.disk_watch.loop(), "disk")
        if self._families.access.has_file:
            self.spawn(self._families.access.watch_loop(self.pause_for), "plain_acl")
        scrubbing = Scrubbing(state.store, state.machine.clock, state.machine.workers, self.pause_for)
        self.spawn(scrubbing.loop(self.settings.scrub_bytes_per_second), "scrub")

    async def _stop(self) -> None:
        await self._surface.leave(self)
        if not self.is_open:
            return
        if not self._is_slave:  # A slave delivers nothing, and never read what is saved here.
            await self.waiting.stop()
        await self.pops.stop()
        await self._administration.stop()
        await self.tables.flusher.stop()
        self.waiting.delays.close()
        try:
            await self.tables.config_files.close()
        finally:
            self._state.store.close()

    async def finish_calls(self) -> None:
        """Give pending requests a short time to get their responses, and then end them."""
        self._services.targets.new_topics.resume_all()
        self.answer_held()
        self._clock_control.look_now()
        await self.dispatcher.finish(CALLS_MS_MAX)
        await self.nameserver_requests.finish(CALLS_MS_MAX)

    def disconnected(self, connection: Connection) -> None:
        """Drop everything that waits on a connection that was closed."""
        self._clients.disconnected(connection)
        self._families.access.disconnected(connection)
        self.pops.disconnected(connection)
        self._pulls.disconnected()
        self._replication.disconnected(connection)

    def answer_held(self) -> None:
        """Respond to all pulls and pops that wait for messages."""
        self._replication.answer_held()
        self._pulls.answer_held()
        self.pops.answer_held()

    # -- while running -------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Write the burst, settle its appends, and wake consumers that wait for its messages.

        Repeat for what they append.
        """
        while True:
            pops = self.pops.service
            if pops is not None:
                pops.log.flush()
            self._transactions.flush()
            began_ms = self._uptime_ms()
            arrivals = self._state.store.commit()
            if arrivals:
                self._progress.activity += 1
                self._statistics.stored(arrivals, self._state.store.max_position, self._uptime_ms() - began_ms)
                self._key_index.wake()
                self._pulls.arrived(arrivals)
                self._replication.written()
            if pops is None or not pops.settled(arrivals):
                break
        self._clock_control.settled()

    async def _client_scan_loop(self) -> None:
        while True:
            await self.pause_for(max(1, self._state.settings.channel_scan_interval_ms))
            uptime_ms = self._uptime_ms()
            self._clients.expire(uptime_ms)
            self.tables.groups.queue_locks.expire(uptime_ms)

    async def _offset_loop(self) -> None:
        while True:
            await self.pause_for(max(1, self._state.settings.flush_consumer_offset_interval))
            if self.tables.groups.offsets.dirty:
                self.tables.config_files.changed(OFFSETS_FILE)
