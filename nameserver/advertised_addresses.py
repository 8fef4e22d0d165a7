"""Under which address a client can reach a broker.

A broker that isn't given an address to advertise knows only where it listens: `0.0.0.0:10911`. What others have to
call is decided here, twice:

    when it registers   the broker's *filed* address, under which the route table holds it:
                        as given, if advertised or one particular address of its machine;
                        `*0.0.0.0:10911` if it runs on the nameserver's machine;
                        else the host that it registered from, with its port;
                        behind a port mapping both: `172.18.0.3:10911|127.0.0.1:10911`, see externalHost
    in an answer        the *advertised* address: what is filed; of two, the second one for a client that comes
                        through the mapping, too (`Surroundings.has_near`); for `*` the host at which this very client
                        reaches the nameserver, since that is the broker's machine

Invariant: no address with `*` or `|` leaves the nameserver. The broker's half of the rule: `staticfire.runtime.reach`.
"""

from functools import lru_cache

from staticfire.runtime.addresses import format_address, parse_address, plain_host
from staticfire.runtime.reach import ip_of

THIS_MACHINE = "*"
EXTERNAL = "|"
TOLD_KEPT_MAX = 1024
# Answers that are remembered: brokers here times addresses of this machine. Reading the addresses each time made
# routes take four times as long.


def filed_address(declared: str, advertised: bool, peer_host: str, local_host: str, external: str = "") -> str:
    """Return the address under which the broker is filed.

    `peer_host` and `local_host`: the two ends of the connection it registers on. `external`: where it is for clients
    that come through a port mapping. Raises: UsageError for an address that isn't advertised and isn't `host:port`
    either.
    """
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
    """Return the address for a client that reaches the nameserver at `local_host`, straight or through a mapping."""
    filed, _, external = filed.partition(EXTERNAL)
    if external and not is_near:
        return external
    if not filed.startswith(THIS_MACHINE):
        return filed
    host, port = parse_address(filed[1:])
    if _is_loopback(host) and _is_loopback(local_host):
        return format_address(host, port)  # A broker that listens on 127.0.0.1 isn't reached at [::1].
    return format_address(plain_host(local_host), port)


def _is_loopback(host: str) -> bool:
    ip = ip_of(host)
    return host == "localhost" if ip is None else ip.is_loopback
