"""The newest events of a journal, read from its end."""

from typing import Any

import pytest

from staticfire.broker.journal.ring import NotedChunk
from staticfire.broker.journal.spill import JournalSpill, SpilledChunk
from staticfire.protocol.requests.journal import DELIVERED, DIED, JOINED, LEFT
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import GROUP, TOPIC, Shop
from tests.scenarios.test_journal import ON, filled

pytestmark = pytest.mark.row("S7")


async def test_the_newest_events_are_those_at_the_end_of_all(world: SimulatedWorld) -> None:
    shop = await Shop(world, broker_settings={**ON, "journal_events_max": 100}).open(brokers=2)
    await shop.start("one")
    await filled(shop, 700)
    await world.run_for(seconds=1)
    await shop.start("two")
    await filled(shop, 400)
    await world.run_for(seconds=1)
    every = await shop.admin.journal()
    for newest in (1, 30, 333, len(every) - 1, len(every), len(every) + 50):
        assert await shop.admin.journal(newest=newest) == every[-newest:], newest
    searches: list[tuple[tuple[str, ...], dict[str, Any]]] = [
        ((JOINED,), {}), ((JOINED, LEFT), {"group": GROUP}), ((DELIVERED,), {"topic": TOPIC}),
    ]  # fmt: skip
    for kinds, chosen in searches:
        some = await shop.admin.journal(*kinds, **chosen)
        assert some
        assert await shop.admin.journal(*kinds, **chosen, newest=5) == some[-5:]
    assert await shop.admin.journal(DIED, newest=5) == []
    await shop.close()


async def test_a_search_backwards_reads_only_chunks_that_have_wanted_events(
    world: SimulatedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = await Shop(world, broker_settings={**ON, "journal_events_max": 100}).open()
    await shop.start("one")
    await filled(shop, 2_000)
    await world.run_for(seconds=1)
    reads: list[SpilledChunk] = []
    spill_read = JournalSpill.read_spilled

    def noted(spill: JournalSpill, chunk: SpilledChunk) -> NotedChunk | None:
        reads.append(chunk)
        return spill_read(spill, chunk)

    monkeypatch.setattr(JournalSpill, "read_spilled", noted)
    assert [one.kind for one in await shop.admin.journal(JOINED, newest=5)] == [JOINED]
    assert len(reads) <= 2
    await shop.close()
