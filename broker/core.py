"""The core of a broker, from opening its folder to closing it: tables, services, handlers, loops.

At start the store recovers, the small state files are read, and the broker registers with its nameservers. At stop,
everything that producers were promised is written before the files are closed. To restore a snapshot, a broker replaces
its core but keeps its ports and connections (server.py); the new core starts from the folder as in any other start.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

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
from staticfire.broker.handlers.imports import ImportHandlers
from staticfire.broker.handlers.journal import JournalHandlers
from staticfire.broker.handlers.locks import LockHandlers
from staticfire.broker.handlers.metrics import MetricHandlers
from staticfire.broker.handlers.offsets import OffsetHandlers
from staticfire.broker.handlers.pull import PullHandlers
from staticfire.broker.handlers.recall import RecallHandlers
from staticfire.broker.handlers.reply import ReplyHandlers
from staticfire.broker.handlers.reset import ResetHandlers
from staticfire.broker.handlers.reset_offset import ResetOffsetHandlers
from staticfire.broker.handlers.send import SendHandlers
from staticfire.broker.handlers.send_back import SendBackHandlers
from staticfire.broker.handlers.snapshots import SnapshotCalls, SnapshotHandlers
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
from staticfire.broker.settings import BrokerSettings
from staticfire.broker.state import GROUPS_FILE, TOPICS_FILE, BrokerState, make_state
from staticfire.broker.static_topics.front import StaticTopicFront
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.recovery import RecoveryReport
from staticfire.broker.timers.service import TimerService
from staticfire.broker.transactions.service import TransactionService
from staticfire.protocol.delay_levels import DelayLevels
from staticfire.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC
from staticfire.protocol.requests.clock import ClockReading
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Dispatcher
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Machine
from staticfire.runtime.pool import ConnectionPool
from staticfire.runtime.service import Service

log = logger("broker")

STRAYS_TOLD_MAX = 8
# How long a core that ends waits for the remaining requests to be handled.
CALLS_MS_MAX = 2_000


class Surface(NamedTuple):
    """What a broker keeps while its core is replaced: the connections to its clients and nameservers."""

    dispatcher: Dispatcher
    """The dispatcher of all incoming connections."""
    connections: Callable[[], Iterable[Connection]]
    pool: ConnectionPool
    listen: Callable[[], Awaitable[int]]
    """Opens the ports unless they are open; returns the main one."""
    leave: "Callable[[BrokerCore], Awaitable[None]]"
    """Disconnects clients and nameservers, before a core closes its files."""
    change: SnapshotCalls
    """Carries out what a core can't do itself, because it ends during the operation."""


