"""The access key of a cluster on this machine, for the commands of the user who started it.

`up` writes the key of the cluster's own user into a file that only its owner can read. So `staticfire user add`, or
`explain`, may do everything on their own cluster, without a secret on the command line. The file also says whether the
cluster takes only TLS. It has the name of the nameserver's port, and is removed at the end.
"""

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from staticfire.protocol.errors import ProtocolError, UsageError
from staticfire.runtime.addresses import parse_address

if TYPE_CHECKING:
    from staticfire.runtime.credentials import Credentials

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
KEY_BYTES_MAX = 4_096
ONLY_TLS = "tls"
"""The second line of a file whose cluster takes only TLS."""


class OwnersKey(NamedTuple):
    """What a file says."""

    credentials: "Credentials"
    needs_tls: bool = False


def folder() -> str:
    """Return the folder of the files."""
    return os.path.join(
        os.environ.get("TMPDIR") or "/tmp", f"staticfire-keys-{os.getuid()}"
    )  # tempfile is slow to import


def write_key(port: int, key: str, needs_tls: bool = False) -> str:
    """Write the key of the cluster with this nameserver; return the path, "" if that is impossible.

    `key`: the text of credentials. A start needn't load what reads it.
    """
    path = os.path.join(folder(), str(port))
    try:
        os.makedirs(folder(), mode=0o700, exist_ok=True)
        if not _is_private(folder()):
            return ""
        with suppress(FileNotFoundError):
            os.unlink(path)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError:
        return ""
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{key}\n{ONLY_TLS}" if needs_tls else key)
    except OSError:  # The disk is full. Half a key must not stay.
        remove_key(path)
        return ""
    return path


def remove_key(path: str) -> None:
    """Remove a file that `write_key` has written, and the folder if it was the last one."""
    with suppress(OSError):
        os.unlink(path)
        os.rmdir(os.path.dirname(path))


def read_key(namesrv: str) -> OwnersKey | None:
    """Return the key of a cluster on this machine, if this user has started it."""
    try:
        host, port = parse_address(namesrv.split(";")[0].strip())
    except UsageError:
        return None
    path = os.path.join(folder(), str(port))
    if host not in LOOPBACK or not os.path.exists(path) or not _is_private(folder()):
        return None
    from staticfire.runtime.credentials import Credentials  # imported here: few users have a file

    try:
        with open(path, encoding="utf-8") as file:
            key, _, rest = file.read(KEY_BYTES_MAX).partition("\n")
        return OwnersKey(Credentials.parse(key), rest == ONLY_TLS)
    except (OSError, ProtocolError, UnicodeDecodeError):
        return None


def _is_private(path: str) -> bool:
    """Return whether a folder is ours, and nobody else can look into it."""
    found = os.lstat(path)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
