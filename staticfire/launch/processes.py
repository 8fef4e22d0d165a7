"""A cluster of processes: nameservers and brokers, all started at once, stopped in order.

This process binds all ports and hands them over, so no process waits for another at the start: a broker's first
connection waits in the nameserver's backlog until the nameserver has loaded.
"""

import os
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from staticfire.launch.environment import check_environment
from staticfire.launch.places import ClusterFolder, Ports, WantedCluster, describe_cluster
from staticfire.launch.plan import (
    PROXY,
    ClusterPlan,
    GivenSettings,
    broker_names,
    broker_ports,
    nameserver_names,
    nameserver_ports,
    plan_cluster,
    replica_names,
    replica_ports,
)
from staticfire.protocol.errors import ClientError, UsageError
from staticfire.runtime.children import Child, ChildFailed, ChildPlan, Children
from staticfire.runtime.config import non_defaults, without_secrets
from staticfire.runtime.exit_codes import EXIT_USAGE
from staticfire.runtime.signals import SignalInbox
from staticfire.runtime.spawning import BROKER_PROGRAM, NAMESERVER_PROGRAM, PROXY_PROGRAM, EarlyStart
from staticfire.runtime.tls.settings import TlsClient, TlsSettings

if TYPE_CHECKING:
    from staticfire.launch.process_faults import ProcessFaults
    from staticfire.runtime.credentials import Credentials


class ProcessCluster:
    """A cluster in processes of its own. `stop` also removes a temporary folder."""

    def __init__(
        self,
        folder: ClusterFolder,
        ports: Ports,
        plan: ClusterPlan,
        stdout: int | None = None,
        signals: SignalInbox | None = None,
        early: EarlyStart | None = None,
        fails_over: bool = False,
    ) -> None:
        """`fails_over`: the owner of this cluster must let slaves take over from masters that are gone."""
        self.fails_over = fails_over
        self.folder = folder
        self.plan = plan
        self._ports = ports
        self._tell_of_death: Callable[[Child], None] = lambda _child: None
        self.children = Children(stdout, signals, lambda child: self._tell_of_death(child), early=early)

    @classmethod
    def prepare(
        cls,
        wanted: WantedCluster,
        stdout: int | None = None,
        signals: SignalInbox | None = None,
        early: EarlyStart | None = None,
    ) -> "ProcessCluster":
        """Bind the ports, create the folder, check the settings: all steps that can be refused. Raises: UsageError."""
        folder, ports, plan = prepare_places(wanted)
        return cls(folder, ports, plan, stdout, signals, early, wanted.failover == "auto")

    @property
    def namesrv(self) -> str:
        return self.plan.namesrv

    @property
    def tls(self) -> TlsSettings:
        """The settings of TLS at its ports."""
        return self.plan.nameservers[0]

    @property
    def client_tls(self) -> TlsClient | None:
        """How clients must speak TLS; None: they may speak plain text."""
        return self.plan.client_tls

    @property
    def addresses(self) -> dict[str, str]:
        return self.plan.addresses

    @property
    def credentials(self) -> "Credentials | None":
        """The access key of the cluster's own programs."""
        return self.plan.credentials

    @property
    def replica_addresses(self) -> dict[str, str]:
        return self.plan.replica_addresses

    def describe(self) -> dict[str, Any]:
        """Return addresses, process ids and folders, ready for JSON."""
        return describe_cluster(self.plan, self.folder, self.pids)

    @property
    def pids(self) -> dict[str, int]:
        """The ids of the running processes, by name."""
        children = [self.children[name] for name in self.names if name in self.children]
        return {child.name: child.pid for child in children if child.exit_code is None}

    @cached_property
    def process_faults(self) -> "ProcessFaults":
        """The fault rules about the processes."""
        from staticfire.launch.process_faults import ProcessFaults  # here: importing it would slow down every start

        return ProcessFaults(self)

    @property
    def names(self) -> list[str]:
        """The names of all processes: nameservers first, the gRPC endpoint last."""
        proxy = [] if self.plan.proxy is None else [PROXY]
        return [*self.plan.nameserver_addresses, *self.plan.server_names, *proxy]

    def start(self, later: Sequence[str] = ()) -> None:
        """Start all processes but those for `start_late`. Return when they are ready.

        Raises: UsageError, ChildFailed, StopRequested.
        """
        nameservers = self.plan.nameserver_addresses
        others = [name for name in self.names if name not in nameservers and name not in later]
        self._wait_ready(*(self._spawn(name) for name in [*others, *nameservers]))  # The others take longer to start.

    def start_late(self, name: str) -> None:
        """Start a process that `start` has left out. Raises: UsageError, ChildFailed, StopRequested."""
        self._wait_ready(self._spawn(name))

    def kill(self, name: str) -> None:
        """Kill a process with SIGKILL, like a power cut. Raises: ClientError."""
        self.children.kill(self._running_child(name))

    def freeze(self, name: str) -> None:
        """Suspend a process (SIGSTOP): its connections stay open, but it sends no responses. Raises: ClientError."""
        self.children.freeze(self._running_child(name))

    def thaw(self, name: str) -> None:
        """Resume a suspended process. No effect on one that isn't suspended. Raises: ClientError."""
        self.children.thaw(self._running_child(name))

    def restart(self, name: str) -> None:
        """Restart a process with the same port and folder; stop it first if it runs.

        Raises: UsageError, ChildFailed, StopRequested (it was started, but may not be ready).
        """
        child = self._child(name)
        self.children.stop([child])
        self._wait_ready(self._spawn_again(name))

    def run_all(self) -> list[str]:
        """Remove the fault rules about processes, resume suspended processes, and restart those that have ended.

        Return the names of those that were restarted. Raises: UsageError, ChildFailed.
        """
        self.process_faults.forget()
        self.children.pump()  # Notice what has ended since the event loop looked.
        # All at once, as in `start`: a slave isn't ready before it has reached its master.
        for name in self.pids:
            self.thaw(name)
        ended = [name for name in self.names if name not in self.pids]
        self._wait_ready(*map(self._spawn_again, ended))
        return ended

    def stop(self) -> list[str]:
        """Stop the gRPC endpoint, the brokers, then the nameservers; remove a temporary folder.

        Return a sentence for each process that had to be killed or that failed at its end.
        """
        late: list[Child] = []
        running = [self.children[name] for name in self.names if name in self.children]
        try:
            late += self.children.stop([child for child in running if child.name == PROXY])
            nameservers = self.plan.nameserver_addresses
            late += self.children.stop([child for child in running if child.name not in (PROXY, *nameservers)])
            late += self.children.stop([child for child in running if child.name in nameservers])
        finally:
            self.children.close()
            self._ports.close()
            self.folder.remove()
        words = [f"{child.name} didn't stop in time and was killed" for child in late]
        # Two processes may refuse the same folder. The first one's reason is enough.
        failed = (child for child in running if child.stopping and child.exit_code != EXIT_USAGE)
        return words + [child.how_it_ended() for child in failed if (child.exit_code or 0) > 0]

    def on_death(self, tell: Callable[[Child], None]) -> None:
        """Set the function that is called with each process that ends unexpectedly."""
        self._tell_of_death = tell

    def _child(self, name: str) -> Child:
        if name not in self.children:
            raise ClientError(f"this cluster has no {name}; it has {', '.join(self.names)}")
        return self.children[name]

    def _running_child(self, name: str) -> Child:
        child = self._child(name)
        if child.exit_code is not None:
            raise ClientError(f"{name} isn't running; `restart` starts it")
        return child

    def _spawn(self, name: str) -> Child:
        modules = {**dict.fromkeys(self.plan.nameserver_addresses, NAMESERVER_PROGRAM), PROXY: PROXY_PROGRAM}
        module = modules.get(name, BROKER_PROGRAM)
        # The gRPC endpoint stores nothing on disk.
        temporary = f"{self.folder.path}/{name}" if self.folder.temporary and name != PROXY else ""
        planned = self.plan.settings_of(name)
        settings, secrets = without_secrets(type(planned), non_defaults(planned))
        plan = ChildPlan(name, module, settings, self._ports.hand_over(name), temporary, secrets)
        return self.children.spawn(plan)

    def _spawn_again(self, name: str) -> Child:
        """Start a process that has ended, with the same port and folder."""
        self._ports.bind(name, self.plan.port_of(name))
        return self._spawn(name)

    def _wait_ready(self, *children: Child) -> None:
        try:
            self.children.wait_ready(children)
        except ChildFailed as failed:
            if failed.child.exit_code == EXIT_USAGE and failed.child.last_lines:
                raise UsageError(failed.child.last_lines[-1].partition(": ")[2]) from None
            raise


