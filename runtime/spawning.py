"""Start server processes, also before it is decided what they must serve.

Half of the time of `staticfire up` is Python reading flags, the other half is servers importing their programs. With
`EarlyStart`, both happen at the same time: servers begin to import, and later receive what they must serve. They import
together where the system allows it (siblings.py). This module imports as little as possible, because the start of the
servers waits for it.
"""

import io
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

BROKER_PROGRAM, NAMESERVER_PROGRAM, PROXY_PROGRAM = "staticfire.broker", "staticfire.nameserver", "staticfire.proxy"

SIBLINGS_PROGRAM = "staticfire.runtime.siblings"
# The extension module that forks; see _siblings.c.
FORKING = "staticfire.runtime._siblings"
# The last part of the folder with the compiled modules of Python's library.
DYNLOAD = "lib-dynload"
# How long a process that imports for others may take until they are forked.
FORK_TIMEOUT_S = 30
# The longest pause between two looks whether a forked process has ended.
LOOK_PAUSE_S_MAX = 0.02

Started = tuple["subprocess.Popen[bytes] | ForkedProcess", socket.socket]
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


class ForkedProcess:
    """A child that was forked by another child: what `children.py` needs of `subprocess.Popen`."""

    def __init__(self, pid: int, stderr: int) -> None:
        """`stderr`: the descriptor from which its standard error is read."""
        self.pid = pid
        self.returncode: int | None = None
        self.stderr = io.FileIO(stderr)

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""
        return self._reap(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code when it has ended. Raises: TimeoutExpired."""
        if timeout is None:
            code = self._reap(0)
            assert code is not None
            return code
        deadline_s, pause_s = time.monotonic() + timeout, 0.0005
        while (code := self._reap(os.WNOHANG)) is None:
            if time.monotonic() >= deadline_s:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LOOK_PAUSE_S_MAX)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _reap(self, options: int) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, options)
            except ChildProcessError:  # The program has waited for all its children; `subprocess` returns 0 as well.
                self.returncode = 0
            else:
                self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


class _ForkToCome:
    """A process that will be forked: our ends of its socket and of its standard error."""

    def __init__(self, module: str) -> None:
        self.link, self._its_link = socket.socketpair()
        self._stderr, self._its_stderr = os.pipe()
        self.fds = (self._its_link.fileno(), self._its_stderr)
        self.word = f"{module}:{self.fds[0]}:{self.fds[1]}"

    def close_its_ends(self) -> None:
        self._its_link.close()
        os.close(self._its_stderr)

    def process(self) -> ForkedProcess | None:
        """Wait until it is forked; return None, and close everything, if it can't be."""
        received = b""
        self.link.settimeout(FORK_TIMEOUT_S)
        try:
            while not received.endswith(b"\n") and (more := self.link.recv(64)):
                received += more
        except OSError:
            received = b""
        self.link.settimeout(None)
        if received.endswith(b"\n"):
            return ForkedProcess(int(received), self._stderr)
        self.link.close()
        os.close(self._stderr)
        return None


class EarlyStart:
    """Servers that were started before it was decided what they must serve. `close` ends those not needed."""

    def __init__(self, modules: Sequence[str], stdout: int | None = None) -> None:
        """Start one process for each module, the slowest first. `stdout`: as for `Children`."""
        self._waiting: list[tuple[str, Started]] = []
        self._awaited: list[tuple[str, _ForkToCome]] = []
        try:
            if len(modules) > 1 and can_fork():
                self._start_together(modules, stdout)
            else:
                for module in modules:
                    self._waiting.append((module, start_process(module, "--early-fd", (), stdout, ())))
        except OSError:
            # They will be started when they are needed, and the error is reported then.
            pass

    def _start_together(self, modules: Sequence[str], stdout: int | None) -> None:
        first, *others = modules
        awaited = [(module, _ForkToCome(module)) for module in others]
        fds = [fd for _, one in awaited for fd in one.fds]
        words = [first, *(one.word for _, one in awaited)]
        self._awaited = awaited
        try:
            self._waiting.append((first, start_process(SIBLINGS_PROGRAM, "--early-fd", words, stdout, fds)))
        finally:
            for _, one in awaited:
                one.close_its_ends()

    def take(self, module: str) -> Started | None:
        """Return a process that waits for its plan, if there is one."""
        for waiting in self._waiting:
            if waiting[0] == module:
                self._waiting.remove(waiting)
                return waiting[1]
        for awaited in self._awaited:
            if awaited[0] == module:
                self._awaited.remove(awaited)
                process = awaited[1].process()
                return None if process is None else (process, awaited[1].link)
        return None

    def close(self) -> None:
        """End the processes that weren't taken."""
        waiting, self._waiting = self._waiting, []
        awaited, self._awaited = self._awaited, []
        for _, (process, _) in waiting:
            process.kill()  # First the one that forks: afterwards each of the others exists, or never will.
        for _, one in awaited:
            if (forked := one.process()) is not None:
                forked.kill()
                waiting.append(("", (forked, one.link)))
        for _, (process, link) in waiting:
            link.close()
            process.wait()
            assert process.stderr is not None
            process.stderr.close()


def can_fork() -> bool:
    """Return whether servers can import together here."""
    if os.environ.get("STATICFIRE_PURE_PYTHON"):
        return False
    from importlib import import_module

    try:
        return bool(import_module(FORKING).can_fork())
    except ImportError:  # It was built without a compiler.
        return False


def interpreter() -> list[str]:
    """Return the command that starts Python for our programs: without `site`, which takes 20 ms of a start."""
    return [sys.executable, "-S", "-P"]


def child_environment() -> dict[str, str]:
    """Return our environment, with the module path that `site` would have found.

    Python puts these folders before its own library. So that comes first here: a folder of the user may have a
    `queue.py`, and an old package an `enum.py`.

    Servers may write bytecode, even if this process may not. pip wrote it at installation, but a checkout has none, and
    starting without it takes three times as long.
    """
    home = os.path.dirname(sys.modules["staticfire"].__path__[0])
    library = os.path.dirname(os.__file__)
    libraries = [entry for entry in sys.path if entry == library or os.path.basename(entry) == DYNLOAD]
    others = [entry for entry in sys.path if os.path.isabs(entry) and entry not in (home, *libraries)]
    path = [*libraries, home, *others]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment
