"""The access key of a cluster on this machine, for the commands of the user who started it.

`up` writes the key of the cluster's own user into a file that only its owner can read. So `staticfire user add`, or
`explain`, may do everything on their own cluster, without a secret on the command line. The file also says whether the
cluster takes only TLS. Its name contains the nameserver's port, and it is removed at the end.

A killed `up` can't remove its file, and later another cluster may have that port. So `up` holds a lock on its file, and
a file without a lock doesn't count. The system ends the lock with the process. The file can't name the process instead:
a pid is used again, and says nothing in another container that shares the folder.

Files appear complete, by a rename. A reader, and each start, removes files without a lock. Before a file is removed or
replaced, the folder is locked: otherwise a reader that has found a file without a lock could remove the one that
replaced it. What can't be judged stays: a file of another machine or container, by its name, and one on a file system
without locks, which still counts.
"""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from staticfire.protocol.errors import ProtocolError, UsageError
from staticfire.runtime.addresses import parse_address

if TYPE_CHECKING:
    from staticfire.runtime.credentials import Credentials

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
KEY_BYTES_MAX = 4_096
ONLY_TLS = "tls"
"""The second line of a file whose cluster takes only TLS."""
FILES_MAX = 64
"""How many files a start examines. Each start examines some, so there are few; a start must be fast all the same."""
FOLDERS_MAX = 10
"""How often a start makes the folder again, if another cluster, which was the last one, removes it meanwhile."""


class KeyFile(NamedTuple):
    """The file of a running cluster. It counts as long as the descriptor is open, because that holds its lock."""

    path: str
    descriptor: int


class OwnersKey(NamedTuple):
    """What a file says."""

    credentials: "Credentials"
    needs_tls: bool = False
    path: str = ""


def folder() -> str:
    """Return the folder of the files."""
    return os.path.join(
        os.environ.get("TMPDIR") or "/tmp", f"staticfire-keys-{os.getuid()}"
    )  # tempfile is slow to import


def write_key(port: int, key: str, needs_tls: bool = False) -> KeyFile | None:
    """Write the key of the cluster with this nameserver; return the file, None if that is impossible.

    `key`: the text of credentials. A start needn't load what reads it.
    """
    path, text = _path_of(port), f"{key}\n{ONLY_TLS}" if needs_tls else key
    for _ in range(FOLDERS_MAX):
        try:
            os.makedirs(folder(), mode=0o700, exist_ok=True)
            if not _is_private(folder()):
                return None
            with _folder_locked(os.path.dirname(path)):
                _remove_those_without_process()
                return _written(path, text.encode())
        except FileNotFoundError:
            continue
        except OSError:
            break
    return None


def remove_key(written: KeyFile | None) -> None:
    """Remove a file that `write_key` has written, and the folder if it was the last one."""
    if written is not None:
        with suppress(OSError):
            _remove(written)
            os.rmdir(os.path.dirname(written.path))
        os.close(written.descriptor)


def read_key(namesrv: str) -> OwnersKey | None:
    """Return the key of a running cluster on this machine, if this user has started it."""
    try:
        host, port = parse_address(namesrv.split(";")[0].strip())
    except UsageError:
        return None
    path = _path_of(port)
    if host not in LOOPBACK or not os.path.exists(path):
        return None
    from staticfire.runtime.credentials import Credentials  # imported here: few users have a file

    with suppress(OSError, ProtocolError, UnicodeDecodeError), _opened(path) as found:
        if not _is_private(folder()):
            return None
        if _has_process(found):
            key, _, rest = os.read(found.descriptor, KEY_BYTES_MAX).decode().partition("\n")
            return OwnersKey(Credentials.parse(key), rest == ONLY_TLS, path)
        _remove(found, waits=False)
    return None


# -- files -------------------------------------------------------------------------------------------------------------


def _path_of(port: int) -> str:
    return os.path.join(folder(), f"{port}{_place()}")


def _place() -> str:
    """Return the end of each file's name: where 127.0.0.1 is the same address, until this machine is started again."""
    boot = network = ""
    with suppress(OSError):  # Not Linux.
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read(8)
        network = str(os.stat("/proc/self/ns/net").st_ino)
    return f"@{boot}-{network}"


def _written(path: str, content: bytes) -> KeyFile:
    """Write a file, with its lock, before it can be found. Raises: OSError, and then there is no half of a file."""
    new = f"{path}.new"
    with suppress(FileNotFoundError):
        os.unlink(new)
    try:
        descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with suppress(OSError):  # A file system without locks. Then no reader can judge the file.
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.write(descriptor, content) < len(content):
                raise OSError(f"{new} can't be written completely")
            os.rename(new, path)
        except OSError:
            os.close(descriptor)
            raise
    except OSError:
        with suppress(OSError):
            os.unlink(new)
            os.rmdir(os.path.dirname(path))
        raise
    return KeyFile(path, descriptor)


def _remove_those_without_process() -> None:
    """Remove the files of killed clusters. The folder must be locked."""
    place = _place()
    with os.scandir(folder()) as entries:
        paths = [entry.path for entry in islice(entries, FILES_MAX) if entry.name.endswith(place)]
    for path in paths:
        with suppress(OSError), _opened(path) as found:
            if not _has_process(found):
                _unlink(found)


def _remove(file: KeyFile, waits: bool = True) -> None:
    """Remove a file. `waits`: False leaves it if the folder is locked: a later command or start removes it."""
    with _folder_locked(os.path.dirname(file.path), waits):
        _unlink(file)


def _unlink(file: KeyFile) -> None:
    """Remove a file, if its path isn't that of another one by now. Raises: OSError."""
    if os.path.samestat(os.lstat(file.path), os.fstat(file.descriptor)):
        os.unlink(file.path)


@contextmanager
def _opened(path: str) -> Iterator[KeyFile]:
    """Open a file to read it. Raises: OSError, also if it isn't a file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a file")
        yield KeyFile(path, descriptor)
    finally:
        os.close(descriptor)


def _has_process(file: KeyFile) -> bool:
    """Return whether the process that wrote a file may still run: it holds the lock, or the lock can't be examined."""
    try:
        fcntl.flock(file.descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


@contextmanager
def _folder_locked(path: str, waits: bool = True) -> Iterator[None]:
    """Keep others from removing and replacing files. Raises: OSError, BlockingIOError (others do so, no wait)."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        except BlockingIOError:
            raise
        except OSError:
            pass  # A file system without locks: its files are judged by none.
        yield
    finally:
        os.close(descriptor)


def _is_private(path: str) -> bool:
    """Return whether a folder is ours, and no other user can read it."""
    found = os.lstat(path)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
