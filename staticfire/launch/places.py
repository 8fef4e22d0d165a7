"""The folder and the listening ports that a cluster needs before it starts."""

import json
import os
import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from staticfire.launch.grpc_extra import HOW_TO_GET_IT, grpc_is_installed
from staticfire.launch.plan import (
    BROKER_PORT,
    CONTROL_PORT,
    HOST,
    NAMESRV_PORT,
    NO_SETTINGS,
    PROXY,
    ClusterPlan,
    broker_names,
    host_from_here,
    nameserver_names,
    replica_names,
)
from staticfire.protocol.errors import UsageError
from staticfire.runtime.addresses import format_address
from staticfire.runtime.ports import listen_on, port_of

if TYPE_CHECKING:
    from staticfire.launch.temporary_folder import TemporaryFolder

PORT_MAX = 65_535
OWN_USER, OWN_SECRET_BYTES = "staticfire", 16
"""The user of the cluster's own programs. Each start makes a new secret."""


FAILOVERS = ("manual", "auto")


class Words(NamedTuple):
    """The names of the user's options, for advice in error messages: flags or parameters."""

    ports: str
    directory: str
    settings: str
    failover: str
    replicas: str


FLAGS = Words(
    "stop it, or choose another port with --namesrv-port, --broker-port, --grpc-port or --control-port (0: any free "
    "port)",
    "--dir",
    "--set",
    "--failover auto",
    "--replicas 1",
)
PARAMETERS = Words(
    "stop it, or give another namesrv_port= or broker_port= (0: any free port)",
    "directory=",
    "settings=",
    'failover="auto"',
    "replicas=1",
)


def check_failover(failover: str, replicas: int, words: Words = FLAGS) -> None:
    """Refuse automatic failovers where no broker has a slave. Raises: UsageError."""
    if failover == "auto" and not replicas:
        raise UsageError(f"{words.failover} needs slaves that can take over: add {words.replicas}")


class WantedUser(NamedTuple):
    """A user to create at the start."""

    name: str
    secret: str
    kind: str = ""
    """Super or Normal. Unset: the first user is a super user, the others aren't."""

    def __repr__(self) -> str:
        return f"WantedUser(name={self.name!r}, kind={self.kind!r})"

    def as_json(self) -> dict[str, str]:
        """Return the user as the setting initAuthenticationUser has it."""
        return {"username": self.name, "password": self.secret, **({"userType": self.kind} if self.kind else {})}


class WantedControl(NamedTuple):
    """The address of the control endpoint, and which requests it accepts."""

    port: int = CONTROL_PORT
    is_port_chosen: bool = True
    """False: `port` is the default; if another program uses it, the next free port is taken."""
    host: str = HOST
    names: tuple[str, ...] = ()
    """Host names under which it accepts requests, in addition to the loopback names of this machine."""
    token: str = ""
    """The token that requests must have; required if other machines can reach the endpoint."""

    def check(self) -> None:
        """Refuse an endpoint that anyone on the network could use. Raises: UsageError."""
        if self.host != HOST or self.token:
            from staticfire.control.access import check_access  # here, since few starts need it

            check_access(self.host, self.token)


class WantedCluster(NamedTuple):
    """A cluster as the user described it, with flags of `up` and `run` or with parameters of `Cluster`."""

    brokers: int = 1
    namesrv_port: int = NAMESRV_PORT
    broker_port: int = BROKER_PORT
    grpc_port: int | None = None
    """The port of the gRPC endpoint; None: no endpoint."""
    directory: str | None = None
    settings: Mapping[str, str] = NO_SETTINGS
    file: str | None = None
    words: Words = FLAGS
    listen: str = HOST
    """The address that everything listens on, except the control endpoint."""
    nameservers: int = 1
    compat: str | None = None
    """The RocketMQ version to behave like; see compat.py."""
    users: tuple["WantedUser", ...] = ()
    """Users to create at the start; the first is a super user."""
    replicas: int = 0
    """The number of slaves of each broker."""
    failover: str = "manual"
    """`auto`: a slave takes over by itself when its master is gone."""

    @property
    def compat_settings(self) -> Mapping[str, str]:
        """Settings that turn differences off. Raises: UsageError."""
        if self.compat is None:
            return {}
        from staticfire.launch.compat import compat_settings  # here, since few starts need it

        return compat_settings(self.compat)

    def access_settings(self) -> dict[str, str]:
        """Return the settings for the user of the cluster's own programs, and for the users."""
        own = {"accessKey": OWN_USER, "secretKey": os.urandom(OWN_SECRET_BYTES).hex()}  # noqa: TID251 (a secret that no seed may repeat)
        settings = {"innerClientAuthenticationCredentials": json.dumps(own)}
        if self.users:
            settings["initAuthenticationUser"] = json.dumps([user.as_json() for user in self.users])
        return settings

    @classmethod
    def of_parameters(  # house: what people give a cluster are its parameters
        cls,
        brokers: object,
        settings: object,
        directory: object,
        namesrv_port: object,
        broker_port: object,
        grpc: object = False,
        nameservers: object = 1,
        replicas: object = 0,
    ) -> "WantedCluster":
        """Check the parameters of `Cluster`, of whatever types, and return the cluster. Raises: UsageError."""
        ports = {"namesrv_port": namesrv_port, "broker_port": broker_port}
        for name, number in {"brokers": brokers, "nameservers": nameservers, "replicas": replicas, **ports}.items():
            if not is_whole(number):
                raise UsageError(f"{name}={number!r}: it must be a whole number")
        for name, port in ports.items():
            if not 0 <= port <= PORT_MAX:  # type: ignore[operator]  # a whole number: see above
                raise UsageError(f"{name}={port}: ports are 1 to {PORT_MAX}; 0 means any free port")
        broker_names(brokers)  # type: ignore[arg-type]  # the same
        nameserver_names(nameservers)  # type: ignore[arg-type]
        replica_names(brokers, replicas)  # type: ignore[arg-type]
        if settings is not None and not isinstance(settings, Mapping):
            raise UsageError(f'settings={settings!r}: it must be a dictionary, like {{"autoCreateTopicEnable": False}}')
        if directory is not None and not isinstance(directory, str | os.PathLike):
            raise UsageError(f"directory={directory!r}: it must be a path, or None for a temporary folder")
        if grpc and not grpc_is_installed():
            raise UsageError(f"grpc={grpc!r}: the gRPC endpoint needs an optional package: {HOW_TO_GET_IT}")
        texts = {str(key): _as_text(value) for key, value in (settings or {}).items()}
        folder = None if directory is None else os.fsdecode(directory)
        grpc_port = 0 if grpc else None
        places = brokers, namesrv_port, broker_port, grpc_port, folder
        return cls(*places, texts, words=PARAMETERS, nameservers=nameservers, replicas=replicas)  # type: ignore[arg-type]


