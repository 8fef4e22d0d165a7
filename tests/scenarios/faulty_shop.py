"""A shop whose cluster accepts fault rules."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import pytest_asyncio

from staticfire.client import ClientSettings, ProducerSettings
from staticfire.client.admin.faults import FaultAdmin, FaultView
from staticfire.faults.parsing import parse_fault
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import NAMESRV, Shop

BROKER = "10.0.1.1:10911"
ONE_TRY = ProducerSettings(retry_times_when_send_failed=0, client=ClientSettings(instance_name="till-1"))


class FaultyShop(Shop):
    """A shop whose cluster accepts fault rules, from a separate machine."""

    async def add(self, **words: Any) -> FaultView:
        return await self.faults.add(parse_fault(words))

    async def open(self, brokers: int = 1, queues: int = 4) -> "FaultyShop":
        await super().open(brokers, queues)
        # Separate connections, since a rule may close those of all other clients.
        self.pool = ConnectionPool(self.world.machine("desk", host="10.0.4.2"))
        self.faults = FaultAdmin(self.pool, NAMESRV)
        return self

    async def close(self) -> None:
        await self.pool.close()
        await super().close()

    async def hits(self) -> list[int]:
        return [view.hit for view in await self.faults.views()]

    def stored(self, broker: str = "broker-a") -> int:
        return self.ends()[broker, 0]

    @contextmanager
    def takes(self, ms: float, within_ms: float = 5) -> Iterator[None]:
        """Check that the code in the `with` block takes that long."""
        began_ms = self.world.uptime_ms
        yield
        assert self.world.uptime_ms - began_ms == pytest.approx(ms, abs=within_ms)


@pytest_asyncio.fixture(name="shop")
async def one_queue_shop(world: SimulatedWorld) -> AsyncIterator[FaultyShop]:
    """One broker and a topic with one queue, for modules that import it."""
    shop = FaultyShop(world, ClientSettings())
    await shop.open(brokers=1, queues=1)
    yield shop
    await shop.close()
