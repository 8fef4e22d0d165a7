"""Environment variables: those that lead programs to a cluster, and those that look like settings but aren't.

A name similar to a setting is a typing error and is refused. Other names are only reported: other programs share the
environment and may have a variable such as STATICFIRE_VERSION.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields

from staticfire.launch.plan import PROGRAMS
from staticfire.protocol.errors import UsageError
from staticfire.runtime.config import ENVIRONMENT_PREFIX, variable_of
from staticfire.runtime.loading import ENVIRONMENT

NO_SETTINGS = frozenset(
    {
        "CHAOS", "CONTROL", "CONTROL_HOSTS", "CONTROL_TOKEN", "FROM_ACCESS_KEY", "FROM_SECRET_KEY", "LISTEN",
        "LOG_LEVEL", "PURE_PYTHON",
    }
)  # fmt: skip
"""Environment variables that are read but aren't settings of a server, without the prefix."""
LOG_LEVEL = f"{ENVIRONMENT_PREFIX}LOG_LEVEL"
# How similar two names must be to count as a typing error. With less, other programs' names would count, too.
ALIKE = 0.8
# Kubernetes sets variables for every service in each container; for one named staticfire these are
# STATICFIRE_SERVICE_HOST, STATICFIRE_PORT ...
KUBERNETES_HOST, KUBERNETES_PORTS = "_SERVICE_HOST", ("_SERVICE_PORT", "_PORT")


def environment_of(
    surrounding: Mapping[str, str],
    namesrv: str,
    *,
    control: str = "",
    token: str = "",
    grpc: str = "",
    tls: bool = False,
    chaos: bool = False,
) -> dict[str, str]:
    """Return an environment in which programs find a cluster.

    `control`: the URL of its control endpoint, and `token` what that demands; `grpc`: the address for RocketMQ 5
    clients. What the cluster doesn't have is removed: in the surrounding environment it belongs to another cluster.
    `chaos`: whether STATICFIRE_CHAOS tells tests that this cluster has faults, and that they must start no other one.
    """
    addresses = {
        "NAMESRV_ADDR": namesrv,
        "ROCKETMQ_ENDPOINT": grpc,
        f"{ENVIRONMENT_PREFIX}CONTROL": control,
        f"{ENVIRONMENT_PREFIX}CONTROL_TOKEN": token,
        f"{ENVIRONMENT_PREFIX}CHAOS": "true" if chaos else "",
    }
    environment = {name: text for name, text in surrounding.items() if name not in addresses}
    environment |= {name: text for name, text in addresses.items() if text}
    return {**environment, f"{ENVIRONMENT_PREFIX}TLS_ENABLE": "true"} if tls else environment


def check_environment(environment: Mapping[str, str], tell: Callable[[str], object]) -> None:
    """Refuse misspelt settings of any program, and unknown levels of the log; report other unknown names with `tell`.

    Raises: UsageError.
    """
    if environment.get(LOG_LEVEL):
        _check_level(environment[LOG_LEVEL])
    known = {ENVIRONMENT_PREFIX + name for name in NO_SETTINGS}
    known |= {variable_of(one.name) for cls in PROGRAMS for one in fields(cls)}
    unknown = [name for name in environment if name.startswith(ENVIRONMENT_PREFIX) and name not in known]
    for name in sorted(unknown):
        if _is_of_kubernetes(name, environment):
            continue
        meant = _meant(name, known)
        if meant is not None:
            raise UsageError(f"unknown setting {name} ({ENVIRONMENT}): did you mean {meant}?")
        tell(
            f"{name} ({ENVIRONMENT}) is not a setting and is ignored: `staticfire broker --settings` lists all settings"
        )


def _check_level(level: str) -> None:
    from staticfire.runtime.log import LEVELS  # here, since few environments have it

    if level.lower() not in LEVELS:
        raise UsageError(
            f"{LOG_LEVEL}={level} ({ENVIRONMENT}) is not a level of the log: it must be {', '.join(LEVELS)}"
        )


def _is_of_kubernetes(name: str, environment: Mapping[str, str]) -> bool:
    services = (other.removesuffix(KUBERNETES_HOST) for other in environment if other.endswith(KUBERNETES_HOST))
    endings = [name.removeprefix(service) for service in services if name.startswith(f"{service}_")]
    return any(ending.startswith((KUBERNETES_HOST, *KUBERNETES_PORTS)) for ending in endings)


def _meant(name: str, known: set[str]) -> str | None:
    """Return the variable that is probably meant. A camel-case setting in capitals is recognized, too."""
    import difflib  # here, since most starts don't need it

    plain = {_plain(one): one for one in known}
    alike = difflib.get_close_matches(_plain(name), plain, n=1, cutoff=ALIKE)
    return plain[alike[0]] if alike else None


def _plain(name: str) -> str:
    return name.removeprefix(ENVIRONMENT_PREFIX).replace("_", "").lower()
