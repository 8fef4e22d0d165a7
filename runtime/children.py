"""The child processes of a cluster, for the process that started them.

There is a socket to each child, and a pipe for its stderr. On the socket, the child sends one line when it is ready.
When the child ends, the socket closes; when we end, it closes as well, and the child must stop. What children write to
stderr is passed on, and the last lines are kept, to explain why a child died.

One selector serves all of this, without a thread: `pump` handles everything that is pending. Its `fileno` becomes
readable when something is pending. So an event loop can drive it, and `wait_ready` and `stop` drive it themselves.
"""

import json
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from staticfire.protocol.errors import StaticfireError
from staticfire.runtime.exit_codes import EXIT_USAGE
from staticfire.runtime.log_sink import LogSink
from staticfire.runtime.signals import SignalInbox, StopRequested
from staticfire.runtime.spawning import EarlyStart, ForkedProcess, start_process

READY_TIMEOUT_MS = 30_000
# A broker writes its tables and syncs its log when it stops. A child that takes longer is killed.
STOP_TIMEOUT_MS = 10_000
# The time from the end of a child's socket, which is the last thing a child closes, to its exit.
EXIT_TIMEOUT_MS = 5_000
# How much of a child's stderr is kept, to explain why it died.
LAST_BYTES = 4096
# How much of a child's stderr is held back before it is ready. It is held back because the process that started the
# cluster reports a usage error itself.
START_BYTES_MAX = 64 * 1024
NO_SECRETS: Mapping[str, str] = {}


class ChildFailed(StaticfireError):
    """A process of the cluster ended, or didn't become ready."""

    def __init__(self, child: "Child", words: str) -> None:
        super().__init__(words)
        self.child = child


class ChildPlan(NamedTuple):
    """What to start: `python -m module` with settings and a listening socket."""

    name: str
    module: str
    settings: Mapping[str, str]
    sock: socket.socket
    temporary: str = ""
    """The child's temporary folder. The child removes it if we were killed and can't."""
    secrets: Mapping[str, str] = NO_SECRETS
    """The secret settings, by their environment variables."""


class Child:
    """One process. `exit_code` is None while it runs, and negative if a signal killed it."""

    def __init__(self, name: str, process: "subprocess.Popen[bytes] | ForkedProcess", link: socket.socket) -> None:
        self.name = name
        self.process = process
        self.link = link
        self.ready = False
        self.is_awaited = True
        """Whether a wait reports its end if it ends before it is ready."""
        self.stopping = False
        self.was_killed = False
        """Whether we have killed it."""
        self.exit_code: int | None = None
        self.held_back = b""
        self._last = b""

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def died(self) -> bool:
        """Whether it ended without a request to stop, also if we requested that before we noticed."""
        is_foreign = not self.stopping or (self.exit_code == -signal.SIGKILL and not self.was_killed)
        return self.exit_code is not None and is_foreign

    @property
    def last_lines(self) -> list[str]:
        """The last lines that it wrote to stderr."""
        return self._last.decode(errors="replace").splitlines()

    def wrote(self, data: bytes) -> None:
        """Keep the end of its stderr."""
        self._last = (self._last + data)[-LAST_BYTES:]

    def how_it_ended(self) -> str:
        """Describe which child ended, and how."""
        code = self.exit_code if self.exit_code is not None else 0
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"{self.name} (pid {self.pid}) {how}"

    def last_words(self, lines_max: int = 5) -> str:
        """Return its last lines, indented below a heading; empty if it wrote nothing."""
        lines = self.last_lines[-lines_max:]
        return "".join(f"\n  {line}" for line in ["its last lines were", *lines]) if lines else ""


