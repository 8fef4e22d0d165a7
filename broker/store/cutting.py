"""Cut the end off a closed store, for a broker whose log has a tail that its new master doesn't have.

Afterwards the folder is that of a store that was closed at this position, without its derived data: the next start
rebuilds queues from the log. All of it can be repeated after a kill.
"""

from staticfire.broker.store.commit_log import CommitLog
from staticfire.broker.store.settings import StoreSettings
from staticfire.broker.store.state_files import StateFiles
from staticfire.protocol.errors import StorageError
from staticfire.runtime.machine import Files

# What a start rebuilds from the log.
DERIVED_FILES = ("checkpoint", "queueEnds")
DERIVED_FOLDERS = ("consumequeue", "index")
# Progress of deliveries at a position of the log. The log contains the same, and these may refer to the removed part.
PROGRESS_FILES = ("delayOffset.json", "timers.json", "transactions.json")
LOG_FILES = ("logStart", "hole")
# All names in the folder of a broker that are part of the state of its log. `abort` isn't: it exists while the store is
# open.
STORE_NAMES = frozenset({"commitlog", "deletedTopics", *LOG_FILES, *DERIVED_FILES, *DERIVED_FOLDERS})


def cut_store(
    files: Files, folder: str, settings: StoreSettings, span: tuple[int, int], deletions: dict[str, int]
) -> int:
    """Remove everything from a position on; return the number of removed records.

    `span`: this position, and where the log ends. `deletions`: the topics that are deleted in the log that remains.
    Blocks. Raises: OSError, StorageError.
    """
    forget_progress(files, folder)
    position, end_position = span
    log = CommitLog(files, f"{folder}/commitlog", settings)
    try:
        log.segments.load()
        if not log.segments.all or position <= log.min_position:
            raise StorageError(f"the log of {folder} can't be cut at {position}: it begins at {log.min_position}")
        log.end_position = end_position
        removed = sum(1 for _ in log.records_from(position))
        _forget_derived(files, folder)
        StateFiles(files, folder).write_deleted_topics(deletions)
        log.segments.cut(position)
    finally:
        log.close()
    return removed


def clear_store(files: Files, folder: str, deletions: dict[str, int]) -> None:
    """Remove the log and everything that is derived from it. Blocks. Raises: OSError."""
    forget_progress(files, folder)
    _forget_derived(files, folder)
    files.remove_folder(f"{folder}/commitlog")
    for name in (*LOG_FILES, "abort"):
        files.remove(f"{folder}/{name}")
    StateFiles(files, folder).write_deleted_topics(deletions)
    files.sync_folder(folder)


def forget_progress(files: Files, folder: str) -> None:
    """Remove the progress of deliveries, which the next master reads from the log. Blocks. Raises: OSError."""
    for name in PROGRESS_FILES:
        files.remove(f"{folder}/config/{name}")


def _forget_derived(files: Files, folder: str) -> None:
    for name in DERIVED_FILES:
        files.remove(f"{folder}/{name}")
    for name in DERIVED_FOLDERS:
        files.remove_folder(f"{folder}/{name}")
    files.sync_folder(folder)
