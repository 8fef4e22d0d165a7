"""Starting server processes, also before it is known what they are to serve.

Half of what a person waits for at `staticfire up` is Python reading flags, half is servers importing their programs.
With `EarlyStart` both happen at once: servers begin to import, and hear afterwards what they are to be. Imports as
little as possible: what is started here waits for it.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Sequence

BROKER_PROGRAM, NAMESERVER_PROGRAM, PROXY_PROGRAM = "staticfire.broker", "staticfire.nameserver", "staticfire.proxy"

Started = tuple["subprocess.Popen[bytes]", socket.socket]
"""A process, and a socket to it: its end is the end of either side."""


def start_process(module: str, flag: str, arguments: Sequence[str], stdout: int | None, fds: Sequence[int]) -> Started:
    """Start `python -m module`, with the descriptor of its end of the socket behind `flag`. Raises: OSError."""
    ours, its = socket.socketpair()
    try:
        process = subprocess.Popen(
            [*interpreter(), "-m", module, *arguments, flag, str(its.fileno())],
            pass_fds=[*fds, its.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=child_environment(),
            # Not in our group: Ctrl-C is for us, and we stop the children in their order.
            process_group=0,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        its.close()
    return process, ours


class EarlyStart:
    """Servers that were started before anybody knew what for. Who isn't needed is gone after `close`."""

    def __init__(self, modules: Sequence[str], stdout: int | None = None) -> None:
        """Start one process for each of these. `stdout`: as for `Children`."""
        self._stdout = stdout
        self._waiting: dict[str, Started] = {}
        for module in modules:
            self.add(module)

    def add(self, module: str) -> None:
        """Start one more."""
        try:
            self._waiting[module] = start_process(module, "--early-fd", (), self._stdout, ())
        except OSError:
            pass  # It will be started when it is needed, and the reason is told then.

    def take(self, module: str) -> Started | None:
        """Return a process that waits for its plan, if there is one."""
        return self._waiting.pop(module, None)

    def close(self) -> None:
        """End those that nobody has taken."""
        waiting, self._waiting = self._waiting, {}
        for process, link in waiting.values():
            link.close()
            process.kill()
            process.communicate()


def interpreter() -> list[str]:
    """Return how Python is started for a program of ours: without `site`, which costs 20 ms of a start."""
    return [sys.executable, "-S", "-P"]


def child_environment() -> dict[str, str]:
    """Return our environment, with the module path that `site` would have found.

    A server may write bytecode, whatever we were told: pip has done so when it installed, and a checkout without it
    takes three times as long to start.
    """
    home = os.path.dirname(sys.modules["staticfire"].__path__[0])
    path = [home, *(entry for entry in sys.path if os.path.isabs(entry) and entry != home)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment
