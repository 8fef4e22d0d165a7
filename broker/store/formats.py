"""The format of a folder. Older formats are read; folders of newer versions or other programs are refused, unchanged.

    1   0.1.0: state files are bare JSON
    2   state files carry checksums; queueEnds contains the end offsets of queues
    3   the checkpoint contains the format number, 3

This version always writes the newest format, and rewrites older files while it runs. A change that an older version
would misread gets the next number here, and a folder in tests/broker/store/formats.
"""

import msgspec

from staticfire.broker.store.sealed import unseal
from staticfire.protocol.errors import StorageError
from staticfire.runtime.machine import Files

FORMAT = 3
# The index of the format number in the checkpoint's list.
FORMAT_AT = 7
ROCKETMQ_MAGICS = (b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xab")
MAGIC_AT = 4


def refuse_others(files: Files, folder: str) -> None:
    """Refuse a folder that this version can't use, and change nothing in it. Raises: StorageError, OSError."""
    found = _format_of(files, f"{folder}/checkpoint")
    if found > FORMAT:
        raise StorageError(
            f"the store in {folder} has format {found}, but this version supports up to {FORMAT}: a newer staticfire "
            "wrote it. Use that version, or another folder; nothing was changed"
        )
    segments = files.list_folder(f"{folder}/commitlog")
    if segments and files.read_part(f"{folder}/commitlog/{segments[0]}", MAGIC_AT, 4) in ROCKETMQ_MAGICS:
        raise StorageError(
            f"the store in {folder} is Apache RocketMQ's, which has different files. Use another folder, and copy "
            "topics from a running RocketMQ with `staticfire copy`; nothing was changed"
        )


def _format_of(files: Files, path: str) -> int:
    """Return the format number of a checkpoint; 0 if it has none: it is older, new, or damaged (checked elsewhere)."""
    if not files.exists(path):
        return 0
    try:
        data = files.read_bytes(path)
        fields = msgspec.json.decode(data if data[:1] == b"[" else unseal(data))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return 0
    is_there = isinstance(fields, list) and len(fields) > FORMAT_AT and isinstance(fields[FORMAT_AT], int)
    return fields[FORMAT_AT] if is_there else 0
