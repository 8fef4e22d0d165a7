"""The address at which peers reach a server. One rule for every place where such an address is sent:

    1. the advertised address, if there is one (brokerIP1)
    2. for a peer that comes through a port mapping: the external address, if there is one
    3. for every other peer: the address at which that peer reached this machine

Behind a port mapping, a container has only its own addresses, its networks, and a gateway. All connections through the
mapping seem to come from that gateway. So a peer that comes from loopback or from one of our networks, and isn't a
gateway, is connected directly; every other peer is external. A server without a port mapping has no external address,
so this isn't checked there.

The decision is made once per connection. A field that needs an IP address, such as a record's store host, gets the
first of these addresses that is one. `localhost` counts as an IP address; other names don't.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import NamedTuple

from staticfire.runtime.addresses import Address

LOOPBACK = "127.0.0.1"


class Surroundings(NamedTuple):
    """The networks that a machine is connected to, and their gateways."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    gateways: frozenset[IPv4Address | IPv6Address] = frozenset()

    def has_near(self, host: str) -> bool:
        """Return whether a peer with this address is connected directly, not through a port mapping."""
        ip = ip_of(host)
        if ip is None or ip.is_loopback:
            return ip is not None
        return ip not in self.gateways and any(ip in network for network in self.networks)


class Reach(NamedTuple):
    """Where a server can be reached, according to its settings. Empty host: not set. Port 0: the server's own port."""

    advertised_host: str = ""
    advertised_port: int = 0
    external_host: str = ""
    external_port: int = 0

    def address(self, straight: Address, is_near: bool) -> Address:
        """Return the address to give to a peer that reached the server at `straight`."""
        return next(self._addresses(straight, is_near))

    def ip_address(self, straight: Address, is_near: bool) -> Address:
        """Return the first of the possible addresses whose host is an IP address. It may fit the peer less well."""
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
    """Return the IP address in `host`, with IPv4 unwrapped from IPv4-mapped IPv6; None for a name."""
    try:
        ip = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return ip.ipv4_mapped or ip if isinstance(ip, IPv6Address) else ip
