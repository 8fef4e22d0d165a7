"""Reading messages of a queue from an offset on. RocketMQ: DefaultMessageStore.getMessage, GetMessageStatus.

The statuses and the next offsets are RocketMQ's, which consumers rely on. Not done: smaller answers for records that
have fallen out of the page cache (RocketMQ: checkInDiskByCommitOffset).
"""

from collections.abc import Callable

from staticfire.broker.store.commit_log import CommitLog
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.outcomes import ReadResult, ReadStatus
from staticfire.broker.store.queue_files import ENTRY
from staticfire.broker.store.settings import READ_ENTRIES_MAX

_iter_entries = ENTRY.iter_unpack


def read_queue(
    log: CommitLog,
    queue: Queue,
    offset: int,
    messages_max: int,
    bytes_max: int,
    wanted: Callable[[int], bool] | None,
) -> ReadResult:
    """Return records from `offset` on whose tags code is wanted: at least one, whatever its size.

    Raises: OSError, StorageError.
    """
    min_offset = queue.min_offset
    max_offset = queue.max_offset
    if offset >= max_offset or offset < min_offset:
        return _outside(offset, min_offset, max_offset)
    lowest = log.min_position
    end = min(max_offset, offset + (messages_max if wanted is None else max(READ_ENTRIES_MAX, messages_max)))
    runs: list[tuple[int, int]] = []
    count = total = run_start = run_end = 0
    removed = False
    at = offset
    while at < end:
        entries = queue.entry_bytes(at, end - at)
        if not entries:
            break
        for position, size, tags_code in _iter_entries(entries):
            if count and (count >= messages_max or total + size > bytes_max):
                end = at
                break
            at += 1
            if position < lowest or not size:
                removed = True
                continue
            if wanted is not None and not wanted(tags_code):
                continue
            if position != run_end:
                if run_end:
                    runs.append((run_start, run_end))
                run_start = position
            run_end = position + size
            count += 1
            total += size
    if count:
        runs.append((run_start, run_end))
        return ReadResult(ReadStatus.FOUND, at, min_offset, max_offset, log.read_runs(runs), count, total)
    if at == offset:
        return ReadResult(ReadStatus.OFFSET_FOUND_NULL, queue.next_file(at), min_offset, max_offset, [], 0, 0)
    status = ReadStatus.MESSAGE_WAS_REMOVING if removed else ReadStatus.NO_MATCHED_MESSAGE
    return ReadResult(status, at, min_offset, max_offset, [], 0, 0)


def _outside(offset: int, min_offset: int, max_offset: int) -> ReadResult:
    if max_offset == 0:
        status, next_offset = ReadStatus.NO_MESSAGE_IN_QUEUE, 0
    elif offset < min_offset:
        status, next_offset = ReadStatus.OFFSET_TOO_SMALL, min_offset
    elif offset == max_offset:
        status, next_offset = ReadStatus.OFFSET_OVERFLOW_ONE, offset
    else:
        status, next_offset = ReadStatus.OFFSET_OVERFLOW_BADLY, max_offset
    return ReadResult(status, next_offset, min_offset, max_offset, [], 0, 0)
