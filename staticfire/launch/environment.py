"""Variables of the environment that look like settings and are none.

What resembles a setting is a typing error, and is refused. The rest is told: the environment is shared with other
programs, which may call a variable of theirs STATICFIRE_VERSION.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields

from staticfire.launch.plan import PROGRAMS
from staticfire.protocol.errors import UsageError
from staticfire.runtime.config import ENVIRONMENT_PREFIX, variable_of
from staticfire.runtime.loading import ENVIRONMENT

NO_SETTINGS = frozenset({"CONTROL", "CONTROL_HOSTS", "CONTROL_TOKEN", "LISTEN", "LOG_LEVEL", "PURE_PYTHON"})
"""What is read from the environment, and isn't a setting of a server: names without the prefix."""
ALIKE = 0.8
# How much of two names must be the same. Below it, another program's names are closer than people's typing errors.
KUBERNETES_HOST, KUBERNETES_PORTS = "_SERVICE_HOST", ("_SERVICE_PORT", "_PORT")
# It tells each container of all services: of one called staticfire by STATICFIRE_SERVICE_HOST, STATICFIRE_PORT ...


def check_environment(environment: Mapping[str, str], tell: Callable[[str], object]) -> None:
    """Refuse what was meant as a setting of any program, and tell of what else nobody knows.

    Raises: UsageError.
    """
    known = {ENVIRONMENT_PREFIX + name for name in NO_SETTINGS}
    known |= {variable_of(one.name) for cls in PROGRAMS for one in fields(cls)}
    unknown = [name for name in environment if name.startswith(ENVIRONMENT_PREFIX) and name not in known]
    for name in sorted(unknown):
        if _is_of_kubernetes(name, environment):
            continue
        meant = _meant(name, known)
        if meant is not None:
            raise UsageError(f"unknown setting {name} ({ENVIRONMENT}): did you mean {meant}?")
        tell(f"{name} ({ENVIRONMENT}) is no setting, and is passed over: `staticfire broker --settings` lists all")


def _is_of_kubernetes(name: str, environment: Mapping[str, str]) -> bool:
    services = (other.removesuffix(KUBERNETES_HOST) for other in environment if other.endswith(KUBERNETES_HOST))
    endings = [name.removeprefix(service) for service in services if name.startswith(f"{service}_")]
    return any(ending.startswith((KUBERNETES_HOST, *KUBERNETES_PORTS)) for ending in endings)


def _meant(name: str, known: set[str]) -> str | None:
    """Return the variable that is meant, also by who writes a setting's camel case in capitals."""
    import difflib  # here, since most starts need no help

    plain = {_plain(one): one for one in known}
    alike = difflib.get_close_matches(_plain(name), plain, n=1, cutoff=ALIKE)
    return plain[alike[0]] if alike else None


def _plain(name: str) -> str:
    return name.removeprefix(ENVIRONMENT_PREFIX).replace("_", "").lower()
