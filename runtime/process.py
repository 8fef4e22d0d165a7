"""The main of a server process: settings in, one service until a signal, exit code out.

    python -m staticfire.broker --settings '{"brokerName": "broker-a"}' --listen-fd 3 --parent-fd 4

`--settings`   what differs from the defaults, as JSON; the environment and files were read by who started us
`--listen-fd`  a listening socket to take over instead of binding the port
`--temporary`  our folder in a temporary one, removed in the end; a parent does that itself, unless it was killed
`--parent-fd`  a socket to who started us. One JSON line goes out when ready; its end means that the parent is gone,
               killed perhaps, and this process stops as well: nothing is ever left behind.
`--early-fd`   the same, of a parent that doesn't know yet what we are to serve: settings, temporary folder and socket
               come in as one JSON line, when everything is imported

Exit codes: 0 stopped, 1 failed, 2 the settings or the machine don't let it run (one line says what). The first
SIGINT, SIGTERM or SIGHUP stops in order, the second at once; but while there is a parent, it is the one who has no
patience: systemd signals every process of a service, and the parent signals us as well. This module and what it
starts import as little as possible: a broker is ready 200 ms after its process began.
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


class Program(NamedTuple, Generic[S]):
    """A server as a process: its settings, what it runs, and the line that scripts wait for."""

    name: str
    settings: type[S]
    service: "Callable[[Machine, S, socket.socket | None], Any]"
    boot_line: Callable[[S, int], str]
    """Of the settings and the port."""


class Launch(NamedTuple):
    """What the command line of a server process says."""

    settings: dict[str, str]
    listen_fd: int | None = None
    parent_fd: int | None = None
    temporary: str = ""


def run_program(program: Program[Any], arguments: Sequence[str]) -> int:
    """Run until stopped and return the exit code."""
    try:
        launch = read_arguments(arguments)
        if launch is None:
            return EXIT_STOPPED
        settings = load_settings(program.settings, launch.settings, {}, None)
        asyncio.run(_serve(program, settings, launch))
    except (UsageError, CantStart) as error:
        print(f"staticfire {program.name}: {error}", file=sys.stderr)
        return EXIT_USAGE
    except StaticfireError as error:
        print(f"staticfire {program.name}: {type(error).__name__}: {error}", file=sys.stderr)
        return EXIT_FAILED
    return EXIT_STOPPED


def read_arguments(arguments: Sequence[str]) -> Launch | None:
    """Read flags that come in pairs; None when a parent that started us early doesn't need us. Raises: UsageError."""
    values = dict(zip(arguments[::2], arguments[1::2], strict=False))
    unknown = sorted(values.keys() - FLAGS)
    if unknown or len(arguments) % 2:
        raise UsageError(f"can't read {' '.join(arguments)}; for people there is `staticfire nameserver` and `broker`")
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
    """Wait until our parent says what we are to serve; None when it has ended."""
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
    return Launch(plan["settings"], fds[0], early_fd, plan["temporary"])


class CantStart(StaticfireError):
    """The machine doesn't let it start."""


async def _serve(program: Program[Any], settings: Any, launch: Launch) -> None:
    """Run the service until a signal or the parent's end."""
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
            load_logging()
            log.debug("descriptor_limit", before=descriptors[0], now=descriptors[1])
            await service.wait()
    except asyncio.CancelledError:
        if stop is None or not stop.asked:
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


def _announce(line: str, port: int, parent: socket.socket | None) -> None:
    """Say that we are ready: to people on stdout, to the parent on its socket."""
    say(line)
    if parent is not None:
        try:
            parent.send(msgspec.json.encode({"port": port}) + b"\n")
        except OSError:
            pass  # It is gone; _Stop sees that, too.


def _remove(files: Files, folder: str) -> None:
    """Remove our folder, and the temporary one around it when nobody else is left in there."""
    files.remove_folder(folder)
    try:
        os.rmdir(os.path.dirname(folder))
    except OSError:
        pass


def _words(error: OSError) -> str:
    """Say what an operating system's error is about, and the way out where it is known."""
    if isinstance(error, PermissionError):
        return f"{os_words(error)} for user {os.getuid()}; give it to that user, or choose another place"
    if isinstance(error, FileExistsError | NotADirectoryError):
        return f"{error.filename} is no folder; choose another place"
    return os_words(error)


class _Stop:
    """Signals and the parent's end, as one request to stop. It may come before the service is ready."""

    def __init__(self, service: Service, parent: socket.socket | None) -> None:
        self._service = service
        self._parent = parent
        self._main = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self.asked = False
        self.ready = False
        self.orphaned = False
        """The parent ended while we were running."""
        self._parent_gone = False
        self._signals_came = 0
        self._numbers = stop_signals()
        for number in self._numbers:
            self._loop.add_signal_handler(number, self._signalled, number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._numbers)  # Who became us may have held them back till now.
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
        self.orphaned = not self.asked
        self._parent_gone = True
        self._stop()

    def _stop(self) -> None:
        self.asked = True
        if self.ready:
            self._service.stop()
        elif self._main is not None:
            self._main.cancel()

    def service_is_ready(self) -> None:
        """From now on a stop lets the service end in its own order."""
        self.ready = True

    def close(self) -> None:
        for number in self._numbers:
            self._loop.remove_signal_handler(number)
        if self._parent is not None:
            self._loop.remove_reader(self._parent)
            self._parent.close()
