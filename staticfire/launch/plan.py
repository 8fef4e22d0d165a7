"""The plan of a cluster: its processes with their settings, ports and folders.

Pure: the code that carries out the plan binds the ports and creates the folders.
"""

from collections.abc import Callable, Mapping, Sequence
from string import ascii_lowercase
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from staticfire.broker.settings import BrokerSettings
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.errors import UsageError
from staticfire.proxy.settings import ProxySettings
from staticfire.runtime.addresses import each_address, format_address
from staticfire.runtime.config import field_of, variable_of
from staticfire.runtime.loading import ENVIRONMENT, load_settings
from staticfire.runtime.tls.settings import DISABLED, ENFORCING, TlsClient

if TYPE_CHECKING:
    from staticfire.runtime.credentials import Credentials

HOST = "127.0.0.1"
EVERY_ADDRESS = ("0.0.0.0", "::", "")
NAMESRV_PORT, BROKER_PORT, GRPC_PORT, CONTROL_PORT = 9876, 10911, 8081, 8082
# The step of the official compose files: 10911, 10931. A broker also uses the ports two below and one above its own.
BROKER_PORT_STEP = 20
BROKERS_MAX = len(ascii_lowercase)
NAMESERVERS_MAX = 9
# The ports of a broker's slaves are between its own and those of the next broker.
REPLICA_PORT_STEP = 4
REPLICAS_MAX = BROKER_PORT_STEP // REPLICA_PORT_STEP - 1

NAMESERVER, PROXY = "nameserver", "proxy"
SLAVE = "SLAVE"
NO_SETTINGS: Mapping[str, str] = {}
# Defaults of the brokers of a whole cluster. A broker that is started alone behaves as RocketMQ's by default.
STAND_DEFAULTS = {
    "answerNewerSubscriptionUnfiltered": "true",
    "journalEnable": "true",
    "popDeadLetters": "true",
    "recordRequests": "true",
    "wakePopsOfReturning": "true",
}
# The same for the brokers of a cluster with slaves, unless it must behave as RocketMQ.
REPLICA_DEFAULTS = {"slaveReadEnable": "true", "slaveSyncPeriod": "1000"}


PROGRAMS = (NameserverSettings, BrokerSettings, ProxySettings)
"""The programs that share the same flags and settings file."""

S = TypeVar("S")
# The characters of a host name other than letters and digits.
_OF_HOSTS = "-._:%[]"


class GivenSettings(NamedTuple):
    """The settings that the user gave, and where.

    `tell`: called with each line of a RocketMQ file that isn't understood; without it such a line is an error.
    `source`: the name of the option that `settings` come from, for errors.
    """

    settings: Mapping[str, str]
    environment: Mapping[str, str]
    file: str | None = None
    tell: Callable[[str], None] | None = None
    source: str = "--set"
    compat: Mapping[str, str] = NO_SETTINGS
    """Settings that replace a cluster's own defaults, to turn off differences from RocketMQ."""
    access: Mapping[str, str] = NO_SETTINGS
    """Settings of access that the cluster makes itself: the user of its own programs, and users of parameters."""


class ClusterPlan(NamedTuple):
    """The settings of every process. Each process has a folder below `directory` with its name."""

    directory: str
    nameservers: tuple[NameserverSettings, ...]
    brokers: tuple[BrokerSettings, ...]
    """The masters."""
    replicas: tuple[BrokerSettings, ...] = ()
    """The slaves, by master, then by id. The process of the first slave of broker-a is broker-a-1."""
    proxy: ProxySettings | None = None
    """The gRPC endpoint, if the cluster has one."""
    host: str = HOST
    """The host under which this machine reaches the processes."""

    @property
    def namesrv(self) -> str:
        """The nameserver's address. With several: all, separated by semicolons."""
        return self.brokers[0].namesrv_addr

    @property
    def client_tls(self) -> TlsClient | None:
        """How this program's own clients speak TLS; None: plain text."""
        return self.nameservers[0].as_client()

    @property
    def nameserver_addresses(self) -> dict[str, str]:
        """The address of each nameserver by its name."""
        names = nameserver_names(len(self.nameservers))
        return dict(zip(names, each_address(self.namesrv), strict=True))

    @property
    def addresses(self) -> dict[str, str]:
        """The address of each broker by its name."""
        return {broker.broker_name: format_address(self.host, broker.listen_port) for broker in self.brokers}

    @property
    def own_key(self) -> str:
        """The text of `credentials`; empty if there are none."""
        return self.brokers[0].inner_client_authentication_credentials

    @property
    def credentials(self) -> "Credentials | None":
        """The access key of the cluster's own programs."""
        if not self.own_key:
            return None
        from staticfire.runtime.credentials import Credentials  # here, since it isn't needed to start processes

        return Credentials.parse(self.own_key)

    @property
    def grpc_endpoint(self) -> str | None:
        """The address for RocketMQ 5 clients, if the cluster has a gRPC endpoint."""
        return None if self.proxy is None else format_address(self.host, self.proxy.grpc_server_port)

    @property
    def replica_addresses(self) -> dict[str, str]:
        """The address of each slave by the name of its process."""
        return {replica_name(one): format_address(self.host, one.listen_port) for one in self.replicas}

    @property
    def server_names(self) -> list[str]:
        """The names of the processes of all masters and slaves."""
        return [*self.addresses, *self.replica_addresses]

    def settings_of(self, name: str) -> NameserverSettings | BrokerSettings | ProxySettings:
        """Return the settings of a process. Raises: KeyError."""
        if name in self.nameserver_addresses:
            return self.nameservers[list(self.nameserver_addresses).index(name)]
        return self.proxy if name == PROXY and self.proxy is not None else self.broker(name)

    def port_of(self, name: str) -> int:
        """Return the port of a process. Raises: KeyError."""
        settings = self.settings_of(name)
        return settings.grpc_server_port if isinstance(settings, ProxySettings) else settings.listen_port

    def broker(self, name: str) -> BrokerSettings:
        """Return the settings of one broker or slave. Raises: KeyError."""
        return dict(zip(self.server_names, [*self.brokers, *self.replicas], strict=True))[name]


