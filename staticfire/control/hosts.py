"""The host names under which the control endpoint accepts requests. Pure.

A foreign page can point its own host name at 127.0.0.1 after it is loaded (DNS rebinding). Then Origin and Host agree,
both are the attacker's, and only the host name shows it. So the name must be known: this machine's loopback, the
address that the request arrived at, or a name that the user has configured.
"""

import ipaddress
from collections.abc import Iterable

LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})


class KnownHosts:
    """The host names that are accepted."""

    def __init__(self, more: Iterable[str] = ()) -> None:
        """`more`: the names that the user has configured; a port in them is ignored."""
        self._names = LOOPBACK_NAMES | {host_name(name) for name in more}

    def knows(self, host: str, own_address: str) -> bool:
        """Return whether a Host header names this endpoint, which listens at `own_address`."""
        name = host_name(host)
        if name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or str(address) == own_address


def host_name(host: str) -> str:
    """Return the name in a Host header in lower case: without port, brackets, or final dot."""
    text = host.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return (text if text.count(":") > 1 else text.partition(":")[0]).removesuffix(".")


def is_cross_site(origin: str | None, host: str) -> bool:
    """Return whether a browser sends this for a page of another site, including another port."""
    return origin is not None and origin.partition("://")[2] != host