class Children:
    """The processes that this process started and will stop. `on_death` is called if one ends without a request."""

    def __init__(
        self,
        stdout: int | None = None,
        signals: SignalInbox | None = None,
        on_death: Callable[[Child], None] = lambda _child: None,
        stderr: int = 2,
        early: EarlyStart | None = None,
    ) -> None:
        """`stdout`: the children's standard output; None: the same as ours.

        `signals`: a signal to stop that arrives there ends the wait for a start or for a stop.
        `stderr`: the descriptor to which the children's stderr is passed on. A slow or missing reader is never waited
        for.
        `early`: processes that already wait for their plan; they must have been started with the same standard output.
        """
        self._stdout = stdout
        self._early = early
        self._signals = signals
        self._selector = selectors.DefaultSelector()
        self._children: dict[str, Child] = {}
        self._on_death = on_death
        self._stderr = LogSink(stderr)

    def __getitem__(self, name: str) -> Child:
        return self._children[name]

    def __contains__(self, name: object) -> bool:
        return name in self._children

    def spawn(self, plan: ChildPlan) -> Child:
        """Start a process and pass the listening socket to it; our copy of the socket is closed."""
        try:
            early = self._early.take(plan.module) if self._early is not None else None
            if early is not None:
                process, ours = early
                _tell_plan(ours, plan)
            else:
                arguments = ["--settings", json.dumps(dict(plan.settings)), "--listen-fd", str(plan.sock.fileno())]
                if plan.temporary:
                    arguments += ["--temporary", plan.temporary]
                fds = [plan.sock.fileno()]
                process, ours = start_process(plan.module, "--parent-fd", arguments, self._stdout, fds, plan.secrets)
        finally:
            plan.sock.close()
        child = self._children[plan.name] = Child(plan.name, process, ours)
        assert process.stderr is not None
        os.set_blocking(process.stderr.fileno(), False)
        ours.setblocking(False)
        self._selector.register(process.stderr, selectors.EVENT_READ, (child, self._read_stderr))
        self._selector.register(ours, selectors.EVENT_READ, (child, self._read_link))
        return child

    def fileno(self) -> int:
        """Return the descriptor that is readable when `pump` has something to do."""
        return self._selector.fileno()

    def pump(self, timeout_s: float = 0) -> None:
        """Read what the children have sent, and notice which of them have ended."""
        for key, _ in self._selector.select(timeout_s):
            if key.data is not None:
                child, read = key.data
                read(child)

    def wait_ready(self, children: Sequence[Child], timeout_ms: int = READY_TIMEOUT_MS) -> None:
        """Return when all are ready. Raises: ChildFailed if one has ended or takes too long, StopRequested."""
        deadline_s, is_over = time.monotonic() + timeout_ms / 1000, False
        with self._watching_signals():
            while waiting := [child for child in children if not child.ready]:
                for child in waiting:
                    if child.exit_code is not None:
                        raise ChildFailed(child, f"{child.how_it_ended()} before it was ready")
                if is_over:
                    raise ChildFailed(waiting[0], f"{waiting[0].name} was not ready within {timeout_ms} ms")
                left_s = deadline_s - time.monotonic()
                is_over = left_s <= 0
                self.pump(max(left_s, 0))  # Also after the deadline: it may have passed while we couldn't run.
                if self._signals is not None and (number := self._signals.first_stop()):
                    for child in children:
                        child.is_awaited = False
                    raise StopRequested(number)

    def stop(self, children: Sequence[Child], timeout_ms: int = STOP_TIMEOUT_MS) -> list[Child]:
        """Stop these processes and wait for them; return those that had to be killed.

        If another signal to stop arrives meanwhile, the wait ends and the remaining ones are killed.
        """
        running = [child for child in children if child.exit_code is None]
        for child in running:
            child.stopping = True
            child.process.terminate()
            # A frozen process would receive the signal too late.
            self.thaw(child)
        deadline_s = time.monotonic() + timeout_ms / 1000
        with self._watching_signals():
            while any(child.exit_code is None for child in running):
                left_s = deadline_s - time.monotonic()
                self.pump(max(left_s, 0))  # Also after the deadline: it may have passed while we couldn't run.
                if left_s <= 0 or (self._signals is not None and self._signals.take_stop()):
                    break
        late = [child for child in running if child.exit_code is None]
        for child in late:
            self.kill(child)
        return late

    def kill(self, child: Child) -> None:
        """Kill a process with SIGKILL, as a power cut would."""
        child.stopping = True
        child.was_killed = True
        child.process.kill()
        while child.exit_code is None:
            self.pump(1)

    def freeze(self, child: Child) -> None:
        """Freeze a running process with SIGSTOP, as if the machine hung."""
        child.process.send_signal(signal.SIGSTOP)

    def thaw(self, child: Child) -> None:
        """Let a frozen process continue."""
        child.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Kill the processes that still run, and release everything."""
        for child in self._children.values():
            if child.exit_code is None:
                self.kill(child)
        self._stderr.flush()
        self._selector.close()

    @contextmanager
    def _watching_signals(self) -> Iterator[None]:
        """Let `pump` return when a signal arrives.

        This is only active while we wait. If an event loop called us, it must handle the signals afterwards.
        """
        if self._signals is None:
            yield
            return
        self._selector.register(self._signals, selectors.EVENT_READ, None)
        try:
            yield
        finally:
            self._selector.unregister(self._signals)
            self._signals.notify_again()

    def _read_link(self, child: Child) -> None:
        data = _receive(child.link)
        if data:
            child.ready = child.ready or b"\n" in data
            self._pass_on(child.held_back)
            child.held_back = b""
        elif data is not None:
            self._ended(child)

    def _ended(self, child: Child) -> None:
        """Handle the end of the socket: the process has ended, or will in a moment."""
        self._selector.unregister(child.link)
        child.link.close()
        try:
            child.exit_code = child.process.wait(EXIT_TIMEOUT_MS / 1000)
        except subprocess.TimeoutExpired:
            child.was_killed = True
            child.process.kill()
            child.exit_code = child.process.wait()
        self._read_stderr(child)
        if not child.stopping and child.exit_code != EXIT_USAGE:
            self._pass_on(child.held_back)
        self._close_stderr(child)
        if child.died and (child.ready or not child.is_awaited):
            self._on_death(child)

    def _read_stderr(self, child: Child) -> None:
        assert child.process.stderr is not None
        while not child.process.stderr.closed:
            try:
                data = os.read(child.process.stderr.fileno(), 65536)
            except BlockingIOError:
                return
            if not data:
                self._close_stderr(child)
                return
            child.wrote(data)
            if child.ready:
                self._pass_on(data)
            else:
                child.held_back = (child.held_back + data)[-START_BYTES_MAX:]

    def _close_stderr(self, child: Child) -> None:
        assert child.process.stderr is not None
        if not child.process.stderr.closed:
            self._selector.unregister(child.process.stderr)
            child.process.stderr.close()

    def _pass_on(self, data: bytes) -> None:
        if data:
            self._stderr.write_bytes(data)
            self._stderr.flush()


def _tell_plan(link: socket.socket, plan: ChildPlan) -> None:
    """Send a process that was started early what it must serve."""
    handed = {"settings": dict(plan.settings), "temporary": plan.temporary, "secrets": dict(plan.secrets)}
    try:
        socket.send_fds(link, [json.dumps(handed).encode() + b"\n"], [plan.sock.fileno()])
    except OSError:
        # The process has died. The caller that waits for it will notice.
        pass


def _receive(link: socket.socket) -> bytes | None:
    """Return the received bytes; b"" at the end, None if nothing has arrived yet."""
    try:
        return link.recv(4096)
    except BlockingIOError:
        return None
    except OSError:
        return b""
