"""Brokers behind a port mapping, as in containers: each client gets addresses that it can reach, everywhere."""

from collections.abc import AsyncIterator
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
import pytest_asyncio

from staticfire.protocol.codecs import JSON
from staticfire.protocol.command import Request
from staticfire.protocol.hosts import host_text
from staticfire.protocol.message_ids import parse_offset_id
from staticfire.protocol.requests.connections import QueryTopicsOfGroup
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, PullMessage
from staticfire.protocol.requests.routes import GetClusterInfo, GetRoute, GetSystemTopicsOfNameserver
from staticfire.protocol.requests.send import SendMessageV2
from staticfire.runtime.pool import ConnectionPool
from staticfire.runtime.reach import Surroundings
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.stand import NAMESERVER, Stand

pytestmark = [pytest.mark.row("E2"), pytest.mark.row("S5")]

GATEWAY, NEIGHBOUR = "10.0.0.254", "10.0.0.9"
BROKER = "10.0.0.2:10911"
# Where a simulated program really gets it; what it is told is what matters here.


class Told:
    """A program, and the broker address that it gets in each place that carries one."""

    def __init__(self, world: SimulatedWorld, host: str) -> None:
        self._pool = ConnectionPool(world.machine(f"program at {host}", host), codec_byte=JSON)

    async def ask(self, address: str, request: Request) -> Any:
        answer = await self._pool.ask(address, request)
        assert answer.code == 0, answer.remark
        return answer

    async def everywhere(self) -> dict[str, str]:
        route = (await self.ask(NAMESERVER, GetRoute("orders"))).body
        info = (await self.ask(NAMESERVER, GetClusterInfo())).body
        system = (await self.ask(NAMESERVER, GetSystemTopicsOfNameserver())).body
        sent = await self.ask(BROKER, SendMessageV2("shop", "orders", "TBW102", 4, 0, 0, 0, 0, "", body=b"x"))
        pulled = await self.ask(BROKER, PullMessage("readers", "orders", 0, 0, 32, FLAG_SUBSCRIPTION, 0, 0, "*"))
        topics = (await self.ask(BROKER, QueryTopicsOfGroup("readers"))).body
        return {
            "route": route.broker_datas[0].broker_addrs[0],
            "cluster": info.broker_addr_table["broker-a"].broker_addrs[0],
            "system topics": system.broker_addr,
            "id": host_text(parse_offset_id(sent.msg_id)[0]),
            "record": host_text(pulled.body.store_hosts[-1]),
            "topics of a group": topics.broker_addr,
        }

    async def close(self) -> None:
        await self._pool.close()


@pytest_asyncio.fixture
async def neighbour(world: SimulatedWorld) -> AsyncIterator[Told]:
    """A program in a container of the same network."""
    reported = Told(world, NEIGHBOUR)
    yield reported
    await reported.close()


@pytest_asyncio.fixture
async def outsider(world: SimulatedWorld) -> AsyncIterator[Told]:
    """A program on the host, which comes as the gateway."""
    reported = Told(world, GATEWAY)
    yield reported
    await reported.close()


async def start(world: SimulatedWorld, **settings: object) -> Stand:
    gateways = frozenset({ip_address(GATEWAY)})
    world.network.surroundings = Surroundings((ip_network("10.0.0.0/24"),), gateways)
    stand = await Stand(world, **settings).start()  # type: ignore[arg-type]
    await stand.create_topic("orders")
    await stand.close()
    return stand


async def test_each_gets_the_address_that_it_can_reach(world: SimulatedWorld, neighbour: Told, outsider: Told) -> None:
    await start(world, external_host="127.0.0.1")
    assert set((await neighbour.everywhere()).values()) == {BROKER}
    assert set((await outsider.everywhere()).values()) == {"127.0.0.1:10911"}


async def test_the_port_outside_may_differ(world: SimulatedWorld, neighbour: Told, outsider: Told) -> None:
    await start(world, external_host="192.168.1.5", external_port=20911)
    assert set((await neighbour.everywhere()).values()) == {BROKER}
    assert set((await outsider.everywhere()).values()) == {"192.168.1.5:20911"}


async def test_what_is_advertised_wins_for_everyone(world: SimulatedWorld, neighbour: Told, outsider: Told) -> None:
    await start(world, broker_ip1="192.168.1.5", advertised_port=1, external_host="127.0.0.1")
    assert set((await neighbour.everywhere()).values()) == {"192.168.1.5:1"}
    assert set((await outsider.everywhere()).values()) == {"192.168.1.5:1"}


async def test_a_name_is_reported_where_names_are_allowed(world: SimulatedWorld, neighbour: Told) -> None:
    await start(world, broker_ip1="rmqbroker")
    reported = await neighbour.everywhere()
    assert {reported[place] for place in ("route", "cluster", "system topics")} == {"rmqbroker:10911"}
    assert {reported[place] for place in ("id", "record", "topics of a group")} == {BROKER}


async def test_without_a_mapping_a_gateway_is_a_client_like_any_other(world: SimulatedWorld, outsider: Told) -> None:
    await start(world)
    assert set((await outsider.everywhere()).values()) == {BROKER}
