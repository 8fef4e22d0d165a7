"""Under which address a client is told to reach a broker.

A broker that isn't given an address to advertise knows only where it listens: `0.0.0.0:10911`. What others have to
call is decided here, twice:

    when it registers   the broker's *filed* address, under which the route table holds it:
                        as given, if advertised or one particular address of its machine;
                        `*0.0.0.0:10911` if it runs on the nameserver's machine;
                        else the host that it registered from, with its port
    in an answer        the *told* address: what is filed, but for `*`: the host at which this very client reaches the
                        nameserver, since that is the broker's machine, too

Invariant: no address with `*` leaves the nameserver. Between client, nameserver and broker no addresses may be
translated; behind a port mapping a broker has to advertise (brokerIP1).
"""

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address

from staticfire.runtime.addresses import format_address, parse_address

THIS_MACHINE = "*"
TOLD_KEPT_MAX = 1024
# Answers that are remembered: brokers here times addresses of this machine. Reading the addresses each time made
# routes take four times as long.


def filed_address(declared: str, advertised: bool, peer_host: str, local_host: str) -> str:
    """Return the address under which the broker is filed.

    `peer_host` and `local_host`: the two ends of the connection it registers on. Raises: UsageError for an address
    that isn't advertised and isn't `host:port` either.
    """
    if advertised or not declared:
        return declared
    host, port = parse_address(declared)
    ip = _ip(host)
    if ip is None and host != "localhost":
        return declared
    if ip is not None and not ip.is_unspecified and not ip.is_loopback:
        return declared
    if _is_loopback(peer_host) or plain_host(peer_host) == plain_host(local_host):
        return THIS_MACHINE + declared
    return format_address(plain_host(peer_host), port)


@lru_cache(maxsize=TOLD_KEPT_MAX)
def told_address(filed: str, local_host: str) -> str:
    """Return the address for a client that reaches the nameserver at `local_host`."""
    if not filed.startswith(THIS_MACHINE):
        return filed
    host, port = parse_address(filed[1:])
    if _is_loopback(host) and _is_loopback(local_host):
        return format_address(host, port)  # A broker that listens on 127.0.0.1 isn't reached at [::1].
    return format_address(plain_host(local_host), port)


def plain_host(host: str) -> str:
    """Return the host without the clothes that IPv6 sockets put on IPv4 addresses."""
    return host[7:] if host.startswith("::ffff:") and "." in host else host


def _is_loopback(host: str) -> bool:
    ip = _ip(plain_host(host))
    return host == "localhost" if ip is None else ip.is_loopback


def _ip(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
