"""Groups of many members: all are notified of a change, but not once for each of many changes."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.broker.handlers.clients import NOTIFIED_AT_ONCE_MAX
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.members import Member
from tests.scenarios.stand import Stand

pytestmark = [pytest.mark.row("H3"), pytest.mark.row("H5")]

MEMBERS, NEWCOMERS = 2 * NOTIFIED_AT_ONCE_MAX, 20


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[Stand]:
    stand = await Stand(world).start()
    yield stand
    await stand.close()


@pytest_asyncio.fixture
async def members(stand: Stand) -> AsyncIterator[list[Member]]:
    members = [Member(stand, f"client-{number}-{chr(97 + number % 26)}") for number in range(MEMBERS + NEWCOMERS)]
    yield members
    for member in members:
        await member.pool.close()


async def test_each_member_of_a_large_group_is_notified_once_of_one_change(
    world: SimulatedWorld, members: list[Member]
) -> None:
    old, newcomer = members[:MEMBERS], members[MEMBERS]
    for member in old:
        await member.heartbeat()
    await world.run_for(ms=100)
    for member in old:
        member.reported.clear()
    await newcomer.heartbeat()
    await world.run_for(ms=100)
    assert [member.reported for member in [*old, newcomer]] == [["billing"]] * (MEMBERS + 1)
    await newcomer.goodbye()
    await world.run_for(ms=100)
    assert [member.reported for member in old] == [["billing"] * 2] * MEMBERS


async def test_changes_that_come_together_are_one_notification_for_those_who_wait(
    world: SimulatedWorld, members: list[Member]
) -> None:
    old, newcomers = members[:MEMBERS], members[MEMBERS:]
    for member in old:
        await member.heartbeat()
    await world.run_for(ms=100)
    for member in old:
        member.reported.clear()
    await asyncio.gather(*(newcomer.heartbeat() for newcomer in newcomers))
    await world.run_for(ms=100)
    reported = [len(member.reported) for member in [*old, *newcomers]]
    assert min(reported) >= 1
    assert sum(reported) < NEWCOMERS * MEMBERS / 2


async def test_who_leaves_before_its_turn_is_not_notified(world: SimulatedWorld, members: list[Member]) -> None:
    old = members[:MEMBERS]
    for member in old:
        await member.heartbeat()
    await world.run_for(ms=100)
    for member in old:
        member.reported.clear()
    leaving = asyncio.gather(*(member.lose_connection() for member in old[-10:]))
    await members[MEMBERS].heartbeat()
    await leaving
    await world.run_for(ms=100)
    assert all(member.reported for member in old[:-10])
    assert await members[MEMBERS].ids() == [member.name for member in [*old[:-10], members[MEMBERS]]]
