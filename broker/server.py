"""One broker: its parts in order, from the folder lock to the routes, and back.

Starting: the store recovers, the small state is read, the ports open, the broker registers. Stopping: the routes go
first, then the ports; what producers were promised is written before the files close.
"""

import socket
from functools import partial

import msgspec

from staticfire.broker.administration import Administration
from staticfire.broker.clock.control import ClockControl
from staticfire.broker.delay.door import DelayDoor
from staticfire.broker.delay.service import DelayService
from staticfire.broker.disk_watch import DiskWatch
from staticfire.broker.groups.dead_letters import DeadLetters
from staticfire.broker.groups.offset_check import take_back_offsets
from staticfire.broker.handlers.assignment import AssignmentHandlers
from staticfire.broker.handlers.clients import ClientHandlers
from staticfire.broker.handlers.config import ConfigHandlers
from staticfire.broker.handlers.faults import FaultHandlers
from staticfire.broker.handlers.group_state import GroupStateHandlers
from staticfire.broker.handlers.groups import GroupHandlers
from staticfire.broker.handlers.journal import JournalHandlers
from staticfire.broker.handlers.locks import LockHandlers
from staticfire.broker.handlers.offsets import OffsetHandlers
from staticfire.broker.handlers.pull import PullHandlers
from staticfire.broker.handlers.recall import RecallHandlers
from staticfire.broker.handlers.reply import ReplyHandlers
from staticfire.broker.handlers.reset import ResetHandlers
from staticfire.broker.handlers.send import SendHandlers
from staticfire.broker.handlers.send_back import SendBackHandlers
from staticfire.broker.handlers.topics import TopicHandlers
from staticfire.broker.handlers.transactions import TransactionHandlers
from staticfire.broker.key_index import KeyIndexer
from staticfire.broker.orphan_topics import put_back_topics
from staticfire.broker.pop.door import PopDoor
from staticfire.broker.registration import Registration
from staticfire.broker.scrubbing import Scrubbing
from staticfire.broker.sends.intake import Intake
from staticfire.broker.sends.new_topics import NewTopics
from staticfire.broker.sends.targets import TargetTable
from staticfire.broker.settings import BrokerSettings, reach_of
from staticfire.broker.state import GROUPS_FILE, TOPICS_FILE, BrokerState, make_state
from staticfire.broker.statistics import CLOSE, CONNECT, IDLE
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.recovery import RecoveryReport
from staticfire.broker.timers.service import TimerService
from staticfire.broker.transactions.service import TransactionService
from staticfire.protocol.delay_levels import DelayLevels
from staticfire.protocol.errors import UsageError
from staticfire.protocol.names import SCHEDULE_TOPIC
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Dispatcher
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Machine
from staticfire.runtime.pool import ConnectionPool
from staticfire.runtime.server import IDLE_MS_MAX, SLOW_LOOK_MS, Server, ServerLimits
from staticfire.runtime.service import Service

log = logger("broker")

EXPIRY_STEP_MS = 250
# Held pulls are looked at that often, so one ends at most that much after its deadline.
VIP_PORT_BELOW = 2
STRAYS_TOLD_MAX = 8


