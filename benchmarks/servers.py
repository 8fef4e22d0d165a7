"""Server processes: started with a folder of their own, pinned to the server's core, gone when left."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.machine import SERVER_CORE, pin

ROOT = Path(__file__).resolve().parent.parent
START_S_MAX = 20
STOP_S_MAX = 10


@dataclass(frozen=True)
class ServerProcess:
    """A server that accepts connections."""

    pids: tuple[int, ...]
    port: int

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@contextmanager
def broker(folder: str | None = None, namesrv: str = "", **settings: str) -> Iterator[ServerProcess]:
    """Run a broker with an empty store in a new folder below `folder`."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="staticfire-bench-") as store:
        values = {"storePathRootDir": store, "namesrvAddr": namesrv, "vipPortEnable": "false", **settings}
        with _program("staticfire.broker", values) as server:
            yield server


@contextmanager
def nameserver() -> Iterator[ServerProcess]:
    """Run a nameserver."""
    with _program("staticfire.nameserver", {}) as server:
        yield server


@contextmanager
def _program(module: str, settings: dict[str, str]) -> Iterator[ServerProcess]:
    settings = {"listenHost": "127.0.0.1", "listenPort": "0", **settings}
    with ExitStack() as stack:
        ours, theirs = socket.socketpair()
        stack.enter_context(ours)
        arguments = ["--settings", json.dumps(settings), "--parent-fd", str(theirs.fileno())]
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            pass_fds=[theirs.fileno()],
            stdout=subprocess.DEVNULL,
        )
        theirs.close()
        stack.callback(_stop, process)
        pin(process.pid, SERVER_CORE)
        ours.settimeout(START_S_MAX)
        line = ours.recv(4096)
        if not line:
            raise SystemExit(f"bench: {module} did not start (exit code {process.wait()})")
        yield ServerProcess((process.pid,), json.loads(line)["port"])


@contextmanager
def echo(answer_bytes: int) -> Iterator[ServerProcess]:
    """Run the bare server that answers each frame with so many bytes."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.echo", str(answer_bytes)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        pin(process.pid, SERVER_CORE)
        assert process.stdout is not None
        yield ServerProcess((process.pid,), int(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(STOP_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def environment() -> dict[str, str]:
    """Return the environment for a process of the command line: nothing that points elsewhere."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("NAMESRV", "STATICFIRE"))}
