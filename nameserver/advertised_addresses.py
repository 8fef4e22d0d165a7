"""Decide at which address a client can reach a broker.

A broker without a configured address to advertise has only the address that it listens on, such as `0.0.0.0:10911`.
This module computes the address that others must use. It does so in two steps:

    at registration     compute the broker's *filed* address, under which the route table stores it:
                        the given address, if it is advertised or is one particular address of the broker's machine;
                        `*0.0.0.0:10911` if the broker runs on the nameserver's machine;
                        otherwise the host that the broker registered from, with the broker's port;
                        with a port mapping, both addresses: `172.18.0.3:10911|127.0.0.1:10911`, see externalHost
    in a response       compute the *advertised* address: the filed one; if there are two, the second one for a client
                        that itself comes through the mapping (`Surroundings.has_near`); for `*`, the host at which
                        this client reaches the nameserver, because the broker runs on that machine

Invariant: no address with `*` or `|` leaves the nameserver. The broker's part of the rule is in
`staticfire.runtime.reach`.
"""

from collections.abc import Iterable
from functools import lru_cache

from staticfire.protocol.errors import UsageError
from staticfire.runtime.addresses import format_address, parse_address, plain_host
from staticfire.runtime.reach import ip_of

THIS_MACHINE = "*"
EXTERNAL = "|"
# The size of the cache of computed addresses: the number of brokers on this machine times the number of its addresses.
# Without the cache, route requests took four times as long.
TOLD_KEPT_MAX = 1024


def filed_address(declared: str, advertised: bool, peer_host: str, local_host: str, external: str = "") -> str:
    """Return the address under which the broker is filed.

    `peer_host` and `local_host`: the two ends of the connection on which the broker registers. `external`: the broker's
    address for clients that come through a port mapping. Raises: UsageError if an address is neither advertised nor
    `host:port`, or contains `*` or `|`.
    """
    for address in (declared, external):
        if THIS_MACHINE in address or EXTERNAL in address:
            raise UsageError(f"{address!r} is not an address: {THIS_MACHINE} and {EXTERNAL} can't be part of one")
    if advertised or not declared:
        return declared
    straight = _direct_address(declared, peer_host, local_host)
    return f"{straight}{EXTERNAL}{external}" if external else straight


def _direct_address(declared: str, peer_host: str, local_host: str) -> str:
    host, port = parse_address(declared)
    ip = ip_of(host)
    if ip is None and host != "localhost":
        return declared
    if ip is not None and not ip.is_unspecified and not ip.is_loopback:
        return declared
    if _is_loopback(peer_host) or plain_host(peer_host) == plain_host(local_host):
        return THIS_MACHINE + declared
    return format_address(plain_host(peer_host), port)


@lru_cache(maxsize=TOLD_KEPT_MAX)
def advertised_address(filed: str, local_host: str, is_near: bool = True) -> str:
    """Return the address for a client that reaches the nameserver at `local_host`.

    `is_near`: whether the client connects directly and not through a port mapping.
    """
    filed, _, external = filed.partition(EXTERNAL)
    if external and not is_near:
        return external
    if not filed.startswith(THIS_MACHINE):
        return filed
    host, port = parse_address(filed[1:])
    if _is_loopback(host) and _is_loopback(local_host):
        # A broker that listens on 127.0.0.1 can't be reached at [::1].
        return format_address(host, port)
    return format_address(plain_host(local_host), port)


def own_host(local_host: str, filed: Iterable[str], is_near: bool) -> str:
    """Return the host at which a client reaches this nameserver, which it reached at `local_host`.

    Through a port mapping, it is the host at which it reaches the brokers: `filed` are their addresses.
    """
    hosts = (external for _, _, external in (one.partition(EXTERNAL) for one in filed) if external)
    external = None if is_near else next(hosts, None)
    return plain_host(local_host) if external is None else parse_address(external)[0]


def _is_loopback(host: str) -> bool:
    ip = ip_of(host)
    return host == "localhost" if ip is None else ip.is_loopback
