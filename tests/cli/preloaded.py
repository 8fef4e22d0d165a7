"""Commands in processes that are forked from one that has imported the command line.

A new Python takes a tenth of a second before a command begins, and the tests run more than a thousand. In a forked
process more modules are loaded already; otherwise a command sees no difference. What a start loads is tested with new
processes (tests/house/test_start.py, test_weight.py), and `Up` starts one each time.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
REQUEST_BYTES_MAX = 1 << 20
DESCRIPTORS = 4  # of a request: standard input, output, error, and where its exit code goes


class Preloaded:
    """The process that forks. It ends with this one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._link, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(its.fileno())],
            pass_fds=[its.fileno()],
            cwd=ROOT,
            env=dict(environment),
        )
        its.close()
        atexit.register(self.close)

    def call(
        self, arguments: Sequence[str], text: str, environment: Mapping[str, str], timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end. Raises: subprocess.TimeoutExpired (it is killed then)."""
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            stdin.write(text.encode())
            stdin.seek(0)
            result, its = os.pipe()
            try:
                request = json.dumps([list(arguments), dict(environment)]).encode()
                fds = [stdin.fileno(), stdout.fileno(), stderr.fileno(), its]
                socket.send_fds(self._link, [request], fds)
            finally:
                os.close(its)
            with open(result, "rb", buffering=0) as results:
                pid = int.from_bytes(results.read(4), "big")
                assert pid, "the process that forks has ended"
                if not select.select([results], [], [], timeout_s)[0]:
                    os.kill(pid, signal.SIGKILL)
                    raise subprocess.TimeoutExpired(list(arguments), timeout_s)
                code = int.from_bytes(results.read(4), "big", signed=True)
            texts = []
            for file in (stdout, stderr):
                file.seek(0)
                texts.append(file.read().decode())
        return subprocess.CompletedProcess(list(arguments), code, *texts)

    def close(self) -> None:
        """End the process."""
        self._link.close()
        self._process.wait()


@cache
def preloaded() -> Preloaded:
    """Return the one of this process."""
    from tests.cli.commands import environment  # here, since that module imports this one

    return Preloaded(environment())


# -- the process that forks -----------------------------------------------------------------------------------------


def serve(link: socket.socket) -> list[str] | None:
    """Fork for each request. Return the arguments in a forked process, None in the first one at its end."""
    running: dict[int, int] = {}
    ended, wake = os.pipe()
    for fd in (ended, wake):
        os.set_blocking(fd, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    while True:
        ready = select.select([link.fileno(), ended], [], [])[0]
        if ended in ready:
            os.read(ended, 4096)
            _report_ended(running)
        if link.fileno() not in ready:
            continue
        request, fds, _, _ = socket.recv_fds(link, REQUEST_BYTES_MAX, DESCRIPTORS)
        if not request:
            return None
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for fd in (link.fileno(), ended, wake, *running.values()):
                os.close(fd)
            return _begin(request, fds)
        running[pid] = fds.pop()
        os.write(running[pid], pid.to_bytes(4, "big"))
        for fd in fds:
            os.close(fd)


def _report_ended(running: dict[int, int]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        code = os.waitstatus_to_exitcode(status)
        # A caller that has given up doesn't read it, and later callers still need this process.
        with suppress(BrokenPipeError), open(running.pop(pid), "wb", buffering=0) as result:
            result.write(code.to_bytes(4, "big", signed=True))


def _begin(request: bytes, fds: list[int]) -> list[str]:
    arguments, environment = json.loads(request)
    *streams, result = fds
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    os.close(result)
    os.environ.clear()
    os.environ.update(environment)
    found: list[str] = arguments
    return found


def _load() -> None:
    import staticfire.cli

    for module in pkgutil.walk_packages(staticfire.cli.__path__, "staticfire.cli."):
        importlib.import_module(module.name)
    import asyncio  # noqa: F401
    import ssl  # noqa: F401

    import staticfire.client


def main() -> int:
    """Serve until the other end of the socket is closed; or be the command."""
    link = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that runs the tests.
    _load()
    gc.freeze()
    arguments = serve(link)
    if arguments is None:
        return 0
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["staticfire", *arguments]
    from staticfire.cli import main as staticfire

    return staticfire()


if __name__ == "__main__":
    sys.exit(main())
