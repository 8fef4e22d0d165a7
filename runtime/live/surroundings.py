"""The networks of this machine, read from the kernel's routing tables (on Linux; on other systems none are known).

They are read each time, which takes 0.1 ms, because a container can join a network while it runs.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from staticfire.runtime.reach import Surroundings

IPV4_ROUTES, IPV6_ROUTES = "/proc/net/route", "/proc/net/ipv6_route"
Route = tuple[IPv4Network | IPv6Network, IPv4Address | IPv6Address]
"""A network and the gateway to it; the unspecified address if it needs no gateway."""
_MULTICAST = IPv6Network("ff00::/8")


def live_surroundings() -> Surroundings:
    """Return the current networks and gateways of this machine."""
    return parse_routes(_read(IPV4_ROUTES), _read(IPV6_ROUTES))


def parse_routes(ipv4: str, ipv6: str) -> Surroundings:
    """Return the networks and gateways from the kernel's two tables."""
    networks: list[IPv4Network | IPv6Network] = []
    gateways: set[IPv4Address | IPv6Address] = set()
    routes: list[Route] = [*_ipv4_routes(ipv4), *_ipv6_routes(ipv6)]
    for network, gateway in routes:
        if not gateway.is_unspecified:
            gateways.add(gateway)
        elif network.prefixlen:
            networks.append(network)
    return Surroundings(tuple(networks), frozenset(gateways))


def _ipv4_routes(text: str) -> Iterator[Route]:
    """Read `eth0 000012AC 00000000 0001 0 0 0 0000FFFF ...`: network, gateway and mask, in reverse byte order."""
    for line in text.splitlines()[1:]:
        columns = line.split()
        if len(columns) >= 8:
            network, gateway, mask = (_turned(columns[at]) for at in (1, 2, 7))
            yield IPv4Network((int(network), int(mask).bit_count())), gateway


def _turned(text: str) -> IPv4Address:
    return IPv4Address(bytes.fromhex(text)[::-1])


def _ipv6_routes(text: str) -> Iterator[Route]:
    """Read `fd00... 40 000... 00 <gateway> metric ...`: network, prefix bits in hex, source and its bits, gateway."""
    for line in text.splitlines():
        columns = line.split()
        if len(columns) >= 10 and columns[-1] != "lo":
            network = IPv6Network((int(columns[0], 16), int(columns[1], 16)))
            if not network.subnet_of(_MULTICAST):
                yield network, IPv6Address(int(columns[4], 16))


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
