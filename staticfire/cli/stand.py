"""What `up` and `run` share: a cluster of processes and its control port, from the first signal handler to the end.

There is no event loop here, since importing asyncio takes as long as starting the processes. Signals wait in an inbox
from before the first step until after the last one. They are handled at three places only: while processes start
(StopRequested), in the caller's event loop, and while processes stop (which then no longer waits for them). So a signal
never arrives between a start and the line that records what was started, and never changes an exit code that is
decided.
"""

import os
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from staticfire.launch.copies import missing_copies
from staticfire.launch.places import FLAGS, WantedCluster, WantedControl, url_of
from staticfire.launch.plan import HOST
from staticfire.launch.processes import ProcessCluster
from staticfire.runtime.children import Child
from staticfire.runtime.ports import listen_near, listen_on, port_of
from staticfire.runtime.signals import SignalInbox, StopRequested
from staticfire.runtime.spawning import EarlyStart
from staticfire.runtime.tls.settings import ENFORCING


@dataclass(frozen=True)
class ClusterFlags:
    """The values of the flags that `up` and `run` share."""

    wanted: WantedCluster
    control: WantedControl


@dataclass(frozen=True)
class Stand:
    """A cluster that is ready, and the port of its control endpoint, which already queues connections."""

    cluster: ProcessCluster
    control_socket: socket.socket
    signals: SignalInbox
    control: WantedControl
    dead: list[Child] = field(default_factory=list)
    """The processes that ended unexpectedly. Complete at the end: one that was killed shortly before is found then."""
    ended_badly: list[str] = field(default_factory=list)
    """Set at the end: one sentence for each process that didn't stop in order."""

    @property
    def control_url(self) -> str:
        is_tls = self.cluster.tls.tls_server_mode == ENFORCING
        return url_of(port_of(self.control_socket), self.control.host, is_tls)


@contextmanager
def standing(
    flags: ClusterFlags,
    early: EarlyStart | None,
    stdout: int | None = None,
    more_signals: Sequence[signal.Signals] = (),
    later: Sequence[str] = (),
) -> Iterator[Stand]:
    """Start a cluster, and stop it at the end. `early`: processes that are started already, with that standard output.

    `later`: the processes that the caller starts itself.
    Raises: UsageError, ChildFailed, StopRequested.
    """
    signals = SignalInbox(*more_signals)
    try:
        flags.control.check()
        control_socket = _listen_for_control(flags.control)
        ended_badly: list[str] = []
        try:
            running = _running_cluster(flags.wanted, stdout, signals, early, ended_badly, later)
            with running as cluster, _owners_key(cluster):
                yield Stand(cluster, control_socket, signals, flags.control, ended_badly=ended_badly)
        finally:
            control_socket.close()
    finally:
        signals.close()


@contextmanager
def _owners_key(cluster: ProcessCluster) -> Iterator[None]:
    """Let the commands of this user sign as the cluster's own user while it runs."""
    from staticfire.runtime.local_keys import remove_key, write_key  # here, after the processes were started

    own = cluster.plan.own_key
    nameserver = cluster.plan.nameservers[0]
    written = write_key(nameserver.listen_port, own, nameserver.tls_server_mode == ENFORCING) if own else None
    try:
        yield
    finally:
        remove_key(written)


def _listen_for_control(control: WantedControl) -> socket.socket:
    """Return the socket of the control endpoint. Report it if another program, such as RocketMQ's dashboard, uses the
    default port. Raises: UsageError."""
    if control.is_port_chosen:
        return listen_on(control.host, control.port, FLAGS.ports)
    sock = listen_near(control.host, control.port, FLAGS.ports)
    if control.port not in (0, port_of(sock)):
        url = url_of(port_of(sock), control.host)
        tell(
            f"another program listens on port {control.port}: the control endpoint is {url} (choose another port with "
            "--control-port)"
        )
    return sock


@contextmanager
def _running_cluster(
    wanted: WantedCluster,
    stdout: int | None,
    signals: SignalInbox,
    early: EarlyStart | None,
    ended_badly: list[str],
    later: Sequence[str],
) -> Iterator[ProcessCluster]:
    cluster = ProcessCluster.prepare(wanted, stdout, signals, early)
    if wanted.listen != HOST:
        from staticfire.launch.exposure import exposure  # here, since few starts need it

        if words := exposure(cluster.plan, wanted.listen):
            tell(words)
    if words := missing_copies(cluster.plan.brokers[0], wanted.replicas):
        tell(words)
    try:
        cluster.start(later)
        if number := signals.first_stop():
            raise StopRequested(number)
        yield cluster
    except StopRequested:
        signals.take_stop()  # It ends the program now. Only another one ends the wait for the processes.
        raise
    finally:
        ended_badly += cluster.stop()
        for words in ended_badly:
            tell(words)


def tell(words: str) -> None:
    """Print a message for the user on stderr, since stdout may belong to a command."""
    try:
        os.write(2, f"staticfire: {words}\n".encode())
    except OSError:
        pass  # stderr is closed; the cluster continues.
