"""The state that the parts of one broker share, created and wired in one place."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from staticfire.broker.clock.message_clock import FILE as CLOCK_FILE, MessageClock
from staticfire.broker.clock.progress import ProgressTable
from staticfire.broker.clock.quiescence import QuiescenceWatch
from staticfire.broker.config_files import ConfigFiles
from staticfire.broker.delay.stored_form import tags_code_of
from staticfire.broker.groups.consumers import ConsumerManager
from staticfire.broker.groups.offsets import LastResets, OffsetTable
from staticfire.broker.groups.producers import ProducerManager
from staticfire.broker.groups.queue_locks import QueueLocks
from staticfire.broker.groups.retries import RetryWatch
from staticfire.broker.groups.subscription_groups import GroupTable
from staticfire.broker.pulls.held_pulls import HeldPulls
from staticfire.broker.pulls.refusals import Refusals
from staticfire.broker.settings import BrokerSettings
from staticfire.broker.static_topics.table import FILE as MAPPINGS_FILE, StaticTopicTable
from staticfire.broker.statistics import Statistics
from staticfire.broker.store.findings import MENDED_ENTRY, REBUILT_QUEUE, RECORD_BEYOND, Finding
from staticfire.broker.store.flusher import StoreFlusher
from staticfire.broker.store.settings import FlushDiskType, StoreSettings
from staticfire.broker.store.store import MessageStore
from staticfire.broker.surprises import Surprises
from staticfire.broker.timers.forms import entry_code
from staticfire.broker.topics import TopicTable
from staticfire.protocol.errors import StorageError
from staticfire.protocol.limits import FRAME_BYTES_MAX, HEADER_BYTES_MAX, PROPERTIES_BYTES_MAX
from staticfire.protocol.permissions import READ, WRITE
from staticfire.protocol.requests.locks import MessageQueue
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger
from staticfire.runtime.machine import DiskUse, Machine

if TYPE_CHECKING:
    from staticfire.broker.groups.first_offsets import FirstOffsets
    from staticfire.broker.journal.logs import Journals

log = logger("broker")

TOPICS_FILE, GROUPS_FILE, MODES_FILE = "topics.json", "subscriptionGroup.json", "messageRequestMode.json"


class BrokerState(msgspec.Struct):
    """Tables, store and clocks of one broker."""

    machine: Machine
    settings: BrokerSettings
    clock: MessageClock
    store: MessageStore
    flusher: StoreFlusher
    topics: TopicTable
    groups: GroupTable
    offsets: OffsetTable
    consumers: ConsumerManager
    producers: ProducerManager
    held: HeldPulls
    config_files: ConfigFiles
    progress: ProgressTable
    quiescence: QuiescenceWatch
    queue_locks: QueueLocks
    retries: RetryWatch
    surprises: Surprises
    static_topics: StaticTopicTable
    first_offsets: "FirstOffsets | None" = None
    """None until the first new group requests its initial offset."""
    statistics: Statistics = msgspec.field(default_factory=Statistics)
    refusals: Refusals = msgspec.field(default_factory=Refusals)
    last_resets: LastResets = msgspec.field(default_factory=LastResets)
    journals: "Journals | None" = None
    """None if the broker keeps no journal."""
    disk_use: DiskUse = DiskUse(0, 0)
    """The disk's usage at the last check."""
    is_read_only: bool = False
    """Whether a fault rule revokes the write permission, independent of brokerPermission."""
    permission: int = 0
    """What clients may do: brokerPermission, without WRITE if the broker is read-only.

    Cached because each send reads it.
    """
    _keepers: list[Callable[[BrokerSettings], None]] = []

    def __post_init__(self) -> None:
        self._permit()

    def restore_mappings(self) -> None:
        """Restore the mappings of static topics, if their file exists. Raises: StorageError."""
        if self.machine.files.exists(f"{self.settings.store_path_root_dir}/config/{MAPPINGS_FILE}"):
            self.static_topics.restore()

    def use(self, settings: BrokerSettings) -> None:
        """Replace the settings while the broker runs, and notify all parts that use them."""
        self.settings = settings
        self._permit()
        self.topics.use(settings)
        self.groups.use(settings)
        for keeper in self._keepers:
            keeper(settings)

    def be_read_only(self, is_read_only: bool) -> None:
        """Revoke the write permission, or restore what brokerPermission allows."""
        self.is_read_only = is_read_only
        self._permit()
        self.topics.touch()

    def _permit(self) -> None:
        permission = self.settings.broker_permission
        self.permission = permission & ~WRITE if self.is_read_only else permission

    def is_late_commit(self, connection: Connection, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Tell whether a commit must be ignored because another member owns the queue by now."""
        if offset >= self.offsets.committed(group, topic, queue_id) or not self.settings.ignore_late_commits:
            return False
        from staticfire.broker.groups.late_commits import LateCommits  # here: most brokers never need it

        commits = LateCommits(self.consumers, self.queue_locks, self.progress, self.machine.clock.uptime_ms)
        owner = commits.newer_owner(connection, group, MessageQueue(topic, self.settings.broker_name, queue_id))
        if owner is not None:
            log.info(
                "late_commit_ignored", group=group, topic=topic, queue_id=queue_id, offset=offset,
                client_id=connection.client_id, owner=owner,
            )  # fmt: skip
        return owner is not None

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


def make_state(machine: Machine, settings: BrokerSettings, before: BrokerState | None = None) -> BrokerState:
    """Return the state of a broker that hasn't started: nothing is read from the disk yet.

    `before` is the state of the same broker's last core, which is closed. Its clients, locks, message time, statistics
    and journals are taken over.
    """
    folder = settings.store_path_root_dir
    store = MessageStore(
        machine.files,
        folder,
        _store_settings(settings),
        tags_code_of(settings.message_delay_level, entry_code),
        _tell_of_damage,
    )
    flusher = StoreFlusher(store, machine.clock, machine.workers, _log_trouble)
    clock = _message_clock(machine, folder, before)
    config_files = ConfigFiles(machine, f"{folder}/config", flusher.make_safe)
    topics = TopicTable(settings, clock.message_ms)
    topics.on_change(lambda _: config_files.changed(TOPICS_FILE))
    groups = GroupTable(settings, clock.message_ms, lambda: config_files.changed(GROUPS_FILE))
    progress = ProgressTable()
    journals = _make_journals(machine, settings, clock) if before is None else before.journals
    surprises = Surprises(None if journals is None else journals.events)
    topics.on_created(surprises.topic_made)
    groups.on_created(surprises.group_made)
    consumers, offsets, queue_locks, retries = _group_tables(groups, progress, journals, before)
    return BrokerState(
        machine=machine,
        settings=settings,
        clock=clock,
        store=store,
        flusher=flusher,
        topics=topics,
        groups=groups,
        offsets=offsets,
        consumers=consumers,
        producers=ProducerManager() if before is None else before.producers,
        held=HeldPulls(settings.held_pulls_max),
        config_files=config_files,
        progress=progress,
        quiescence=QuiescenceWatch(topics, consumers, offsets, store, progress),
        queue_locks=queue_locks,
        retries=retries,
        surprises=surprises,
        static_topics=StaticTopicTable(topics, config_files, clock.message_ms),
        statistics=Statistics() if before is None else before.statistics,
        journals=journals,
    )


GroupTables = tuple[ConsumerManager, OffsetTable, QueueLocks, RetryWatch]
"""The tables about groups: members online, committed offsets, queue locks, messages sent back."""


def _group_tables(
    groups: GroupTable, progress: ProgressTable, journals: "Journals | None", before: BrokerState | None
) -> GroupTables:
    watched = None if journals is None else journals.watched_tables(groups, progress)
    consumers, offsets, queue_locks, retries = watched or _plain_tables(groups, progress)
    if before is not None:
        consumers.take_over(before.consumers)
        queue_locks, retries = before.queue_locks, before.retries
        # Increased, so that a caller that compares two values notices that something has happened.
        progress.activity = before.progress.activity + 1
        if journals is not None:
            journals.follow_clock()
    return consumers, offsets, queue_locks, retries


def _message_clock(machine: Machine, folder: str, before: BrokerState | None) -> MessageClock:
    if before is None:
        return MessageClock(machine.clock, machine.files, f"{folder}/config/{CLOCK_FILE}")
    before.clock.begin_anew()
    return before.clock


def _plain_tables(groups: GroupTable, progress: ProgressTable) -> GroupTables:
    return ConsumerManager(groups.protection_of), OffsetTable(progress.committed), QueueLocks(), RetryWatch()


def _make_journals(machine: Machine, settings: BrokerSettings, clock: MessageClock) -> "Journals | None":
    if not settings.journal_enable and not settings.record_requests:
        return None
    from staticfire.broker.journal.logs import Journals  # here: most brokers that are started alone need none

    return Journals(machine, settings, clock)


def _store_settings(settings: BrokerSettings) -> StoreSettings:
    return StoreSettings(
        segment_bytes_max=settings.mapped_file_size_commit_log,
        record_bytes_max=FRAME_BYTES_MAX - PROPERTIES_BYTES_MAX - HEADER_BYTES_MAX,
        flush_disk_type=FlushDiskType(settings.flush_disk_type),
        flush_ms=settings.flush_interval_commit_log,
        sync_flush_timeout_ms=settings.sync_flush_timeout,
        queue_flush_ms=settings.flush_interval_consume_queue,
        salvage=settings.salvage,
    )


def _log_trouble(error: StorageError) -> None:
    log.error("store_trouble", error=str(error))


def _tell_of_damage(finding: Finding) -> None:
    """Log a damage that was found. An operator should look at the disk."""
    place = msgspec.structs.asdict(finding)
    kind = place.pop("kind")
    if kind == MENDED_ENTRY:
        log.error("queue_entry_mended", **place, way_out="rebuilt from the log, nothing is lost; check the disk")
    elif kind == REBUILT_QUEUE:
        log.error(
            "queue_rebuilt", **place, way_out="rebuilt from the log; check the disk, and which program removes files"
        )
    elif kind == RECORD_BEYOND:
        way_out = "remove the file `checkpoint` and restart the broker to rebuild all queues from the log"
        log.error("message_in_no_queue", **place, way_out=way_out)
    else:
        log.error("damaged_message_skipped", **place, way_out="no consumer gets it any more; check the disk")
