"""Under which address a server tells its peers to reach it: one rule for everything that carries such an address.

    1. the advertised address, if there is one (brokerIP1)
    2. to who comes through a port mapping: the external address, if there is one
    3. to everyone else: the very address at which that peer reached this machine

Behind a port mapping a container sees only its own addresses, its networks, and a gateway from which everybody seems to
come whose way led through the mapping. So who comes from loopback or from one of our networks, and isn't a gateway,
came straight; everyone else is external. A server without a mapping in front has no external address: nobody asks then.

All of it is decided once per connection. What needs an IP address, as a record's store host does, takes the first of
these that is one: `localhost` is, other names aren't.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import NamedTuple

from staticfire.runtime.addresses import Address

LOOPBACK = "127.0.0.1"


class Surroundings(NamedTuple):
    """What a machine knows of the networks that it is in."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    gateways: frozenset[IPv4Address | IPv6Address] = frozenset()

    def has_near(self, host: str) -> bool:
        """Tell whether a peer with this address comes straight to us: through no port mapping."""
        ip = ip_of(host)
        if ip is None or ip.is_loopback:
            return ip is not None
        return ip not in self.gateways and any(ip in network for network in self.networks)


class Reach(NamedTuple):
    """Where a server can be reached, as its settings say. Empty hosts: nothing is said. Port 0: the server's own."""

    advertised_host: str = ""
    advertised_port: int = 0
    external_host: str = ""
    external_port: int = 0

    def address(self, straight: Address, is_near: bool) -> Address:
        """Return what to tell a peer that reached the server at `straight`."""
        return next(self._addresses(straight, is_near))

    def ip_address(self, straight: Address, is_near: bool) -> Address:
        """Return the same with an IP address as the host, which may mean a less fitting one."""
        for host, port in self._addresses(straight, is_near):
            if host == "localhost":
                return LOOPBACK, port
            if ip_of(host) is not None:
                return host, port
        return straight

    def _addresses(self, straight: Address, is_near: bool) -> Iterator[Address]:
        if self.advertised_host:
            yield self.advertised_host, self.advertised_port or straight[1]
        if self.external_host and not is_near:
            yield self.external_host, self.external_port or straight[1]
        yield straight


def ip_of(host: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address that a host is, without the clothes that IPv6 sockets put on IPv4; None for a name."""
    try:
        ip = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return ip.ipv4_mapped or ip if isinstance(ip, IPv6Address) else ip