def host_from_here(listen: str) -> str:
    """Return the host under which this machine reaches a server that listens on `listen`."""
    return HOST if listen in EVERY_ADDRESS else listen


def broker_names(count: int) -> list[str]:
    """Return broker-a, broker-b, ... Raises: UsageError."""
    if not 1 <= count <= BROKERS_MAX:
        raise UsageError(f"a cluster can't have {count} brokers; allowed are 1 to {BROKERS_MAX}")
    return [f"broker-{letter}" for letter in ascii_lowercase[:count]]


def replica_name(settings: BrokerSettings) -> str:
    """Return the name of a slave's process: broker-a-1."""
    return f"{settings.broker_name}-{settings.broker_id}"


def replica_names(brokers: int, replicas: int) -> list[str]:
    """Return broker-a-1, broker-a-2, broker-b-1 ... Raises: UsageError."""
    if not 0 <= replicas <= REPLICAS_MAX:
        raise UsageError(f"a broker can't have {replicas} slaves; allowed are 0 to {REPLICAS_MAX}")
    return [f"{name}-{number}" for name in broker_names(brokers) for number in range(1, replicas + 1)]


def nameserver_names(count: int) -> list[str]:
    """Return nameserver, nameserver-2, ... Raises: UsageError."""
    if not 1 <= count <= NAMESERVERS_MAX:
        raise UsageError(f"a cluster can't have {count} nameservers; allowed are 1 to {NAMESERVERS_MAX}")
    return [NAMESERVER, *(f"{NAMESERVER}-{number}" for number in range(2, count + 1))]


def nameserver_ports(first: int, count: int) -> list[int]:
    """Return the port of each nameserver; 0 remains 0."""
    return [first + index if first else 0 for index in range(count)]


def broker_ports(first: int, count: int) -> list[int]:
    """Return the port of each broker; 0 remains 0."""
    return [first + BROKER_PORT_STEP * index if first else 0 for index in range(count)]


def replica_ports(first: int, brokers: int, replicas: int) -> list[int]:
    """Return the port of each slave; 0 remains 0."""
    return [
        port + REPLICA_PORT_STEP * number if first else 0
        for port in broker_ports(first, brokers)
        for number in range(1, replicas + 1)
    ]


def plan_cluster(
    directory: str,
    namesrv_ports: Sequence[int],
    ports: Sequence[int],
    given: GivenSettings,
    grpc_port: int | None = None,
    listen: str = HOST,
    slave_ports: Sequence[int] = (),
) -> ClusterPlan:
    """Return the plan: one nameserver and one broker per port, and a gRPC endpoint if it has a port.

    Each setting goes to every program that has it. `listen`: the address that all processes listen on. `slave_ports`:
    those of all slaves, as many for each broker.

    Raises: UsageError.
    """
    _refuse_places(given)
    host = host_from_here(listen)
    namesrv = ";".join(format_address(host, port) for port in namesrv_ports)
    nameservers = [
        _load(NameserverSettings, given, _nameserver_place(directory, listen, name, port))
        for name, port in zip(nameserver_names(len(namesrv_ports)), namesrv_ports, strict=True)
    ]
    defaults = {**STAND_DEFAULTS, **given.compat, **given.access}
    if slave_ports and not given.compat:
        defaults |= REPLICA_DEFAULTS
    brokers = [
        _load(BrokerSettings, given, _broker_place(directory, listen, name, port, namesrv), defaults)
        for name, port in zip(broker_names(len(ports)), ports, strict=True)
    ]
    per_broker = len(slave_ports) // max(1, len(ports))
    replicas = [
        _load(BrokerSettings, given, _replica_place(directory, listen, name, port, namesrv), defaults)
        for name, port in zip(replica_names(len(ports), per_broker), slave_ports, strict=True)
    ]
    for master in brokers:
        _refuse_role(master, given)
    for broker in (*brokers, *replicas):
        _refuse_unusable(broker)
        _check_access(broker, given.access)
    own = {key: text for key, text in given.access.items() if field_of(ProxySettings, key)}
    proxy = None if grpc_port is None else _load(ProxySettings, given, _proxy_place(listen, grpc_port, namesrv), own)
    return ClusterPlan(directory, tuple(nameservers), tuple(brokers), tuple(replicas), proxy, host)


