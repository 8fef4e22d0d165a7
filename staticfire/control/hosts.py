"""Which host names the control endpoint is asked under. Pure.

A page of somebody else's can point its own name at 127.0.0.1 once it is loaded (DNS rebinding): then Origin and Host
agree, both are the attacker's, and only the name gives it away. So a name has to be known: this machine's loopback,
the address that the request came to, or one that the user has named.
"""

import ipaddress
from collections.abc import Iterable

LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})


class KnownHosts:
    """The names that are answered."""

    def __init__(self, more: Iterable[str] = ()) -> None:
        """`more`: what the user has named; a port behind it doesn't count."""
        self._names = LOOPBACK_NAMES | {host_name(name) for name in more}

    def knows(self, host: str, own_address: str) -> bool:
        """Tell whether a Host header names this endpoint, which listens at `own_address`."""
        name = host_name(host)
        if name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or str(address) == own_address


def host_name(host: str) -> str:
    """Return the name of a Host header in small letters: without a port, brackets, or a dot at its end."""
    text = host.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return (text if text.count(":") > 1 else text.partition(":")[0]).removesuffix(".")


def is_cross_site(origin: str | None, host: str) -> bool:
    """Tell whether a browser asks on behalf of another site's page, whatever port that is on."""
    return origin is not None and origin.partition("://")[2] != host
