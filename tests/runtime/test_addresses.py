"""Addresses that users write, and which of them no name lookup takes."""

import pytest

from staticfire.protocol.errors import ConnectFailed, UsageError
from staticfire.protocol.requests.offsets import GetMaxOffset
from staticfire.runtime.addresses import comparable, parse_address
from staticfire.runtime.client_machine import with_client
from staticfire.runtime.live import live_machine
from staticfire.runtime.machine import Machine
from staticfire.runtime.pool import ConnectionPool
from staticfire.runtime.tls.settings import TlsClient

LABEL = 63 * "a"
NO_HOSTS = [
    "a..b",
    ".a",
    "..",
    ".",
    f"a{LABEL}.example",
    "a\0b",
    "a\ud800",
    "\udc80",
    "\u00df..b",
    60 * "\u00fc",
    "a b",
    "\t",
]


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("localhost:1", "localhost"),
        (f"{LABEL}.example:1", f"{LABEL}.example"),
        ("shop.example.:1", "shop.example."),
        ("a_b-c.example:1", "a_b-c.example"),
        ("m\u00fcnchen.example:1", "m\u00fcnchen.example"),
        ("[fe80::1%eth0]:1", "fe80::1%eth0"),
        ("[::ffff:10.0.0.1]:1", "::ffff:10.0.0.1"),
        (" 10.0.0.1:1 ", "10.0.0.1"),
    ],
)
def test_hosts(text: str, host: str) -> None:
    assert parse_address(text) == (host, 1)


@pytest.mark.parametrize("host", NO_HOSTS)
def test_a_name_that_cant_be_looked_up_isnt_an_address(host: str) -> None:
    with pytest.raises(UsageError, match="is not an address"):
        parse_address(f"{host}:1")


@pytest.fixture(params=[None, TlsClient()], ids=["plain", "tls"])
def machine(request: pytest.FixtureRequest) -> Machine:
    return with_client(live_machine(), request.param)


async def test_connecting_to_such_a_name_fails_like_to_any_other(machine: Machine) -> None:
    pool = ConnectionPool(machine)
    for host in NO_HOSTS:
        with pytest.raises(ConnectFailed):
            await pool.ask(f"{host}:1", GetMaxOffset("t", 0))
    await pool.close()
    await machine.workers.close()


@pytest.mark.parametrize("host", ["a..b", f"a{LABEL}.example", "\udc80", "fe80::1%a..b"])
async def test_the_network_has_one_kind_of_errors_for_names(machine: Machine, host: str) -> None:
    with pytest.raises(OSError, match=":1: not a host"):
        await machine.network.connect(lambda: None, host, 1, 1_000)  # type: ignore[arg-type,return-value]
    with pytest.raises(OSError, match=":1: not a host"):
        await machine.network.listen(lambda: None, host, 1)  # type: ignore[arg-type,return-value]
    await machine.workers.close()


@pytest.mark.parametrize("text", ["127.0.0.1:1;b:2", "b:2,127.0.0.1:1", " LOCALHOST:1 ; B:2;", "B:2;b:2;localhost:1"])
def test_forms_of_the_same_addresses_are_equal(text: str) -> None:
    assert comparable(text) == {("127.0.0.1", 1), ("b", 2)}


def test_other_addresses_of_the_loopback_are_other_ones() -> None:
    """Two clusters may listen on the same port, each at its own address."""
    assert not comparable("127.0.0.2:1") & comparable("localhost:1")
    with pytest.raises(UsageError, match="write host:port"):
        comparable("localhost")
