"""What `up` and `run` share: a cluster of processes and its control port, from the first signal handler to the end.

No event loop here, since importing one takes as long as starting the processes does. Signals wait in an inbox from
before the first step to behind the last one, and are taken at three places only: while processes start (StopAsked),
in the caller's event loop, and while processes stop (then nobody is waited for any longer). So a signal never comes
between a start and the line that remembers what was started, and never replaces an exit code that is decided.
"""

import os
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from staticfire.launch.places import FLAGS, WantedCluster, WantedControl, url_of
from staticfire.launch.processes import ProcessCluster
from staticfire.runtime.ports import listen_near, listen_on, port_of
from staticfire.runtime.signals import SignalInbox, StopAsked
from staticfire.runtime.spawning import EarlyStart


@dataclass(frozen=True)
class ClusterFlags:
    """What the flags say, the same for `up` and `run`."""

    wanted: WantedCluster
    control: WantedControl


@dataclass(frozen=True)
class Stand:
    """A cluster that is ready, and the port of its control endpoint, on which connections wait already."""

    cluster: ProcessCluster
    control_socket: socket.socket
    signals: SignalInbox
    control: WantedControl
    ended_badly: list[str] = field(default_factory=list)
    """Filled at its end: which processes didn't stop in order, in words."""

    @property
    def control_url(self) -> str:
        return url_of(port_of(self.control_socket), self.control.host)


@contextmanager
def standing(
    flags: ClusterFlags,
    early: EarlyStart | None,
    stdout: int | None = None,
    more_signals: Sequence[signal.Signals] = (),
) -> Iterator[Stand]:
    """Start a cluster, and end it when left. `early`: processes that wait already, with that standard output.

    Raises: UsageError, ChildFailed, StopAsked.
    """
    signals = SignalInbox(*more_signals)
    try:
        flags.control.check()
        control_socket = _listen_for_control(flags.control)
        ended_badly: list[str] = []
        try:
            with _running_cluster(flags.wanted, stdout, signals, early, ended_badly) as cluster:
                yield Stand(cluster, control_socket, signals, flags.control, ended_badly)
        finally:
            control_socket.close()
    finally:
        signals.close()


def _listen_for_control(control: WantedControl) -> socket.socket:
    """Return the socket of the control endpoint; say so when the usual port belongs to another program, which may be
    RocketMQ's dashboard. Raises: UsageError."""
    if control.is_port_chosen:
        return listen_on(control.host, control.port, FLAGS.ports)
    sock = listen_near(control.host, control.port, FLAGS.ports)
    if control.port not in (0, port_of(sock)):
        url = url_of(port_of(sock), control.host)
        tell(f"another program listens on port {control.port}: the control endpoint is {url} (--control-port chooses)")
    return sock


@contextmanager
def _running_cluster(
    wanted: WantedCluster, stdout: int | None, signals: SignalInbox, early: EarlyStart | None, ended_badly: list[str]
) -> Iterator[ProcessCluster]:
    cluster = ProcessCluster.prepare(wanted, stdout, signals, early)
    try:
        cluster.start()
        if number := signals.take_stop():
            raise StopAsked(number)
        yield cluster
    finally:
        ended_badly += cluster.stop()
        for words in ended_badly:
            tell(words)


def tell(words: str) -> None:
    """Say something to the person at the terminal, on stderr: stdout may belong to a command."""
    try:
        os.write(2, f"staticfire: {words}\n".encode())
    except OSError:
        pass  # Nobody listens any more; the cluster goes on.
