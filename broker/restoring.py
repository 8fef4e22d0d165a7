"""What a start reads: the log, then the small state files.

Offsets and topics are compared with what the log contains, and corrected: a kill or a power loss may have left them
older or newer than it.
"""

import msgspec

from staticfire.broker.config_files import GROUPS_FILE, OFFSETS_FILE, TOPICS_FILE
from staticfire.broker.delay.level_history import FILE as LEVELS_FILE
from staticfire.broker.groups.offset_check import take_back_offsets
from staticfire.broker.orphan_topics import put_back_topics
from staticfire.broker.static_topics.table import FILE as MAPPINGS_FILE
from staticfire.broker.store.recovery import RecoveryReport
from staticfire.broker.tables import BrokerTables
from staticfire.protocol.requests.topics import DataVersion
from staticfire.runtime.log import logger

log = logger("broker")

STRAYS_TOLD_MAX = 8


def open_store(tables: BrokerTables) -> RecoveryReport:
    """Open the log and its queues; return what the recovery found. Raises: StorageError."""
    state, levels = tables.state, tables.levels
    # Before the log, because the recovery computes entries of queues.
    words = "messages that wait for a level keep their times as if messageDelayLevel had never been changed"
    is_there = tables.config_files.restore(LEVELS_FILE, levels.snapshot, levels.restore, from_log=words)
    report = state.store.open(state.machine.clock.uptime_ms)
    if levels.begin(state.store.min_position, state.store.max_position) or not is_there:
        tables.config_files.changed(LEVELS_FILE)
    _log_recovery(state.settings.store_path_root_dir, report)
    return report


def restore_tables(tables: BrokerTables, report: RecoveryReport) -> None:
    """Read topics, groups and offsets; correct offsets that the log doesn't have. Raises: StorageError."""
    topics, configs = tables.topics, tables.groups.configs
    tables.config_files.restore(TOPICS_FILE, topics.snapshot, topics.restore)
    _restore_mappings(tables)
    tables.config_files.restore(GROUPS_FILE, configs.snapshot, configs.restore)
    _number_on(tables)
    _restore_offsets(tables, report)
    topics.add_system_topics()
    configs.add_system_groups()


def _restore_mappings(tables: BrokerTables) -> None:
    """Restore the mappings of static topics, if there is or was a file of them. Raises: StorageError."""
    state = tables.state
    is_there = state.machine.files.exists(f"{state.settings.store_path_root_dir}/config/{MAPPINGS_FILE}")
    if is_there or tables.last_versions.get(MAPPINGS_FILE, DataVersion()) != DataVersion():
        tables.static_topics.restore()


def _number_on(tables: BrokerTables) -> None:
    """Let no version of a restored snapshot be one that the last core used.

    The number of changes goes back with a snapshot, and message time may stand. So different tables had one version.
    """
    versioned = tables.versioned
    for name, last in tables.last_versions.items():
        table = versioned[name]
        if table.version != last:
            counter = max(table.version.counter, last.counter) + 1
            table.version = DataVersion(table.version.state_version, table.version.timestamp, counter)
            tables.config_files.changed(name)


def _restore_offsets(tables: BrokerTables, report: RecoveryReport) -> None:
    offsets, store = tables.groups.offsets, tables.state.store

    def snapshot() -> bytes:
        return offsets.snapshot(store.max_position)

    tables.config_files.restore(OFFSETS_FILE, snapshot, offsets.restore, after_log=True)
    if offsets.left_out:
        words = "offsets have at most 64 bits: these groups continue as if they had no offsets"
        log.error("offsets_left_out", offsets=len(offsets.left_out), first=offsets.left_out[0], reason=words)
    knows_log = report.was_closed or offsets.saved_position is not None
    is_doubtful = report.is_damaged or report.rebuilt or report.short_queues > 0 or not knows_log
    taken_back = take_back_offsets(offsets, store, is_doubtful)
    if taken_back:
        words = "offsets of groups were beyond the end of the log that is left; they continue at its end"
        log.error("offsets_taken_back", offsets=len(taken_back), first=taken_back[0]._asdict(), reason=words)
    if offsets.dirty:
        tables.config_files.changed(OFFSETS_FILE)


def find_orphan_topics(tables: BrokerTables) -> None:
    """Add topics that have messages but no configuration; report folders that belong to no queue.

    Raises: OSError, StorageError.
    """
    orphans = put_back_topics(tables.topics, tables.state.store, tables.state.settings)
    for topic in orphans.put_back:
        reason = "topics.json doesn't know it, but it has messages: the broker was killed, or became the master, early"
        log.warning("topic_put_back", topic=topic.topic_name, queues=topic.read_queue_nums, reason=reason)
    for name in orphans.deleted:
        reason = "messages waited for it when it was deleted, and were due or committed later; create it to get them"
        log.info("topic_stays_deleted", topic=name, reason=reason)
    if strays := tables.state.store.strays:
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
        words = "files of queues were removed, cut or damaged while no broker was running; problems has the details"
        log.error("queue_files_lost", folder=folder, reason=words, **facts)
    elif report.cut_bytes:
        words = "the end of the log was cut off: the last process didn't finish this write; it was never acknowledged"
        log.warning("store_opened", folder=folder, reason=words, **facts)
    else:
        log.info("store_opened", folder=folder, **facts)
