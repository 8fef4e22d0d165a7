"""The servers of a cluster as processes that import once.

    python -m staticfire.runtime.siblings FIRST OTHER... --early-fd N

This process imports what every server needs, forks a process for each other server, and then becomes the first one.
Each imports the rest of its own program. Compared with one import for each process, this saves more than half of the
CPU time that the servers of a cluster need until they are ready (docs/decisions/0013-start.md).

- FIRST: a module, for example `staticfire.broker`. N: its socket to the parent.
- OTHER: `module:link:stderr`, a module and two descriptors: its socket to the parent, and its standard error.

The forked processes are children of our parent, like this one, so signals, exit codes and the list of processes are
the same as if each had been started by itself. A process sends its id in one line on its socket. If it can't be forked,
its socket closes without that line, and the parent starts it alone.

The fork is safe because there is one thread here and no event loop yet.
"""

import os
import socket
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple, Protocol, cast

from staticfire.runtime.light_start import light_start
from staticfire.runtime.spawning import FORKING

# These bring all modules that nameserver, broker and gRPC endpoint have in common (tests/house/test_start.py).
COMMON = (
    "staticfire.runtime.process",
    "staticfire.runtime.server",
    "staticfire.protocol.clock_face",
    "staticfire.protocol.names",
)

TASKS = "/proc/self/task"


class Forking(Protocol):
    """The content of the extension module `_siblings`."""

    def can_fork(self) -> bool:
        """Return whether `fork_sibling` works on this system."""

    def fork_sibling(self) -> int:
        """Fork a process that is a child of our parent. Return 0 in it, and here its id. Raises: OSError."""

    def set_command_line(self, words: bytes, /) -> None:
        """Replace what `ps` shows for this process. Raises: OSError."""


class Sibling(NamedTuple):
    """A server to fork: its module, and the descriptors of its socket to the parent and of its standard error."""

    module: str
    link: int
    stderr: int

    @classmethod
    def parse(cls, text: str) -> "Sibling":
        """Read one OTHER of the command line."""
        module, link, stderr = text.split(":")
        return cls(module, int(link), int(stderr))


def main(arguments: Sequence[str]) -> int:
    """Fork the others, serve as one of them, and return the exit code."""
    module, *others, flag, link = arguments
    with light_start():
        for name in COMMON:
            import_module(name)
    siblings = [Sibling.parse(text) for text in others]
    own = _fork(siblings)
    if own is None:
        _close(siblings)
    else:
        _settle(own, [one for one in siblings if one is not own], int(link))
        module, link = own.module, str(own.link)
    _show(module, flag, link)
    from staticfire.runtime.process import run_program

    return run_program(import_module(f"{module}.__main__").PROGRAM, [flag, link])


def _fork(siblings: Sequence[Sibling]) -> Sibling | None:
    """Fork a process for each; return which of them this process is now, None in the first process."""
    if len(os.listdir(TASKS)) > 1:
        return None  # A library has started a thread, whose locks the new process couldn't release.
    try:
        return next((one for one in siblings if _forking().fork_sibling() == 0), None)
    except OSError:
        return None


def _settle(own: Sibling, others: Sequence[Sibling], first_link: int) -> None:
    """Do in a forked process what `subprocess` does in a started one, and report our process id."""
    os.setpgid(0, 0)
    os.dup2(own.stderr, 2)
    os.close(own.stderr)
    os.close(first_link)
    _close(others)
    link = socket.socket(fileno=own.link)
    try:
        link.sendall(b"%d\n" % os.getpid())
    except OSError:
        pass  # The parent has ended. The server notices that itself.
    finally:
        link.detach()


def _close(siblings: Sequence[Sibling]) -> None:
    for one in siblings:
        os.close(one.link)
        os.close(one.stderr)


def _show(module: str, flag: str, link: str) -> None:
    """Let `ps` show the command line that starts this server alone."""
    words = [sys.executable, "-S", "-P", "-m", module, flag, link]
    try:
        _forking().set_command_line(b"".join(os.fsencode(word) + b"\0" for word in words))
    except OSError:
        pass


def _forking() -> Forking:
    return cast(Forking, import_module(FORKING))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
