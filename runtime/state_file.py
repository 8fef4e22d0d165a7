"""Small state files: JSON objects that begin with a version and a checksum of the rest.

    {"staticfire":"1 crc32:0a1b2c3d","offsetTable":{...}}
                   ^ version  ^ of the object without this member, byte by byte

The file is still one JSON object, so users, RocketMQ's tools and older versions can read it as before: all of them
ignore an unknown member. A file without that member is accepted without a check: an older version wrote it, or a user
who edited it removed the member.

The content of a file is accepted as a whole, or the start is refused and the file isn't changed. A user may have edited
it, or a disk may have lost half of it or a bit. Each such problem becomes one line that names the file and the fix. It
never becomes a bare exception, and the state is never silently replaced by a different one.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from staticfire.protocol.checksums import crc32
from staticfire.protocol.errors import StaticfireError, StorageError
from staticfire.runtime.machine import Files

T = TypeVar("T")

REASON_CHARS_MAX = 300
# The version of the member and of its meaning. A file with another version is refused.
STATE_VERSION = 1
_HEAD = b'{"staticfire":"%d crc32:%08x"'
_HEAD_BYTES = len(_HEAD % (STATE_VERSION, 0))
SEAL_BYTES = _HEAD_BYTES + len(",") - len("{")
"""How many bytes the version and the checksum add to a file."""
# If one of these texts is near the beginning of a file, the file has a checksum, which may be damaged. A single flipped
# bit can't hide both texts.
_SIGNS, _SIGN_BYTES = (b'{"staticfire":"', b"crc32:"), 64


def seal_state(data: bytes) -> bytes:
    """Return a JSON object with its version and checksum as its first member."""
    assert data[:1] == b"{", "state is a JSON object"
    comma = b"" if data[1:].lstrip()[:1] == b"}" else b","
    return _HEAD % (STATE_VERSION, crc32(data)) + comma + data[1:]


def unseal_state(data: bytes) -> bytes:
    """Return the original JSON object of sealed data; data without a checksum as it is. Raises: ValueError."""
    beginning = data[:_SIGN_BYTES].translate(None, b" \t\r\n")
    if not any(sign in beginning for sign in _SIGNS):
        return data
    head, rest = data[:_HEAD_BYTES], data[_HEAD_BYTES:]
    state = b"{" + rest.removeprefix(b",")
    if head == _HEAD % (STATE_VERSION, crc32(state)):
        return state
    raise ValueError(
        'its checksum does not match: it is damaged, or was changed by hand (then remove the member "staticfire" at '
        "its beginning to accept the change), or was written by a newer version"
    )


def read_state_file(
    files: Files,
    path: str,
    read: Callable[[bytes], T],
    way_out: str = "repair it, or move it away and start without it",
) -> T | None:
    """Read a file and return the result of `read` for its content; None if the file doesn't exist.

    Raises: StorageError if the file can't be read, if `read` raises, or if the file was removed meanwhile.
    """
    if not files.exists(path):
        return None
    try:
        return read(unseal_state(files.read_bytes(path)))
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError, OSError, StaticfireError) as error:
        raise StorageError(f"{path} can't be read: {str(error)[:REASON_CHARS_MAX]}; {way_out}") from None


def replace_state_file(files: Files, path: str, data: bytes, is_private: bool = False) -> None:
    """Replace a file by a JSON object with its checksum, atomically. Blocks. Raises: OSError.

    `is_private`: only the owner may read it, because it contains secrets.
    """
    files.replace(path, seal_state(data), is_private)
