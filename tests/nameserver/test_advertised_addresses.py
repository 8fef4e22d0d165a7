"""Under which address a client is told to reach a broker."""

import pytest

from staticfire.nameserver.advertised_addresses import advertised_address, filed_address, own_host
from staticfire.protocol.errors import UsageError

pytestmark = pytest.mark.row("H1")

HERE, ELSEWHERE = "10.0.0.1", "10.0.0.7"


def reported(
    declared: str,
    advertised: bool = False,
    peer: str = "127.0.0.1",
    local: str = "127.0.0.1",
    asks: str = HERE,
    external: str = "",
    is_near: bool = True,
) -> str:
    """Return what a client that reached the nameserver at `asks` is told of a broker that came from `peer`."""
    return advertised_address(filed_address(declared, advertised, peer, local, external), asks, is_near)


def test_an_advertised_address_is_shown_as_it_is() -> None:
    assert reported("0.0.0.0:10911", advertised=True) == "0.0.0.0:10911"
    assert reported("broker.example:1", advertised=True, peer=ELSEWHERE) == "broker.example:1"


@pytest.mark.parametrize("advertised", [True, False])
@pytest.mark.parametrize("declared", ["*odd", "*10.0.0.2:10911", "10.0.0.2:10911|10.0.0.3:10911"])
def test_an_address_with_marks_of_the_nameserver_is_refused(declared: str, advertised: bool) -> None:
    with pytest.raises(UsageError, match=r"\* and \| can't be part of one"):
        reported(declared, advertised)


@pytest.mark.parametrize(
    "declared", ["0.0.0.0:10911", "[::]:10911", "127.0.0.1:10911", "[::1]:10911", "localhost:10911"]
)
def test_a_broker_here_gets_the_address_where_the_client_reached_the_nameserver(declared: str) -> None:
    assert reported(declared, asks="192.168.1.5") == "192.168.1.5:10911"
    assert reported(declared, asks="fe80::7") == "[fe80::7]:10911"


def test_a_broker_that_came_over_the_machines_own_address_is_here() -> None:
    assert reported("0.0.0.0:10911", peer=HERE, local=HERE, asks="127.0.0.1") == "127.0.0.1:10911"


def test_a_broker_elsewhere_gets_the_address_that_it_came_from() -> None:
    assert reported("0.0.0.0:10911", peer=ELSEWHERE, local=HERE, asks="127.0.0.1") == "10.0.0.7:10911"
    assert reported("127.0.0.1:10911", peer="fe80::7", local="fe80::1", asks="127.0.0.1") == "[fe80::7]:10911"


def test_one_particular_address_is_shown_as_it_is() -> None:
    assert reported("192.168.9.9:10911", peer=ELSEWHERE, local=HERE) == "192.168.9.9:10911"
    assert reported("broker-a:10911") == "broker-a:10911"


def test_a_broker_on_ipv4_loopback_is_not_shown_as_ipv6_loopback() -> None:
    assert reported("127.0.0.1:10911", asks="::1") == "127.0.0.1:10911"
    assert reported("0.0.0.0:10911", asks="::1") == "[::1]:10911"


def test_ipv4_in_ipv6_clothes_is_ipv4() -> None:
    assert reported("0.0.0.0:10911", peer="::ffff:127.0.0.1", asks="::ffff:10.0.0.1") == "10.0.0.1:10911"
    assert reported("0.0.0.0:10911", peer="::ffff:10.0.0.7", local=HERE) == "10.0.0.7:10911"
    assert reported("0.0.0.0:10911", peer="::ffff:10.0.0.1", local=HERE, asks="127.0.0.1") == "127.0.0.1:10911"


def test_what_is_no_address_is_refused_unless_it_is_advertised() -> None:
    with pytest.raises(UsageError, match="'nonsense' is not an address"):
        reported("nonsense")
    assert reported("nonsense", advertised=True) == "nonsense"
    assert reported("") == ""


@pytest.mark.row("E2")
@pytest.mark.parametrize("peer", ["127.0.0.1", ELSEWHERE])
def test_a_client_that_comes_through_a_port_mapping_gets_the_external_address(peer: str) -> None:
    assert (
        reported("0.0.0.0:10911", peer=peer, local=HERE, external="127.0.0.1:20911", is_near=False) == "127.0.0.1:20911"
    )


@pytest.mark.row("E2")
def test_a_client_that_comes_directly_does_not_get_the_external_address() -> None:
    assert reported("0.0.0.0:10911", peer=ELSEWHERE, local=HERE, external="127.0.0.1:20911") == "10.0.0.7:10911"
    assert reported("0.0.0.0:10911", external="127.0.0.1:20911", asks=HERE) == "10.0.0.1:10911"


@pytest.mark.row("E2")
def test_a_broker_without_a_mapping_looks_the_same_to_every_client() -> None:
    assert reported("0.0.0.0:10911", peer=ELSEWHERE, local=HERE, is_near=False) == "10.0.0.7:10911"


@pytest.mark.row("E2")
def test_what_is_advertised_wins_over_the_external_address() -> None:
    assert reported("192.168.1.5:1", advertised=True, external="127.0.0.1:20911", is_near=False) == "192.168.1.5:1"


@pytest.mark.row("E2")
def test_the_nameservers_own_host_is_the_one_at_which_a_client_reached_it() -> None:
    filed = [filed_address("0.0.0.0:10911", False, ELSEWHERE, HERE), "192.168.1.5:10911"]
    assert own_host("::ffff:10.0.0.1", filed, is_near=True) == own_host(HERE, filed, is_near=False) == HERE
    mapped = [*filed, filed_address("0.0.0.0:10911", False, ELSEWHERE, HERE, "docker.example:20911")]
    assert own_host(HERE, mapped, is_near=True) == HERE
    assert own_host(HERE, mapped, is_near=False) == "docker.example"
