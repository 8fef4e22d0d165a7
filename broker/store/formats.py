"""In which format a folder is: older ones are read, what newer versions or others wrote is refused, untouched.

    1   0.1.0: state files are bare JSON
    2   state files carry checksums; queueEnds says where queues ended
    3   the checkpoint says that it is 3

What this version writes is always the newest; what it finds of an older one is rewritten as it goes on. A change that
an older version would misread gets the next number here, and a folder in tests/broker/store/formats.
"""

import msgspec

from staticfire.broker.store.sealed import unseal
from staticfire.protocol.errors import StorageError
from staticfire.runtime.machine import Files

FORMAT = 3
FORMAT_AT = 7
# In the checkpoint.
ROCKETMQ_MAGICS = (b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xab")
MAGIC_AT = 4


def refuse_others(files: Files, folder: str) -> None:
    """Refuse a folder that this version can't use; nothing has been changed then. Raises: StorageError, OSError."""
    found = _format_of(files, f"{folder}/checkpoint")
    if found > FORMAT:
        raise StorageError(
            f"the store in {folder} has format {found}, and this version knows up to {FORMAT}: a newer staticfire "
            "wrote it. Use that one, or another folder; nothing was changed"
        )
    segments = files.list_folder(f"{folder}/commitlog")
    if segments and files.read_part(f"{folder}/commitlog/{segments[0]}", MAGIC_AT, 4) in ROCKETMQ_MAGICS:
        raise StorageError(
            f"the store in {folder} is Apache RocketMQ's: its files are others. Use another folder, and bring topics "
            "over from a running one with staticfire copy; nothing was changed"
        )


def _format_of(files: Files, path: str) -> int:
    """Return what a checkpoint says; 0 where nothing does: it is older, new, or damaged, which others find out."""
    if not files.exists(path):
        return 0
    try:
        data = files.read_bytes(path)
        fields = msgspec.json.decode(data if data[:1] == b"[" else unseal(data))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return 0
    is_there = isinstance(fields, list) and len(fields) > FORMAT_AT and isinstance(fields[FORMAT_AT], int)
    return fields[FORMAT_AT] if is_there else 0