class BrokerCore(Service):
    """Stores messages, delivers them, and keeps the groups' offsets."""

    def __init__(
        self,
        machine: Machine,
        settings: BrokerSettings,
        surface: Surface,
        before: BrokerState | None = None,
        message_time: ClockReading | None = None,
    ) -> None:
        """Create the core. `before` is the state of this broker's last core: its clients and counters are taken over.

        `message_time` is the message time to set.
        """
        super().__init__()
        self.settings = settings
        self._is_first = before is None
        self._message_time = message_time
        self._surface = surface
        self._uptime_ms = machine.clock.uptime_ms
        self.state = state = make_state(machine, settings, before)
        levels = DelayLevels.parse(settings.message_delay_level)
        self.delays = DelayService(levels, state.store, state.clock, state.config_files, self.settle)
        self.timers = TimerService(state, self.settle)
        index = _key_index(state)
        self._disk_watch = DiskWatch(
            state, self.pause_for, self._removed, index.forget_old, self.timers.first_waiting_position
        )
        self._pull = PullHandlers(state)
        self.clients = ClientHandlers(state, self._pull.look_anew)
        self._administration = Administration(state, self.delays, index, self._disk_watch.remove_expired)
        self._dead_letters = DeadLetters(state)
        self._intake = Intake(state, DelayDoor(state.store, self.delays), self.timers, self._dead_letters)
        self.transactions = TransactionService(state, self._intake, self.settle)
        self.pops = PopDoor(state, self._dead_letters, self.settle, self.spawn, self.pause_for)
        self._clock_control = ClockControl(
            state, self.delays, self.timers, self.transactions.questions, self.pops, self._disk_watch
        )
        self.asked_by_nameservers = Dispatcher(self.settle)
        self._clock_control.register(self.asked_by_nameservers)
        self.registration = Registration(state, surface.pool)
        self._targets = TargetTable(state, NewTopics(self.registration.announced, self.spawn, self.settle))
        self.dispatcher = self._file_handlers()
        self.is_open = False
        """Whether the files are or were open, so that there is something to close."""

    def _file_handlers(self) -> Dispatcher:
        """Register the handlers of all request families."""
        state = self.state
        surface = self._surface
        self._assignments = assignments = AssignmentHandlers(state, self.registration, surface.pool)
        config = ConfigHandlers(state, self.registration, surface.pool)
        forget_with = {
            SCHEDULE_TOPIC: self.delays.forget,
            HALF_TOPIC: self.transactions.forget,
            WHEEL_TIMER_TOPIC: self.timers.forget,
        }
        dispatcher = Dispatcher(self.settle, None if state.journals is None else state.journals.tap)
        for family in (
            SendHandlers(state, self._targets, self._intake, self.transactions),
            SendBackHandlers(state, self._intake, self._dead_letters),
            TransactionHandlers(state, self.transactions),
            RecallHandlers(state, self.timers),
            ReplyHandlers(state, self._targets, self.settle),
            self._pull,
            ResetOffsetHandlers(state, self._pull, self.pops),
            self.clients,
            OffsetHandlers(state),
            LockHandlers(state),
            self.pops,
            assignments,
            TopicHandlers(state, self.registration, self.pops),
            GroupHandlers(state, self.pops),
            GroupStateHandlers(state, self.delays, self.timers, self.transactions, self.pops),
            MetricHandlers(state, self.delays, self.timers, self.transactions, self.pops),
            ResetHandlers(
                state, self._targets, self._pull, self.pops, forget_with, (assignments.forget, config.forget)
            ),
            config,
            JournalHandlers(state),
            FaultHandlers(state, surface.dispatcher, surface.connections),
            SnapshotHandlers(state, surface.change),
            ImportHandlers(state),
            self._administration,
        ):
            family.register(dispatcher)
        StaticTopicFront(dispatcher, state, self.registration, surface.pool).stand_before()
        return dispatcher

    # -- start and stop ------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        state, settings = self.state, self.settings
        state.machine.files.make_folder(settings.store_path_root_dir)
        self._finish_restoring()
        report = state.store.open(state.machine.clock.uptime_ms)
        _log_recovery(settings.store_path_root_dir, report)
        state.flusher.start(self.spawn)
        self.is_open = True
        self._disk_watch.look()
        state.machine.files.make_folder(f"{settings.store_path_root_dir}/config")
        state.clock.restore()
        state.clock.not_before(state.store.last_stored_ms)
        if self._message_time is not None:
            state.clock.set(self._message_time)
        self._restore_config_files(report)
        _put_back_topics(state)
        # This must happen before anything is stored: new messages would hide what has just been corrected.
        await state.config_files.saved()
        await self._administration.start(self.spawn, self.pause_for)
        port = await self._surface.listen()
        self._begin_journal(port)
        self.registration.start(port)
        for address in self.registration.nameservers:
            self.spawn(self.registration.keep_registered(address), f"registration {address}")
        self.delays.start(self.spawn)
        self.timers.start(self.spawn, self.pause_for)
        self.transactions.start(self.spawn, self.pause_for)
        self.pops.start()
        self.spawn(self._pull.expiry_loop(), "expiry")
        self.spawn(self.clients.let_in_loop(), "let_in")
        self.spawn(self._client_scan_loop(), "client_scan")
        self.spawn(self._offset_loop(), "offsets")
        self.spawn(self._disk_watch.loop(), "disk")
        scrubbing = Scrubbing(state.store, state.machine.clock, state.machine.workers, self.pause_for)
        self.spawn(scrubbing.loop(settings.scrub_bytes_per_second), "scrub")
        await self.registration.registered()

    def _finish_restoring(self) -> None:
        """Finish restoring a snapshot if the broker was killed during it. Raises: StorageError."""
        files, folder = self.state.machine.files, self.settings.store_path_root_dir
        if self._is_first and files.exists(f"{folder}/restoring/plan"):
            from staticfire.broker.snapshots.folder import SnapshotFolder  # here: it is needed only after such a kill

            SnapshotFolder(files, folder).finish()

    def _restore_config_files(self, report: RecoveryReport) -> None:
        state = self.state
        state.config_files.restore(TOPICS_FILE, state.topics.snapshot, state.topics.restore)
        state.restore_mappings()
        state.config_files.restore(GROUPS_FILE, state.groups.snapshot, state.groups.restore)
        _restore_offsets(state, report)
        state.topics.add_system_topics()
        state.groups.add_system_groups()
        self.delays.restore(state.topics.topics[SCHEDULE_TOPIC].read_queue_nums)
        self.timers.restore()
        self.transactions.restore()
        self.pops.restore()
        self._assignments.restore()
        state.config_files.restored()

    def _begin_journal(self, port: int) -> None:
        journals = self.state.journals
        if journals is not None:
            if self._is_first:
                journals.open(f"{self.settings.broker_ip1 or self.settings.listen_host}:{port}")
            self.spawn(journals.loop(self.pause_for), "journal")

    async def _stop(self) -> None:
        await self._surface.leave(self)
        if not self.is_open:
            return
        await self.delays.stop()
        await self.timers.stop()
        await self.transactions.stop()
        await self.pops.stop()
        await self._administration.stop()
        await self.state.flusher.stop()
        self.delays.close()
        try:
            await self.state.config_files.close()
        finally:
            self.state.store.close()

    async def finish_calls(self) -> None:
        """Give pending requests a short time to get their responses, and then end them."""
        self.answer_held()
        self._clock_control.look_now()
        await self.dispatcher.finish(CALLS_MS_MAX)
        await self.asked_by_nameservers.finish(CALLS_MS_MAX)

    def disconnected(self, connection: Connection) -> None:
        """Drop everything that waits on a connection that was closed."""
        self.clients.disconnected(connection)
        if self.state.first_offsets is not None:
            self.state.first_offsets.disconnected(connection)
        self.pops.disconnected(connection)
        self._pull.disconnected()

    def answer_held(self) -> None:
        """Respond to all pulls and pops that wait for messages."""
        for pull in self.state.held.take_all():
            self._pull.look_last(pull)
        self.pops.answer_held()

    # -- while running -------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Write the burst, settle its appends, and wake consumers that wait for its messages.

        Repeat for what they append.
        """
        pops = self.pops
        while True:
            if pops.service is not None and pops.service.log.has_work:
                pops.service.log.flush()
            if self.transactions.ending.has_work:
                self.transactions.ending.flush()
            arrivals = self._write()
            if pops.service is None or not pops.settled(arrivals):
                break
        self._clock_control.settled()

    def _write(self) -> dict[Queue, int]:
        """Write the burst; return the queues that got messages, each with the first new offset."""
        began_ms = self._uptime_ms()
        arrivals = self.state.store.commit()
        if arrivals:
            self.state.progress.activity += 1
            self._administration.stored(arrivals, self._uptime_ms() - began_ms)
        if arrivals and len(self.state.held):
            self._pull.arrived(arrivals)
        return arrivals

    def _removed(self) -> None:
        """Adjust delays and timers after retention has removed records."""
        self.delays.queue.keep_within_bounds()
        self.timers.keep_within_bounds()

    async def _client_scan_loop(self) -> None:
        while True:
            await self.pause_for(max(1, self.state.settings.channel_scan_interval_ms))
            uptime_ms = self.state.machine.clock.uptime_ms()
            self.clients.expire(uptime_ms)
            self.state.queue_locks.expire(uptime_ms)

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
        words = "offsets have at most 64 bits: these groups continue as if they had no offsets"
        log.error(
            "offsets_left_out", offsets=len(state.offsets.left_out), first=state.offsets.left_out[0], reason=words
        )
    knows_log = report.was_closed or state.offsets.saved_position is not None
    is_doubtful = report.is_damaged or report.rebuilt or report.short_queues > 0 or not knows_log
    taken_back = take_back_offsets(state.offsets, state.store, is_doubtful)
    if taken_back:
        words = (
            "offsets of groups were beyond the end of the remaining log; they continue at the end and skip no new "
            "message"
        )
        log.error("offsets_taken_back", offsets=len(taken_back), first=taken_back[0]._asdict(), reason=words)
    if state.offsets.dirty:
        state.config_files.changed(name)


def _put_back_topics(state: BrokerState) -> None:
    for topic in put_back_topics(state.topics, state.store, state.settings):
        reason = "it has messages, but topics.json doesn't know it: the broker was killed before it was written"
        log.warning("topic_put_back", topic=topic.topic_name, queues=topic.read_queue_nums, reason=reason)
    if strays := state.store.strays:
        reason = "a queue can't have such a folder, so it isn't used; move it away"
        log.warning("stray_files_ignored", files=len(strays), first=strays[:STRAYS_TOLD_MAX], reason=reason)


def _log_recovery(folder: str, report: RecoveryReport) -> None:
    facts = msgspec.structs.asdict(report)
    if report.is_damaged:
        words = (
            "acknowledged messages may be gone: a power loss or a failed fsync came before they were safe (see "
            "problems), the log was damaged, or the disk lost synced data"
        )
        log.error("store_damaged", folder=folder, reason=words, **facts)
    elif report.short_queues:
        words = (
            "files of queues were removed, cut or damaged while no broker was running; see problems for the "
            "consequences"
        )
        log.error("queue_files_lost", folder=folder, reason=words, **facts)
    elif report.cut_bytes:
        words = (
            "the end of the log was cut off: the last process didn't finish this write, so it was never acknowledged"
        )
        log.warning("store_opened", folder=folder, reason=words, **facts)
    else:
        log.info("store_opened", folder=folder, **facts)