def is_whole(value: object) -> bool:
    """Return whether this is a whole number. True and False aren't."""
    return isinstance(value, int) and not isinstance(value, bool)


def _as_text(value: object) -> str:
    """Return the text of a setting: Python's True is RocketMQ's true."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class ClusterFolder:
    """The data folder of a cluster: the user's, or a temporary one that is removed at the end."""

    _temporary: "TemporaryFolder | None" = None

    def __init__(self, path: str | None, words: Words = FLAGS) -> None:
        """Create the folder. Raises: UsageError."""
        if path is None:
            from staticfire.launch.temporary_folder import (
                TemporaryFolder,  # here: it imports as much as all of this module
            )

            self._temporary = TemporaryFolder()
            self.path = self._temporary.path
            return
        if not path:
            raise UsageError(f"{words.directory} is empty: give a path, or leave it out to use a temporary folder")
        try:
            self.path = os.path.abspath(path)
        except FileNotFoundError:  # There is no working directory.
            raise UsageError(f"{path} can't be created: the current folder was deleted; change to another") from None
        try:
            os.makedirs(self.path, exist_ok=True)
        except FileExistsError:
            raise UsageError(f"{self.path} is a file; choose a folder with {words.directory}") from None
        except (OSError, ValueError) as error:  # ValueError: a null byte in the path.
            reason = getattr(error, "strerror", None) or error
            raise UsageError(f"{self.path} can't be created: {reason}; choose another with {words.directory}") from None
        if not os.access(self.path, os.R_OK | os.W_OK | os.X_OK):
            raise UsageError(f"{self.path} isn't readable and writable; choose another with {words.directory}")

    @property
    def temporary(self) -> bool:
        """Whether it is removed at the end."""
        return self._temporary is not None

    def remove(self) -> None:
        """Remove it if it is temporary."""
        if self._temporary is not None:
            self._temporary.remove()

    def __str__(self) -> str:
        return f"{self.path} (temporary, removed at the end)" if self.temporary else self.path


class Ports:
    """Bound listening sockets, by the name of the process that will use them."""

    def __init__(self, words: Words = FLAGS, listen: str = HOST) -> None:
        self._words = words
        self._listen = listen
        self._sockets: dict[str, socket.socket] = {}

    def bind(self, name: str, port: int) -> int:
        """Listen on a port for a process; return the port. Raises: UsageError."""
        self._sockets[name] = sock = listen_on(self._listen, port, self._words.ports)
        return port_of(sock)

    def bind_all(self, names: Sequence[str], ports: Sequence[int]) -> list[int]:
        """Listen on several ports; return them. Raises: UsageError."""
        return [self.bind(name, port) for name, port in zip(names, ports, strict=True)]

    def hand_over(self, name: str) -> socket.socket:
        """Remove a socket from here and return it."""
        return self._sockets.pop(name)

    def close(self) -> None:
        """Close the sockets that weren't handed over."""
        while self._sockets:
            self._sockets.popitem()[1].close()


def url_of(port: int, host: str = HOST, is_tls: bool = False) -> str:
    """Return the URL of the control endpoint as seen from this machine. `is_tls`: it takes nothing else."""
    return f"{'https' if is_tls else 'http'}://{format_address(host_from_here(host), port)}"


def describe_cluster(plan: ClusterPlan, folder: ClusterFolder, pids: Mapping[str, int | None]) -> dict[str, Any]:
    """Return addresses, process ids and folders, ready for JSON."""

    def process(name: str, address: str) -> dict[str, Any]:
        return {"name": name, "address": address, "pid": pids.get(name), "directory": f"{folder.path}/{name}"}

    places = {**plan.nameserver_addresses, **plan.addresses, **plan.replica_addresses}
    if plan.grpc_endpoint is not None:
        places[PROXY] = plan.grpc_endpoint
    return {
        "namesrv": plan.namesrv,
        "grpc": plan.grpc_endpoint,
        "cluster": plan.brokers[0].broker_cluster_name,
        "directory": folder.path,
        "temporary": folder.temporary,
        "processes": [process(name, address) for name, address in places.items()],
    }
