"""Start server processes, also before it is decided what they must serve.

Half of the time of `staticfire up` is Python reading flags, the other half is servers importing their programs. With
`EarlyStart`, both happen at the same time: servers begin to import, and later receive what they must serve. This module
imports as little as possible, because the start of the servers waits for it.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence

BROKER_PROGRAM, NAMESERVER_PROGRAM, PROXY_PROGRAM = "staticfire.broker", "staticfire.nameserver", "staticfire.proxy"

Started = tuple["subprocess.Popen[bytes]", socket.socket]
"""A process, and a socket to it. The socket closes when either side ends."""


def start_process(
    module: str,
    flag: str,
    arguments: Sequence[str],
    stdout: int | None,
    fds: Sequence[int],
    variables: Mapping[str, str] | None = None,
) -> Started:
    """Start `python -m module`. The descriptor of its end of the socket is the value of `flag`. Raises: OSError.

    `variables`: more of the environment: what the list of processes must not show.
    """
    ours, its = socket.socketpair()
    try:
        process = subprocess.Popen(
            [*interpreter(), "-m", module, *arguments, flag, str(its.fileno())],
            pass_fds=[*fds, its.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env={**child_environment(), **(variables or {})},
            # The child has its own process group: Ctrl-C is for us, and we stop the children in order.
            process_group=0,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        its.close()
    return process, ours


class EarlyStart:
    """Servers that were started before it was decided what they must serve. `close` ends those not needed."""

    def __init__(self, modules: Sequence[str], stdout: int | None = None) -> None:
        """Start one process for each module. `stdout`: as for `Children`."""
        self._stdout = stdout
        self._waiting: dict[str, Started] = {}
        for module in modules:
            self.add(module)

    def add(self, module: str) -> None:
        """Start one more process."""
        try:
            self._waiting[module] = start_process(module, "--early-fd", (), self._stdout, ())
        except OSError:
            # It will be started when it is needed, and the error is reported then.
            pass

    def take(self, module: str) -> Started | None:
        """Return a process that waits for its plan, if there is one."""
        return self._waiting.pop(module, None)

    def close(self) -> None:
        """End the processes that weren't taken."""
        waiting, self._waiting = self._waiting, {}
        for process, link in waiting.values():
            link.close()
            process.kill()
            process.communicate()


def interpreter() -> list[str]:
    """Return the command that starts Python for our programs: without `site`, which takes 20 ms of a start."""
    return [sys.executable, "-S", "-P"]


def child_environment() -> dict[str, str]:
    """Return our environment, with the module path that `site` would have found.

    Servers may write bytecode, even if this process may not. pip wrote it at installation, but a checkout has none, and
    starting without it takes three times as long.
    """
    home = os.path.dirname(sys.modules["staticfire"].__path__[0])
    path = [home, *(entry for entry in sys.path if os.path.isabs(entry) and entry != home)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment
