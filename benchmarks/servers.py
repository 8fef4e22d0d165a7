"""Server processes: started with their own folder, pinned to the server's core, stopped at the end."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.machine import SERVER_CORE, cpu_ns, pin

ROOT = Path(__file__).resolve().parent.parent
# The limits for a start and a stop, also with a full store.
START_S_MAX = STOP_S_MAX = 120
IDLE_LOOK_S = 0.5
IDLE_CPU_NS = 10_000_000
# Consecutive idle looks. One isn't enough: a broker pauses for a second after every thousand queues that it writes.
IDLE_LOOKS = 3
IDLE_LOOKS_MAX = 240


@dataclass(frozen=True)
class ServerProcess:
    """A server that accepts connections."""

    pids: tuple[int, ...]
    port: int
    ready_ms: float = 0.0
    """The time from the start of its process until it is ready."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@contextmanager
def broker(folder: str | None = None, namesrv: str = "", **settings: str) -> Iterator[ServerProcess]:
    """Run a broker with an empty store in a new folder below `folder`."""
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix="staticfire-bench-") as store,
        broker_in(Path(store), False, namesrvAddr=namesrv, **settings) as server,
    ):
        yield server


@contextmanager
def broker_in(folder: Path, is_killed: bool = False, **settings: str) -> Iterator[ServerProcess]:
    """Run a broker with a folder. `is_killed`: at the end, kill it instead of stopping it in order."""
    values = {"storePathRootDir": str(folder), "namesrvAddr": "", "vipPortEnable": "false", **settings}
    with _program("staticfire.broker", values, is_killed) as server:
        yield server


@contextmanager
def nameserver() -> Iterator[ServerProcess]:
    """Run a nameserver."""
    with _program("staticfire.nameserver", {}) as server:
        yield server


@contextmanager
def proxy(namesrv: str) -> Iterator[ServerProcess]:
    """Run a gRPC endpoint."""
    with _program("staticfire.proxy", {"namesrvAddr": namesrv, "grpcServerPort": "0"}) as server:
        yield server


@contextmanager
def _program(module: str, settings: dict[str, str], is_killed: bool = False) -> Iterator[ServerProcess]:
    port = {} if "grpcServerPort" in settings else {"listenPort": "0"}
    settings = {"listenHost": "127.0.0.1", **port, **settings}
    with ExitStack() as stack:
        ours, theirs = socket.socketpair()
        stack.enter_context(ours)
        arguments = ["--settings", json.dumps(settings), "--parent-fd", str(theirs.fileno())]
        started = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            pass_fds=[theirs.fileno()],
            stdout=subprocess.DEVNULL,
        )
        theirs.close()
        stack.callback(process.wait)
        stack.callback(process.kill if is_killed else partial(_stop, process))
        pin(process.pid, SERVER_CORE)
        ours.settimeout(START_S_MAX)
        line = ours.recv(4096)
        ready_ms = (time.perf_counter() - started) * 1000
        if not line:
            raise SystemExit(f"bench: {module} did not start (exit code {process.wait()})")
        yield ServerProcess((process.pid,), json.loads(line)["port"], ready_ms)


@contextmanager
def echo(answer_bytes: int) -> Iterator[ServerProcess]:
    """Run the bare server, which responds to each frame with that many bytes."""
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


def wait_until_idle(server: ServerProcess) -> None:
    """Wait until a server has written everything to disk."""
    idle = 0
    for _ in range(IDLE_LOOKS_MAX):
        before = cpu_ns(server.pids[0])
        time.sleep(IDLE_LOOK_S)
        idle = idle + 1 if cpu_ns(server.pids[0]) - before < IDLE_CPU_NS else 0
        if idle == IDLE_LOOKS:
            return


def environment() -> dict[str, str]:
    """Return the environment for a command-line process, without variables that refer to another cluster."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("NAMESRV", "STATICFIRE"))}
