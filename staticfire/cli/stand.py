"""What `up` and `run` share: a cluster of processes and its control port, from the first signal handler to the end.

No event loop here, since importing one takes as long as starting the processes does: until the caller runs one, a
signal raises `StopAsked`, and whatever was started is ended on the way out. Where Python drops an exception, as in the
callbacks of its own import locks, the signal is still noted, and the loop begins with it.
"""

import os
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from staticfire.places import PORTS_WAY_OUT, url_of
from staticfire.plan import HOST
from staticfire.processes import ProcessCluster
from staticfire.runtime.ports import listen_on, port_of


def stop_signals() -> list[signal.Signals]:
    """Return the signals that end us: SIGHUP as well, unless nohup has said that it doesn't."""
    hang_up = [] if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGINT, signal.SIGTERM, *hang_up]


class StopAsked(BaseException):
    """A signal came while no event loop was there to take it. Not an Exception: nothing but the end handles it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@dataclass(frozen=True)
class ClusterFlags:
    """What the flags say, the same for `up` and `run`."""

    brokers: int
    namesrv_port: int
    broker_port: int
    control_port: int
    directory: str | None
    settings: Mapping[str, str]
    file: str | None


@dataclass(frozen=True)
class Stand:
    """A cluster that is ready, and the port of its control endpoint, on which connections wait already."""

    cluster: ProcessCluster
    control_socket: socket.socket
    asked: list[int]
    """Signals that came before the event loop could take them."""

    @property
    def control_url(self) -> str:
        return url_of(port_of(self.control_socket))


@contextmanager
def standing(flags: ClusterFlags, stdout: int | None = None) -> Iterator[Stand]:
    """Start a cluster, and end it when left. Raises: UsageError, ChildFailed, StopAsked."""
    asked: list[int] = []
    signals_raise(asked)
    control_socket = listen_on(HOST, flags.control_port, PORTS_WAY_OUT)
    try:
        cluster = ProcessCluster.prepare(
            flags.brokers,
            flags.namesrv_port,
            flags.broker_port,
            flags.directory,
            flags.settings,
            flags.file,
            stdout,
        )
        try:
            cluster.start()
            if asked:
                raise StopAsked(asked[0])
            yield Stand(cluster, control_socket, asked)
        finally:
            # A signal raises here, too: then whatever still runs is killed, and the folder is removed all the same.
            signals_raise(asked)
            tell_late(cluster.stop())
    finally:
        control_socket.close()


def signals_raise(asked: list[int]) -> None:
    """Let signals raise StopAsked, until a loop handles them, and note them in `asked`."""

    def stop(number: int, _: FrameType | None) -> None:
        asked.append(number)
        raise StopAsked(number)

    for number in stop_signals():
        signal.signal(number, stop)


def tell_late(names: list[str]) -> None:
    """Say who had to be killed."""
    for name in names:
        tell(f"{name} didn't stop in time and was killed")


def tell(words: str) -> None:
    """Say something to the person at the terminal, on stderr: stdout may belong to a command."""
    try:
        os.write(2, f"staticfire: {words}\n".encode())
    except OSError:
        pass  # Nobody listens any more; the cluster goes on.
