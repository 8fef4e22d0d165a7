"""What a start reads: the log, then the small state files.

Offsets and topics are compared with what the log contains, and corrected: a kill or a power loss may have left them
older or newer than it.
"""

import msgspec

from staticfire.broker.config_files import GROUPS_FILE, OFFSETS_FILE, TOPICS_FILE
from staticfire.broker.groups.offset_check import take_back_offsets
from staticfire.broker.orphan_topics import put_back_topics
from staticfire.broker.static_topics.table import FILE as MAPPINGS_FILE
from staticfire.broker.store.recovery import RecoveryReport
from staticfire.broker.tables import BrokerTables
from staticfire.runtime.log import logger

log = logger("broker")

STRAYS_TOLD_MAX = 8


def open_store(tables: BrokerTables) -> RecoveryReport:
    """Open the log and its queues; return what the recovery found. Raises: StorageError."""
    state = tables.state
    report = state.store.open(state.machine.clock.uptime_ms)
    _log_recovery(state.settings.store_path_root_dir, report)
    return report


def restore_tables(tables: BrokerTables, report: RecoveryReport) -> None:
    """Read topics, groups and offsets; correct offsets that the log doesn't have. Raises: StorageError."""
    topics, configs = tables.topics, tables.groups.configs
    tables.config_files.restore(TOPICS_FILE, topics.snapshot, topics.restore)
    _restore_mappings(tables)
    tables.config_files.restore(GROUPS_FILE, configs.snapshot, configs.restore)
    _restore_offsets(tables, report)
    topics.add_system_topics()
    configs.add_system_groups()


def _restore_mappings(tables: BrokerTables) -> None:
    """Restore the mappings of static topics, if their file exists. Raises: StorageError."""
    state = tables.state
    if state.machine.files.exists(f"{state.settings.store_path_root_dir}/config/{MAPPINGS_FILE}"):
        tables.static_topics.restore()


def _restore_offsets(tables: BrokerTables, report: RecoveryReport) -> None:
    offsets, store = tables.groups.offsets, tables.state.store

    def snapshot() -> bytes:
        return offsets.snapshot(store.max_position)

    tables.config_files.restore(OFFSETS_FILE, snapshot, offsets.restore, after_log=True)
    if offsets.left_out:
        words = "no offset has more than 64 bits: these groups go on as if they had none"
        log.error("offsets_left_out", offsets=len(offsets.left_out), first=offsets.left_out[0], reason=words)
    knows_log = report.was_closed or offsets.saved_position is not None
    is_doubtful = report.is_damaged or report.rebuilt or report.short_queues > 0 or not knows_log
    taken_back = take_back_offsets(offsets, store, is_doubtful)
    if taken_back:
        words = "groups stood behind the end of what the log has left; they go on there, and skip nothing new"
        log.error("offsets_taken_back", offsets=len(taken_back), first=taken_back[0]._asdict(), reason=words)
    if offsets.dirty:
        tables.config_files.changed(OFFSETS_FILE)


def find_orphan_topics(tables: BrokerTables) -> None:
    """Add topics that have messages but no configuration; report folders that belong to no queue. Raises: OSError."""
    for topic in put_back_topics(tables.topics, tables.state.store, tables.state.settings):
        reason = "it has messages, but topics.json doesn't know it: the broker was killed before it was written"
        log.warning("topic_put_back", topic=topic.topic_name, queues=topic.read_queue_nums, reason=reason)
    if strays := tables.state.store.strays:
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