class Broker(Service):
    """Stores messages, hands them out, and keeps what groups have consumed. RocketMQ: BrokerController."""

    def __init__(self, machine: Machine, settings: BrokerSettings, sock: socket.socket | None = None) -> None:
        """`sock`: a listening socket to take over instead of opening the port.

        Raises: UsageError (no folder).
        """
        super().__init__()
        if not settings.store_path_root_dir:
            raise UsageError("storePathRootDir is empty: the broker needs a folder for its data")
        self.settings = settings
        self._uptime_ms = machine.clock.uptime_ms
        self._sock = sock
        self.state = state = make_state(machine, settings)
        levels = DelayLevels.parse(settings.message_delay_level)
        self.delays = DelayService(levels, state.store, state.clock, state.config_files, self._settle)
        self.timers = TimerService(state, self._settle)
        index = _key_index(state)
        self._disk_watch = DiskWatch(
            state, self.pause_for, self._removed, index.forget_old, self.timers.first_waiting_position
        )
        self._pull = PullHandlers(state)
        self._clients = ClientHandlers(state, self._pull.look_anew)
        self._administration = Administration(state, self._pull, self.delays, index, self._disk_watch.remove_expired)
        self._dead_letters = DeadLetters(state)
        self._intake = Intake(state, DelayDoor(state.store, self.delays), self.timers, self._dead_letters)
        self.transactions = TransactionService(state, self._intake, self._settle)
        self._pops = PopDoor(state, self._dead_letters, self._settle, self.spawn, self.pause_for)
        self._clock_control = ClockControl(
            state, self.delays, self.timers, self.transactions, self._pops, self._disk_watch
        )
        asked_by_nameservers = Dispatcher(self._settle)
        self._clock_control.register(asked_by_nameservers)
        self._pool = ConnectionPool(machine, asked_by_nameservers, lost=self._lost_nameserver)
        self._registration = Registration(state, self._pool)
        self._targets = TargetTable(state, NewTopics(self._registration.announced, self.spawn, self._settle))
        self.dispatcher = self._file_handlers()
        limits = ServerLimits(settings.unfinished_frame_bytes_max, settings.unfinished_frame_ms_max)
        came = partial(state.statistics.channel, CONNECT)
        self._server = Server(machine, self.dispatcher, reach_of(settings), limits, self._disconnected, came)
        self._started = False

    def _file_handlers(self) -> Dispatcher:
        """Return what the broker answers, family by family."""
        state = self.state
        dispatcher = Dispatcher(self._settle, None if state.journals is None else state.journals.tap)
        for family in (
            SendHandlers(state, self._targets, self._intake, self.transactions),
            SendBackHandlers(state, self._intake, self._dead_letters),
            TransactionHandlers(state, self.transactions),
            RecallHandlers(state, self.timers),
            ReplyHandlers(state, self._targets, self._settle),
            self._pull,
            self._clients,
            OffsetHandlers(state),
            LockHandlers(state),
            self._pops,
            AssignmentHandlers(state, self._registration, self._pool),
            TopicHandlers(state, self._registration, self._pops),
            GroupHandlers(state, self._pops),
            GroupStateHandlers(state, self.delays, self.timers, self.transactions),
            ResetHandlers(state, self._targets, self._pull, self.delays, self.transactions, self.timers, self._pops),
            ConfigHandlers(state, self._registration, self._pool),
            JournalHandlers(state),
            FaultHandlers(state, dispatcher, lambda: self._server.connections),
            self._administration,
        ):
            family.register(dispatcher)
        return dispatcher

    @property
    def port(self) -> int:
        """The port in use."""
        return self._server.port or self.settings.listen_port

    # -- start and stop ------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        state, settings = self.state, self.settings
        state.machine.files.make_folder(settings.store_path_root_dir)
        report = state.store.open(state.machine.clock.uptime_ms)
        _log_recovery(settings.store_path_root_dir, report)
        state.flusher.start(self.spawn)
        self._started = True
        self._disk_watch.look()
        state.machine.files.make_folder(f"{settings.store_path_root_dir}/config")
        state.clock.restore()
        state.clock.not_before(state.store.last_stored_ms)
        self._restore_config_files(report)
        _put_back_topics(state)
        await state.config_files.saved()  # Before anything is stored: it would hide what has just been corrected.
        await self._administration.start(self.spawn, self.pause_for)
        await self._listen()
        self._begin_journal()
        self._registration.start(self.port)
        for address in self._registration.nameservers:
            self.spawn(self._registration.keep_registered(address), f"registration {address}")
        self.delays.start(self.spawn)
        self.timers.start(self.spawn, self.pause_for)
        self.transactions.start(self.spawn, self.pause_for)
        self._pops.start()
        self.spawn(self._expiry_loop(), "expiry")
        self.spawn(self._client_scan_loop(), "client_scan")
        self.spawn(self._idle_loop(), "idle_connections")
        self.spawn(self._slow_loop(), "slow_connections")
        self.spawn(self._offset_loop(), "offsets")
        self.spawn(self._disk_watch.loop(), "disk")
        scrubbing = Scrubbing(state.store, state.machine.clock, state.machine.workers, self.pause_for)
        self.spawn(scrubbing.loop(settings.scrub_bytes_per_second), "scrub")
        await self._registration.registered()

    def _restore_config_files(self, report: RecoveryReport) -> None:
        state = self.state
        state.config_files.restore(TOPICS_FILE, state.topics.snapshot, state.topics.restore)
        state.config_files.restore(GROUPS_FILE, state.groups.snapshot, state.groups.restore)
        _restore_offsets(state, report)
        state.topics.add_system_topics()
        state.groups.add_system_groups()
        self.delays.restore(state.topics.topics[SCHEDULE_TOPIC].read_queue_nums)
        self.timers.restore()
        self.transactions.restore()
        self._pops.restore()

    def _begin_journal(self) -> None:
        journals = self.state.journals
        if journals is not None:
            journals.open(f"{self.settings.broker_ip1 or self.settings.listen_host}:{self.port}")
            self.spawn(journals.loop(self.pause_for), "journal")

    async def _listen(self) -> None:
        host = self.settings.listen_host
        port = await self._server.listen_widely(host, self.settings.listen_port, self._sock)
        if self.settings.vip_port_enable and port > VIP_PORT_BELOW:
            try:
                await self._server.listen_widely(host, port - VIP_PORT_BELOW)
            except OSError as error:
                log.warning("vip_port_unavailable", port=port - VIP_PORT_BELOW, error=str(error))

    async def _stop(self) -> None:
        if not self._started:
            await self._pool.close()
            return
        await self._registration.unregister()
        await self._server.stop_accepting()
        for pull in self.state.held.take_all():
            self._pull.look_last(pull)
        self._pops.answer_held()
        await self._server.close()
        await self.dispatcher.close()
        await self._pool.close()
        await self.delays.stop()
        await self.timers.stop()
        await self.transactions.stop()
        await self._pops.stop()
        await self._administration.stop()
        if self.state.journals is not None:
            self.state.journals.close()
        await self.state.flusher.stop()
        self.delays.close()
        try:
            await self.state.config_files.close()
        finally:
            self.state.store.close()

    # -- while running -------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Write the burst, answer its sends, wake who waited for it; what those took is another burst."""
        pops = self._pops
        while True:
            if pops.service is not None and pops.service.log.has_work:
                pops.service.log.flush()
            arrivals = self._write()
            if pops.service is None or not pops.settled(arrivals):
                break
        self._clock_control.settled()

    def _write(self) -> dict[Queue, int]:
        """Write the burst; return the queues that got messages, from which offset."""
        began_ms = self._uptime_ms()
        arrivals = self.state.store.commit()
        if arrivals:
            self.state.progress.activity += 1
            self._administration.stored(arrivals, self._uptime_ms() - began_ms)
        if arrivals and len(self.state.held):
            self._pull.arrived(arrivals)
        return arrivals

    def _removed(self) -> None:
        """Retention has removed records."""
        self.delays.queue.keep_within_bounds()
        self.timers.keep_within_bounds()

    def _disconnected(self, connection: Connection) -> None:
        self.state.statistics.channel(CLOSE)
        self._clients.disconnected(connection)
        self._pops.disconnected(connection)

    def _lost_nameserver(self, address: str, _: Connection) -> None:
        self._registration.lost(address)

    async def _expiry_loop(self) -> None:
        clock, held = self.state.machine.clock, self.state.held
        while True:
            await self.pause_for(EXPIRY_STEP_MS)
            if held.next_deadline_ms is not None and held.next_deadline_ms <= clock.uptime_ms():
                self._pull.expire(clock.uptime_ms())
            self._clients.let_in(clock.uptime_ms())

    async def _client_scan_loop(self) -> None:
        while True:
            await self.pause_for(max(1, self.state.settings.channel_scan_interval_ms))
            uptime_ms = self.state.machine.clock.uptime_ms()
            self._clients.expire(uptime_ms)
            self.state.queue_locks.expire(uptime_ms)

    async def _idle_loop(self) -> None:
        while True:
            await self.pause_for(IDLE_MS_MAX)
            self.state.statistics.channel(IDLE, times=self._server.close_idle())

    async def _slow_loop(self) -> None:
        while True:
            await self.pause_for(SLOW_LOOK_MS)
            self._server.close_slow()

    async def _offset_loop(self) -> None:
        while True:
            await self.pause_for(max(1, self.state.settings.flush_consumer_offset_interval))
            if self.state.offsets.dirty:
                self.state.config_files.changed("consumerOffset.json")


