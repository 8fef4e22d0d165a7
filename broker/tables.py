"""The tables of one broker, created and wired in one place.

Only core.py and what it is made of see all of them; a handler or service is given those that it uses.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from staticfire.broker.access.peers import AccessPeers
from staticfire.broker.changes import Changes
from staticfire.broker.clock.message_clock import FILE as CLOCK_FILE, MessageClock
from staticfire.broker.clock.progress import ProgressTable
from staticfire.broker.clock.quiescence import QuiescenceWatch
from staticfire.broker.config_files import GROUPS_FILE, TOPICS_FILE, ConfigFiles
from staticfire.broker.delay.level_history import LevelHistory
from staticfire.broker.delay.stored_form import tags_code_of
from staticfire.broker.groups.consumers import ConsumerManager
from staticfire.broker.groups.offsets import OffsetTable
from staticfire.broker.groups.producers import ProducerManager
from staticfire.broker.groups.queue_locks import QueueLocks
from staticfire.broker.groups.retries import RetryWatch
from staticfire.broker.groups.subscription_groups import GroupTable
from staticfire.broker.groups.tables import GroupTables
from staticfire.broker.pulls.held_pulls import HeldPulls
from staticfire.broker.settings import BrokerSettings
from staticfire.broker.state import BrokerState
from staticfire.broker.static_topics.table import FILE as MAPPINGS_FILE, StaticTopicTable
from staticfire.broker.statistics import Statistics
from staticfire.broker.store.findings import MENDED_ENTRY, REBUILT_QUEUE, RECORD_BEYOND, Finding
from staticfire.broker.store.flusher import StoreFlusher
from staticfire.broker.store.settings import FlushDiskType, StoreSettings
from staticfire.broker.store.store import MessageStore
from staticfire.broker.surprises import Surprises
from staticfire.broker.timers.forms import entry_code
from staticfire.broker.topics import TopicTable
from staticfire.protocol.delay_levels import DelayLevels
from staticfire.protocol.errors import StorageError
from staticfire.protocol.limits import FRAME_BYTES_MAX, HEADER_BYTES_MAX, PROPERTIES_BYTES_MAX
from staticfire.protocol.requests.topics import DataVersion
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Machine

if TYPE_CHECKING:
    from staticfire.broker.journal.logs import Journals
    from staticfire.broker.pop.tables import PopTables

log = logger("broker")


class BrokerTables(msgspec.Struct):
    """All tables of one broker."""

    state: BrokerState
    flusher: StoreFlusher
    config_files: ConfigFiles
    levels: LevelHistory
    topics: TopicTable
    static_topics: StaticTopicTable
    groups: GroupTables
    held: HeldPulls
    quiescence: QuiescenceWatch
    statistics: Statistics
    surprises: Surprises
    peers: AccessPeers
    changes: Changes
    journals: "Journals | None"
    """None if the broker keeps no journal."""
    last_versions: dict[str, DataVersion] = {}
    """The versions of the last core's tables, by file; empty in the first core of a process."""
    popped: "PopTables | None" = None
    """What clients have popped; None until the first pop. It is the last core's until this core has its own."""

    @property
    def versioned(self) -> dict[str, TopicTable | GroupTable | StaticTopicTable]:
        """The tables with a version, which slaves and nameservers compare, by file."""
        return {TOPICS_FILE: self.topics, GROUPS_FILE: self.groups.configs, MAPPINGS_FILE: self.static_topics}


