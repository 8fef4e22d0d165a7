"""Small files of state: JSON objects that begin with a version and a checksum of what follows.

    {"staticfire":"1 crc32:0a1b2c3d","offsetTable":{...}}
                   ^ version  ^ of the object without this member, byte by byte

It stays one JSON object, so that people and RocketMQ's tools read it as before, and older versions, too: all of them
ignore a member that they don't know. A file without that member is taken as it is: an older version wrote it, or
somebody who edited it has removed the member.

What is in a file is taken over as a whole, or the start is refused and the file stays as it is. Somebody may have
edited it, or a disk lost half of it or a bit. Each fault becomes one line that names the file and says how to go on:
never a bare exception, and never a table that has silently become another one.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from staticfire.protocol.checksums import crc32
from staticfire.protocol.errors import StaticfireError, StorageError
from staticfire.runtime.machine import Files

T = TypeVar("T")

REASON_CHARS_MAX = 300
STATE_VERSION = 1
# Of the member and of what it promises. A file with another one is refused.
_HEAD = b'{"staticfire":"%d crc32:%08x"'
_HEAD_BYTES = len(_HEAD % (STATE_VERSION, 0))
SEAL_BYTES = _HEAD_BYTES + len(",") - len("{")
"""How much longer a file is than what it says."""
_SIGNS, _SIGN_BYTES = (b'{"staticfire":"', b"crc32:"), 64
# Where one of these is so near to the beginning there is a checksum, perhaps a damaged one: one flipped bit can't hide
# both of them.


def seal_state(data: bytes) -> bytes:
    """Return a JSON object with its version and checksum as its first member."""
    assert data[:1] == b"{", "state is a JSON object"
    comma = b"" if data[1:].lstrip()[:1] == b"}" else b","
    return _HEAD % (STATE_VERSION, crc32(data)) + comma + data[1:]


def unseal_state(data: bytes) -> bytes:
    """Return the JSON object that was sealed; data as it is if it has no checksum. Raises: ValueError."""
    beginning = data[:_SIGN_BYTES].translate(None, b" \t\r\n")
    if not any(sign in beginning for sign in _SIGNS):
        return data
    head, rest = data[:_HEAD_BYTES], data[_HEAD_BYTES:]
    state = b"{" + rest.removeprefix(b",")
    if head == _HEAD % (STATE_VERSION, crc32(state)):
        return state
    raise ValueError(
        'its checksum does not match: it is damaged, or was changed by hand (then remove the member "staticfire" at '
        "its beginning, and what it says now is taken), or a newer version wrote it"
    )


def read_state_file(
    files: Files, path: str, read: Callable[[bytes], T], way_out: str = "repair it, or move it away to start without it"
) -> T | None:
    """Return what `read` makes of a file; None when there is none.

    Raises: StorageError for a file that can't be read, that `read` raises for, or that isn't there any more.
    """
    if not files.exists(path):
        return None
    try:
        return read(unseal_state(files.read_bytes(path)))
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError, OSError, StaticfireError) as error:
        raise StorageError(f"{path} can't be read: {str(error)[:REASON_CHARS_MAX]}; {way_out}") from None


def replace_state_file(files: Files, path: str, data: bytes) -> None:
    """Put a JSON object with its checksum in place of a file, at once or not at all. Blocks. Raises: OSError."""
    files.replace(path, seal_state(data))