def _key_index(state: BrokerState) -> KeyIndexer:
    folder = f"{state.settings.store_path_root_dir}/index"
    return KeyIndexer(state.machine, folder, state.store, lambda: state.progress.activity)


def _restore_offsets(state: BrokerState, report: RecoveryReport) -> None:
    name = "consumerOffset.json"

    def snapshot() -> bytes:
        return state.offsets.snapshot(state.store.max_position)

    state.config_files.restore(name, snapshot, state.offsets.restore, after_log=True)
    if state.offsets.left_out:
        words = "no offset has more than 64 bits: these groups go on as if they had none"
        log.error(
            "offsets_left_out", offsets=len(state.offsets.left_out), first=state.offsets.left_out[0], reason=words
        )
    knows_log = report.was_closed or state.offsets.saved_position is not None
    is_doubtful = report.is_damaged or report.rebuilt or report.short_queues > 0 or not knows_log
    taken_back = take_back_offsets(state.offsets, state.store, is_doubtful)
    if taken_back:
        words = "groups stood behind the end of what the log has left; they go on there, and skip nothing new"
        log.error("offsets_taken_back", offsets=len(taken_back), first=taken_back[0]._asdict(), reason=words)
    if state.offsets.dirty:
        state.config_files.changed(name)


def _put_back_topics(state: BrokerState) -> None:
    for topic in put_back_topics(state.topics, state.store, state.settings):
        reason = "it has messages, but topics.json doesn't know it: the broker was killed before it was written"
        log.warning("topic_put_back", topic=topic.topic_name, queues=topic.read_queue_nums, reason=reason)
    if strays := state.store.strays:
        reason = "no queue has such a folder: nothing is read there, and none can be made there; move them away"
        log.warning("stray_files_ignored", files=len(strays), first=strays[:STRAYS_TOLD_MAX], reason=reason)


def _log_recovery(folder: str, report: RecoveryReport) -> None:
    facts = msgspec.structs.asdict(report)
    if report.is_damaged:
        words = (
            "acknowledged messages may be gone: the power went or an fsync failed before they were safe (problems says "
            "so), someone damaged the log, or the disk lost what it had synced"
        )
        log.error("store_damaged", folder=folder, reason=words, **facts)
    elif report.short_queues:
        words = "files of queues were removed, cut or damaged while no broker ran; problems says what became of them"
        log.error("queue_files_lost", folder=folder, reason=words, **facts)
    elif report.cut_bytes:
        words = "the end of the log was cut off: a write that the last process didn't finish, so nobody was told of it"
        log.warning("store_opened", folder=folder, reason=words, **facts)
    else:
        log.info("store_opened", folder=folder, **facts)