def make_tables(machine: Machine, settings: BrokerSettings, before: BrokerTables | None = None) -> BrokerTables:
    """Return the tables of a broker that hasn't started: nothing is read from the disk yet.

    `before` are the tables of the same broker's last core, which is closed. Its clients and what they have popped,
    locks, message time, statistics and journals are taken over.
    """
    folder = settings.store_path_root_dir
    levels = LevelHistory(DelayLevels.parse(settings.message_delay_level))
    tags_code = tags_code_of(levels, entry_code)
    store = MessageStore(machine.files, folder, _store_settings(settings), tags_code, _tell_of_damage)
    flusher = StoreFlusher(store, machine.clock, machine.workers, _log_trouble)
    clock = _message_clock(machine, folder, before)
    unsaved = {} if before is None else before.config_files.unsaved
    config_files = ConfigFiles(machine, f"{folder}/config", flusher.make_safe, unsaved)
    topics = TopicTable(settings, clock.message_ms)
    topics.on_change(lambda _: config_files.changed(TOPICS_FILE))
    configs = GroupTable(settings, clock.message_ms, lambda: config_files.changed(GROUPS_FILE))
    journals = _make_journals(machine, settings, clock) if before is None else before.journals
    surprises = Surprises(None if journals is None else journals.events)
    topics.on_created(surprises.topic_made)
    configs.on_created(surprises.group_made)
    groups = _group_tables(configs, journals, before)
    state = BrokerState(machine, settings, clock, store, _settings_at_start(settings, before))
    state.on_settings(topics.use)
    state.on_settings(configs.use)
    return BrokerTables(
        state=state,
        flusher=flusher,
        config_files=config_files,
        levels=levels,
        topics=topics,
        static_topics=StaticTopicTable(topics, config_files, clock.message_ms),
        groups=groups,
        held=HeldPulls(settings.held_pulls_max),
        quiescence=QuiescenceWatch(topics, groups.consumers, groups.offsets, store, groups.progress),
        statistics=Statistics() if before is None else before.statistics,
        surprises=surprises,
        peers=_access_peers(journals) if before is None else before.peers,
        changes=Changes(config_files),
        journals=journals,
        last_versions={} if before is None else {name: table.version for name, table in before.versioned.items()},
        popped=None if before is None else before.popped,
    )


def _group_tables(configs: GroupTable, journals: "Journals | None", before: BrokerTables | None) -> GroupTables:
    progress = ProgressTable()
    watched = None if journals is None else journals.watched_tables(configs, progress)
    consumers, offsets, queue_locks, retries = watched or _plain_tables(configs, progress)
    producers = ProducerManager()
    if before is not None:
        consumers.take_over(before.groups.consumers)
        producers, queue_locks, retries = before.groups.producers, before.groups.queue_locks, before.groups.retries
        # Increased, so that a caller that compares two values notices that something has happened.
        progress.activity = before.groups.progress.activity + 1
        if journals is not None:
            journals.follow_clock()
    return GroupTables(configs, consumers, producers, offsets, queue_locks, retries, progress)


def _settings_at_start(settings: BrokerSettings, before: BrokerTables | None) -> BrokerSettings:
    """Return the settings that a reset restores. Those of a later core contain what was changed since the start."""
    if before is None:
        return settings
    last = before.state.settings
    if (settings.broker_role, settings.broker_id) == (last.broker_role, last.broker_id):
        return before.state.at_start
    return replace(
        before.state.at_start,
        broker_role=settings.broker_role,
        broker_id=settings.broker_id,
        replication_hold=settings.replication_hold,
        replication_lag_ms=settings.replication_lag_ms,
    )


def _message_clock(machine: Machine, folder: str, before: BrokerTables | None) -> MessageClock:
    if before is None:
        return MessageClock(machine.clock, machine.files, f"{folder}/config/{CLOCK_FILE}")
    before.state.clock.begin_anew()
    return before.state.clock


def _plain_tables(
    configs: GroupTable, progress: ProgressTable
) -> tuple[ConsumerManager, OffsetTable, QueueLocks, RetryWatch]:
    return ConsumerManager(configs.protection_of), OffsetTable(progress.committed), QueueLocks(), RetryWatch()


def _access_peers(journals: "Journals | None") -> AccessPeers:
    events = None if journals is None else journals.events
    return AccessPeers(None if events is None else events.saw_key)


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