def programs_of(wanted: WantedCluster) -> list[str]:
    """Return the programs of all processes, the slowest start first, for `EarlyStart`."""
    brokers = wanted.brokers + len(replica_names(wanted.brokers, wanted.replicas))
    proxy = [] if wanted.grpc_port is None else [PROXY_PROGRAM]
    return [BROKER_PROGRAM] * brokers + proxy + [NAMESERVER_PROGRAM] * wanted.nameservers


def prepare_places(wanted: WantedCluster) -> tuple[ClusterFolder, Ports, ClusterPlan]:
    """Bind ports and create the folder for a cluster. If something is refused, release everything.

    Raises: UsageError.
    """
    slaves = replica_names(wanted.brokers, wanted.replicas)
    names = [*nameserver_names(wanted.nameservers), *broker_names(wanted.brokers), *slaves]
    first_broker = wanted.nameservers
    ports_wanted = [
        *nameserver_ports(wanted.namesrv_port, wanted.nameservers),
        *broker_ports(wanted.broker_port, wanted.brokers),
        *replica_ports(wanted.broker_port, wanted.brokers, wanted.replicas),
    ]
    if wanted.grpc_port is not None:
        names.append(PROXY)
        ports_wanted.append(wanted.grpc_port)
    first_slave = first_broker + wanted.brokers
    last_broker = first_slave + len(slaves)
    complaints: dict[str, None] = {}
    check_environment(os.environ, complaints.setdefault)
    given = GivenSettings(
        wanted.settings, os.environ, wanted.file, complaints.setdefault, wanted.words.settings, wanted.compat_settings,
        wanted.access_settings(),
    )  # fmt: skip

    def planned(folder: str, ports: list[int]) -> ClusterPlan:
        grpc_port = ports[last_broker] if wanted.grpc_port is not None else None
        namesrv_ports, broker_ports_bound = ports[:first_broker], ports[first_broker:first_slave]
        slave_ports = ports[first_slave:last_broker]
        return plan_cluster(folder, namesrv_ports, broker_ports_bound, given, grpc_port, wanted.listen, slave_ports)

    # Check the settings first, with the requested ports: a typing error must be reported even if a port isn't free.
    planned(wanted.directory or "", ports_wanted)
    for words in complaints:
        print(f"staticfire: {words}", file=sys.stderr)
    ports = Ports(wanted.words, wanted.listen)
    try:
        bound = ports.bind_all(names, ports_wanted)
        folder = ClusterFolder(wanted.directory, wanted.words)
    except BaseException:
        ports.close()
        raise
    return folder, ports, planned(folder.path, bound)
