"""Which of a server's addresses a peer can reach, and who comes through a port mapping."""

from ipaddress import ip_address, ip_network

import pytest

from staticfire.runtime.live.surroundings import live_surroundings, parse_routes
from staticfire.runtime.reach import Reach, Surroundings

pytestmark = pytest.mark.row("E2")

STRAIGHT = ("172.18.0.3", 10911)
CONTAINER = Surroundings(
    (ip_network("172.18.0.0/16"), ip_network("fd01::/64")),
    frozenset({ip_address("172.18.0.1"), ip_address("fd01::1")}),
)

IPV4_ROUTES = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010012AC\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000012AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
"""
IPV6_ROUTES = """\
fd010000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 1 0 1 eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fd010000000000000000000000000001 00000400 2 0 3 eth0
00000000000000000000000000000001 80 00000000000000000000000000000000 00 00000000000000000000000000000000 00000000 4 0 2 lo
ff000000000000000000000000000000 08 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 3 0 1 eth0
"""  # noqa: E501


@pytest.mark.parametrize("host", ["172.18.0.9", "172.18.255.254", "::ffff:172.18.0.9", "fd01::9", "127.0.0.1", "::1"])
def test_neighbours_and_loopback_are_near(host: str) -> None:
    assert CONTAINER.has_near(host)


@pytest.mark.parametrize(
    "host", ["172.18.0.1", "::ffff:172.18.0.1", "fd01::1", "192.168.1.5", "172.19.0.9", "fd02::1", "?"]
)
def test_the_gateway_and_everyone_else_come_through_the_mapping(host: str) -> None:
    assert not CONTAINER.has_near(host)


def test_without_known_networks_only_loopback_is_near() -> None:
    assert Surroundings().has_near("127.0.0.1")
    assert not Surroundings().has_near("172.18.0.9")


def test_networks_and_gateways_are_read_from_the_kernels_tables() -> None:
    assert parse_routes(IPV4_ROUTES, IPV6_ROUTES) == CONTAINER
    assert parse_routes("", "") == Surroundings()


def test_this_machine_is_near_itself() -> None:
    assert live_surroundings().has_near("127.0.0.1")


def test_a_mapping_is_shown_only_to_clients_that_come_through_it() -> None:
    reach = Reach(external_host="127.0.0.1")
    assert reach.address(STRAIGHT, is_near=False) == ("127.0.0.1", 10911)
    assert reach.address(STRAIGHT, is_near=True) == STRAIGHT
    assert Reach(external_host="127.0.0.1", external_port=20911).address(STRAIGHT, False) == ("127.0.0.1", 20911)


def test_nothing_configured_is_where_the_peer_reached_us() -> None:
    assert Reach().address(STRAIGHT, is_near=False) == STRAIGHT


@pytest.mark.parametrize("is_near", [True, False])
def test_what_is_advertised_wins(is_near: bool) -> None:
    reach = Reach(advertised_host="broker.example", external_host="127.0.0.1")
    assert reach.address(STRAIGHT, is_near) == ("broker.example", 10911)
    assert Reach(advertised_host="10.0.0.7", advertised_port=1).address(STRAIGHT, is_near) == ("10.0.0.7", 1)


def test_where_an_ip_address_is_needed_a_name_is_passed_over() -> None:
    reach = Reach(advertised_host="broker.example", external_host="127.0.0.1")
    assert reach.ip_address(STRAIGHT, is_near=False) == ("127.0.0.1", 10911)
    assert reach.ip_address(STRAIGHT, is_near=True) == STRAIGHT
    assert Reach(advertised_host="localhost").ip_address(STRAIGHT, is_near=True) == ("127.0.0.1", 10911)
