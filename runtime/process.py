"""The main function of a server process: read the settings, run one service until a signal, return the exit code.

    python -m staticfire.broker --settings '{"brokerName": "broker-a"}' --listen-fd 3 --parent-fd 4

`--settings`   the settings that differ from the defaults, as JSON; our parent has read the environment and the files
`--listen-fd`  a listening socket to use instead of binding the port `--temporary`  our folder inside a temporary one,
to be removed at the end; the parent removes it, unless it was killed `--parent-fd`  a socket to our parent. We send one
JSON line when ready. When the socket closes, the parent has ended,
               perhaps killed, and this process stops as well, so that no process is ever left behind.
`--early-fd`   like `--parent-fd`, for a parent that hasn't decided yet what we must serve: settings, temporary folder
               and listening socket arrive as one JSON line, after everything is imported

Exit codes: 0 stopped, 1 failed, 2 the settings or the machine prevent the start (one line describes the problem). The
first SIGINT, SIGTERM or SIGHUP stops the service in order, the second one ends the process at once. While there is a
parent, a second signal doesn't: systemd signals every process of a service, and the parent signals us as well, so the
parent decides when to kill. This module and its imports are kept small: a broker is ready 200 ms after its process
started.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from staticfire.protocol.errors import StaticfireError, StorageError, UsageError, os_words
from staticfire.runtime.config import secret_names, variable_of
from staticfire.runtime.exit_codes import EXIT_FAILED, EXIT_STOPPED, EXIT_USAGE
from staticfire.runtime.live import live_machine
from staticfire.runtime.live.descriptors import raise_limit
from staticfire.runtime.loading import load_settings
from staticfire.runtime.log import load as load_logging, logger
from staticfire.runtime.log_sink import say
from staticfire.runtime.machine import Files, Machine
from staticfire.runtime.service import Service
from staticfire.runtime.signals import stop_signals

log = logger("process")

S = TypeVar("S")
FLAGS = frozenset({"--settings", "--listen-fd", "--parent-fd", "--early-fd", "--temporary"})
PLAN_BYTES_MAX = 64 * 1024
# structlog takes 45 ms of CPU time. Right after the start, other processes of the cluster need the processor, and a
# client waits for its first response.
LOGGING_AFTER_MS = 1_000


class Program(NamedTuple, Generic[S]):
    """A server as a process: its settings, its service, and the line that scripts wait for."""

    name: str
    settings: type[S]
    service: "Callable[[Machine, S, socket.socket | None], Any]"
    boot_line: Callable[[S, int], str]
    """Makes the line from the settings and the port."""


class Launch(NamedTuple):
    """The command line of a server process, parsed."""

    settings: dict[str, str]
    listen_fd: int | None = None
    parent_fd: int | None = None
    temporary: str = ""
    secrets: dict[str, str] = {}  # noqa: RUF012 (it is never changed)
    """Secret settings, by their environment variables."""


def run_program(program: Program[Any], arguments: Sequence[str]) -> int:
    """Run until stopped and return the exit code."""
    try:
        launch = read_arguments(arguments)
        if launch is None:
            return EXIT_STOPPED
        secrets = {variable_of(name) for name in secret_names(program.settings)}
        environment = {name: text for name, text in {**os.environ, **launch.secrets}.items() if name in secrets}
        settings = load_settings(program.settings, launch.settings, environment, None)
        asyncio.run(_serve(program, settings, launch))
    except (UsageError, CantStart) as error:
        print(f"staticfire {program.name}: {error}", file=sys.stderr)
        return EXIT_USAGE
    except StaticfireError as error:
        print(f"staticfire {program.name}: {type(error).__name__}: {error}", file=sys.stderr)
        return EXIT_FAILED
    return EXIT_STOPPED


def read_arguments(arguments: Sequence[str]) -> Launch | None:
    """Parse the flags, which come in pairs; return None if a parent that started us early doesn't need us.

    Raises: UsageError.
    """
    values = dict(zip(arguments[::2], arguments[1::2], strict=False))
    unknown = sorted(values.keys() - FLAGS)
    if unknown or len(arguments) % 2:
        raise UsageError(
            f"can't read {' '.join(arguments)}; use the commands `staticfire nameserver` and `staticfire broker`"
        )
    try:
        settings = msgspec.json.decode(values.get("--settings", "{}"), type=dict[str, Any])
        listen_fd, parent_fd, early_fd = (
            int(values[flag]) if flag in values else None for flag in ("--listen-fd", "--parent-fd", "--early-fd")
        )
    except (ValueError, msgspec.MsgspecError) as error:
        raise UsageError(f"can't read {' '.join(arguments)}: {error}") from None
    if early_fd is not None:
        return _receive_plan(early_fd)
    return Launch(
        {key: str(value) for key, value in settings.items()}, listen_fd, parent_fd, values.get("--temporary", "")
    )


def _receive_plan(early_fd: int) -> Launch | None:
    """Wait until our parent sends what to serve; return None if it has ended."""
    link = socket.socket(fileno=early_fd)
    data, fds = b"", list[int]()
    try:
        while not data.endswith(b"\n"):
            more, more_fds, _, _ = socket.recv_fds(link, PLAN_BYTES_MAX, 1)
            if not more:
                return None
            data += more
            fds += more_fds
    except OSError:
        return None
    finally:
        link.detach()
    plan = msgspec.json.decode(data)
    return Launch(plan["settings"], fds[0], early_fd, plan["temporary"], plan["secrets"])


class CantStart(StaticfireError):
    """The machine prevents the start, for example a missing permission or a damaged file."""


async def _serve(program: Program[Any], settings: Any, launch: Launch) -> None:
    """Run the service until a signal comes or the parent ends."""
    descriptors = raise_limit()
    machine = live_machine(is_durable=not launch.temporary)
    sock = None if launch.listen_fd is None else socket.socket(fileno=launch.listen_fd)
    parent = None if launch.parent_fd is None else socket.socket(fileno=launch.parent_fd)
    stop: _Stop | None = None
    try:
        service = program.service(machine, settings, sock)
        stop = _Stop(service, parent)
        async with service:
            stop.service_is_ready()
            _announce(program.boot_line(settings, service.port), service.port, parent)
            service.spawn(_load_logging(machine, service), "logging")
            log.debug("descriptor_limit", before=descriptors[0], now=descriptors[1])
            await service.wait()
    except asyncio.CancelledError:
        if stop is None or not stop.is_requested:
            raise
    except (OSError, StorageError) as error:
        if stop is not None and stop.ready:
            raise
        raise CantStart(_words(error) if isinstance(error, OSError) else str(error)) from None
    finally:
        if stop is not None:
            stop.close()
        await machine.workers.close()
        if launch.temporary and (parent is None or (stop is not None and stop.orphaned)):
            _remove(machine.files, launch.temporary)


async def _load_logging(machine: Machine, service: Service) -> None:
    """Import structlog while the process still has free file descriptors, but not while others start or wait for us."""
    await service.pause_for(LOGGING_AFTER_MS)
    await machine.workers.run(load_logging)


def _announce(line: str, port: int, parent: socket.socket | None) -> None:
    """Report that the service is ready: on stdout to users, on the socket to the parent."""
    say(line)
    if parent is not None:
        try:
            parent.send(msgspec.json.encode({"port": port}) + b"\n")
        except OSError:
            # The parent has ended; `_Stop` notices that, too.
            pass


def _remove(files: Files, folder: str) -> None:
    """Remove our folder, and the temporary folder around it if it is empty then."""
    files.remove_folder(folder)
    try:
        os.rmdir(os.path.dirname(folder))
    except OSError:
        pass


def _words(error: OSError) -> str:
    """Describe an error of the operating system, with a fix if one is known."""
    if isinstance(error, PermissionError):
        return f"{os_words(error)} for user {os.getuid()}; make that user its owner, or choose another place"
    if isinstance(error, FileExistsError | NotADirectoryError):
        return f"{error.filename} is not a folder; choose another place"
    return os_words(error)


class _Stop:
    """Turns signals and the parent's end into one request to stop. The request may come before the service is ready."""

    def __init__(self, service: Service, parent: socket.socket | None) -> None:
        self._service = service
        self._parent = parent
        self._main = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self.is_requested = False
        self.ready = False
        self.orphaned = False
        """Whether the parent ended while we were running."""
        self._parent_gone = False
        self._signals_came = 0
        self._numbers = stop_signals()
        for number in self._numbers:
            self._loop.add_signal_handler(number, self._signalled, number)
        # Our parent may have blocked them until now.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._numbers)
        if parent is not None:
            parent.setblocking(False)
            self._loop.add_reader(parent, self._parent_ended)

    def _signalled(self, number: signal.Signals) -> None:
        self._signals_came += 1
        if self._signals_came > 1 and (self._parent is None or self._parent_gone):
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self._stop()

    def _parent_ended(self) -> None:
        if self._parent is not None:
            self._loop.remove_reader(self._parent)
        self.orphaned = not self.is_requested
        self._parent_gone = True
        self._stop()

    def _stop(self) -> None:
        self.is_requested = True
        if self.ready:
            self._service.stop()
        elif self._main is not None:
            self._main.cancel()

    def service_is_ready(self) -> None:
        """Mark the service as ready. From now on, a request to stop lets the service end in order."""
        self.ready = True

    def close(self) -> None:
        if self._parent is not None and not self._parent_gone:
            # The exit code is decided. A later signal would replace it.
            signal.pthread_sigmask(signal.SIG_BLOCK, self._numbers)
        for number in self._numbers:
            self._loop.remove_signal_handler(number)
        if self._parent is not None:
            self._loop.remove_reader(self._parent)
            self._parent.close()