def _load(cls: type[S], given: GivenSettings, place: Mapping[str, str], defaults: Mapping[str, str] | None = None) -> S:
    """Return the settings of one process. Raises: UsageError."""
    return load_settings(
        cls,
        {**given.settings, **place},
        given.environment,
        given.file,
        others=tuple(other for other in PROGRAMS if other is not cls),
        tell=given.tell,
        defaults=defaults,
        source=given.source,
    )


def _refuse_unusable(broker: BrokerSettings) -> None:
    """Refuse settings with which a broker would start but be useless. Raises: UsageError."""
    if not all(letter.isalnum() or letter in _OF_HOSTS for letter in broker.broker_ip1):
        words = "clients can't connect to this host; write an IP address or a host name"
        raise UsageError(f"brokerIP1={broker.broker_ip1!r}: {words}")
    unreachable = {ENFORCING: False, DISABLED: True}.get(broker.tls_server_mode)
    if unreachable is not None and broker.tls_enable is unreachable:
        words = f"tls.enable={str(unreachable).lower()} with tls.server.mode={broker.tls_server_mode}"
        raise UsageError(f"{words}: brokers can't reach the nameservers; leave STATICFIRE_TLS_ENABLE or tls.enable out")


def _check_access(broker: BrokerSettings, own: Mapping[str, str]) -> None:
    """Refuse invalid users before anything is started. Raises: UsageError, without a secret."""
    text = broker.inner_client_authentication_credentials
    if text and text not in own.values():
        from staticfire.runtime.credentials import Credentials  # here, since most clusters make their own

        Credentials.parse_setting(text)
    if broker.init_authentication_user or broker.acl_enable:
        from staticfire.broker.access.control import check_settings  # here, since most clusters have no users

        check_settings(broker)


def _refuse_places(given: GivenSettings) -> None:
    """Refuse settings that the cluster itself sets for each process; they would be ignored. Raises: UsageError."""
    own = [
        (NameserverSettings, _nameserver_place("", "", "", 0)),
        (BrokerSettings, _broker_place("", "", "", 0, "")),
        (ProxySettings, _proxy_place("", 0, "")),
    ]
    for cls, place in own:
        names = {field_of(cls, key) for key in place}
        for key in given.settings:
            if field_of(cls, key) in names:
                raise UsageError(_is_no_matter_of_a_cluster(key, given.source))
        for variable in [variable_of(name) for name in names if name is not None]:
            if variable in given.environment:
                raise UsageError(_is_no_matter_of_a_cluster(variable, ENVIRONMENT))


def _refuse_role(master: BrokerSettings, given: GivenSettings) -> None:
    """Refuse roles and ids that `--replicas` gives to slaves. Raises: UsageError."""
    for key, name, is_wrong in (
        ("brokerId", "broker_id", master.broker_id != 0),
        ("brokerRole", "broker_role", master.broker_role == SLAVE),
    ):
        if is_wrong:
            advice = "--replicas N" if given.source.startswith("--") else "Cluster(replicas=N)"
            words = f"a cluster gives its slaves their roles and ids: use {advice}"
            raise UsageError(f"{key}={getattr(master, name)} ({_source_of(name, given)}): {words}")


def _source_of(name: str, given: GivenSettings) -> str:
    """Return which source of settings decides about a field of brokers."""
    if any(field_of(BrokerSettings, key) == name for key in given.settings):
        return given.source
    return variable_of(name) if variable_of(name) in given.environment else str(given.file)


def _is_no_matter_of_a_cluster(key: str, source: str) -> str:
    return (
        f"{key} ({source}) can't be set for a whole cluster, because each process has its own value. Use the options "
        "for ports and the folder, or start one broker with `staticfire broker`"
    )


def _nameserver_place(directory: str, listen: str, name: str, port: int) -> dict[str, str]:
    return {"listenHost": listen, "listenPort": str(port), "folder": f"{directory}/{name}"}


def _proxy_place(listen: str, port: int, namesrv: str) -> dict[str, str]:
    return {"listenHost": listen, "grpcServerPort": str(port), "namesrvAddr": namesrv}


def _replica_place(directory: str, listen: str, name: str, port: int, namesrv: str) -> dict[str, str]:
    master, _, number = name.rpartition("-")
    place = _broker_place(directory, listen, master, port, namesrv)
    return {**place, "storePathRootDir": f"{directory}/{name}", "brokerRole": SLAVE, "brokerId": number}


def _broker_place(directory: str, listen: str, name: str, port: int, namesrv: str) -> dict[str, str]:
    return {
        "brokerName": name,
        "listenHost": listen,
        "listenPort": str(port),
        "namesrvAddr": namesrv,
        "storePathRootDir": f"{directory}/{name}",
    }
