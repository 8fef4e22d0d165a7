"""The nameserver over real sockets: ports, IPv6, and the end."""

import socket

import pytest

from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.codecs import JSON
from staticfire.protocol.errors import UsageError
from staticfire.runtime.live import live_machine
from tests.nameserver.asking import Asking, registration

LOOPBACK = NameserverSettings(listen_host="127.0.0.1", listen_port=0)


@pytest.mark.row("H1")
async def test_routes_are_learnt_and_returned_over_sockets(codec: int) -> None:
    machine = live_machine()
    async with Nameserver(machine, LOOPBACK) as nameserver:
        broker, client = (Asking(machine, codec, f"127.0.0.1:{nameserver.port}") for _ in range(2))
        await broker.ask(registration("broker-a", "0.0.0.0:10911", advertised=False))
        assert await client.addresses("orders") == {"broker-a": {0: "127.0.0.1:10911"}}
        _, body = await client.raw(105, topic="orders")
        assert b'"brokerAddrs":{"0":"127.0.0.1:10911"}' in body
        await broker.close()
        await client.close()
    await machine.workers.close()


async def test_a_broker_and_a_client_meet_over_ipv6() -> None:
    machine = live_machine()
    async with Nameserver(machine, NameserverSettings(listen_host="::1", listen_port=0)) as nameserver:
        asking = Asking(machine, JSON, f"[::1]:{nameserver.port}")
        await asking.ask(registration("broker-a", "[::]:10911", advertised=False))
        assert await asking.addresses("orders") == {"broker-a": {0: "[::1]:10911"}}
        await asking.close()
    await machine.workers.close()


async def test_a_socket_is_taken_over() -> None:
    machine = live_machine()
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        async with Nameserver(machine, NameserverSettings(listen_port=1), sock) as nameserver:
            assert nameserver.port == port
    await machine.workers.close()


async def test_a_port_in_use_is_reported_with_the_remedy() -> None:
    machine = live_machine()
    async with Nameserver(machine, LOOPBACK) as nameserver:
        taken = NameserverSettings(listen_host="127.0.0.1", listen_port=nameserver.port)
        with pytest.raises(UsageError, match=f"127.0.0.1:{nameserver.port}.*; choose another listenPort"):
            async with Nameserver(machine, taken):
                pass
    await machine.workers.close()
