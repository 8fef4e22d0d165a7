"""Saves of a snapshot at several brokers: one refuses, is busy, or the program that saves has ended."""

from typing import Any

import pytest

from staticfire.control.snapshots import save, saved
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import refusal
from staticfire.protocol.errors import BrokerAnswer, ClientError
from staticfire.protocol.requests.faults import AddFault, FaultRule, RemoveFault
from staticfire.protocol.requests.snapshots import GetSnapshots, KeepSnapshot, SaveSnapshot
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import Shop
from tests.scenarios.test_snapshots import addresses, put_away, put_back

pytestmark = pytest.mark.row("S8")


async def test_a_save_that_one_broker_refuses_keeps_the_old_snapshot_of_that_name(
    world: SimulatedWorld, shop: Shop
) -> None:
    pool, servers = shop.producer.client.pool, addresses(shop)
    await shop.send_many(8)
    await put_away(shop)
    await shop.send_many(12)
    rule = FaultRule(number=1, action="delay", delay_ms=1)
    assert (await pool.ask(servers["broker-b"], AddFault(body=rule), 5_000)).code == 0
    with pytest.raises(BrokerAnswer, match="fault rules are active"):
        await put_away(shop)
    assert (await pool.ask(servers["broker-b"], RemoveFault(), 5_000)).code == 0
    (there,) = await saved(pool, servers)
    assert there["messages"] == 8
    assert [info.name for info in (await pool.ask(servers["broker-a"], GetSnapshots(), 5_000)).body] == ["base"]
    await put_back(shop)
    assert sum(shop.ends().values()) == 8


async def test_parts_of_different_saves_are_no_snapshot(world: SimulatedWorld, shop: Shop) -> None:
    pool, servers = shop.producer.client.pool, addresses(shop)
    await put_away(shop)
    assert (await pool.ask(servers["broker-b"], SaveSnapshot("base"), 5_000)).code == 0  # One alone.
    assert await saved(pool, servers) == []
    with pytest.raises(ClientError, match="base has parts of different saves: broker-a, broker-b"):
        await put_back(shop)
    await put_away(shop)
    assert [one["name"] for one in await saved(pool, servers)] == ["base"]
    await put_back(shop)


async def test_a_save_whose_program_was_ended_leaves_nothing_for_good(world: SimulatedWorld, shop: Shop) -> None:
    pool, servers = shop.producer.client.pool, addresses(shop)
    assert (await pool.ask(servers["broker-a"], SaveSnapshot("half", pending=True), 5_000)).code == 0
    assert await saved(pool, servers) == []
    disk = world.disk("broker-a")
    assert any("/.half/" in path for path in disk.files)
    await world.run_for(seconds=3_700)
    await put_away(shop)
    assert not any("/.half/" in path for path in disk.files)


class BusyBroker:
    """Connections to brokers of which one still carries out another change when it shall keep its part."""

    def __init__(self, pool: ConnectionPool, address: str, refusals: int) -> None:
        self._pool = pool
        self._address = address
        self.left = refusals

    async def ask(self, address: str, request: Any, timeout_ms: int) -> Any:
        if isinstance(request, KeepSnapshot) and address == self._address and self.left:
            self.left -= 1
            return refusal(ResponseCode.SYSTEM_BUSY, "a snapshot is being saved, restored or removed: try again")
        return await self._pool.ask(address, request, timeout_ms)


async def test_a_broker_that_is_busy_when_it_shall_keep_its_part_is_requested_again(
    world: SimulatedWorld, shop: Shop
) -> None:
    pool, servers = shop.producer.client.pool, addresses(shop)
    await put_away(shop)
    await shop.send_many(8)
    busy: Any = BusyBroker(pool, servers["broker-b"], 3)
    await save(busy, servers, "base")
    assert busy.left == 0
    assert [one["messages"] for one in await saved(pool, servers)] == [8]
