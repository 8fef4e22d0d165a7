"""Commits of a member that was cut off while another one got its queue. RocketMQ stores them: the group goes back."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.protocol.requests.groups import SubscriptionGroupConfig, UpdateGroup
from staticfire.protocol.requests.offsets import QueryConsumerOffset, UpdateConsumerOffset
from staticfire.protocol.requests.pull import FLAG_COMMIT_OFFSET, FLAG_SUBSCRIPTION, PullMessage
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.members import Member
from tests.scenarios.stand import Stand

pytestmark = pytest.mark.row("F1")


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Stand]:
    stand = await Stand(world, **getattr(request, "param", {})).start()
    await stand.create_topic("orders", queues=1)
    await stand.ask(stand.brokers["broker-a"], UpdateGroup(body=SubscriptionGroupConfig(group_name="billing")))
    for _ in range(8):
        await stand.send("orders")
    yield stand
    await stand.close()


async def members(stand: Stand, **data: object) -> tuple[Member, Member]:
    old, new = Member(stand, "member-1"), Member(stand, "member-2")
    for member in (old, new):
        await member.heartbeat(**data)  # type: ignore[arg-type]
    return old, new


async def commit(member: Member, offset: int) -> None:
    request = UpdateConsumerOffset("billing", "orders", 0, offset)
    assert (await member.pool.ask(member.stand.brokers["broker-a"], request)).code == 0


async def pull(member: Member, offset: int, commits: int | None = None) -> None:
    flags = FLAG_SUBSCRIPTION | (0 if commits is None else FLAG_COMMIT_OFFSET)
    request = PullMessage("billing", "orders", 0, offset, 32, flags, commits or 0, 0, "*")
    assert (await member.pool.ask(member.stand.brokers["broker-a"], request)).code == 0


async def committed(stand: Stand) -> int:
    answer = await stand.ask(stand.brokers["broker-a"], QueryConsumerOffset("billing", "orders", 0))
    return int(answer.offset)


async def close(*members: Member) -> None:
    for member in members:
        await member.pool.close()


async def test_a_member_that_has_lost_its_lock_does_not_set_the_group_back(stand: Stand) -> None:
    old, new = await members(stand)
    await old.lock(0)
    await commit(old, 1)
    await stand.world.run_for(seconds=61)
    await old.lose_connection()
    await members_again(old, new)
    await new.lock(0)
    await commit(new, 5)
    await commit(old, 3)
    await pull(old, 3, commits=3)
    assert await committed(stand) == 5
    await commit(old, 6)
    assert await committed(stand) == 6
    await commit(new, 2)  # It may: it has the queue.
    assert await committed(stand) == 2
    await close(old, new)


async def members_again(*members: Member) -> None:
    for member in members:
        await member.heartbeat()


async def test_a_member_whose_queue_another_one_pulls_does_not_set_the_group_back(stand: Stand) -> None:
    old, new = await members(stand)
    await pull(old, 0)
    await pull(new, 0)
    await commit(new, 5)
    await commit(old, 3)
    assert await committed(stand) == 5
    await pull(old, 3, commits=3)  # What it knew when it asked is older than that, too.
    assert await committed(stand) == 5
    await commit(old, 4)  # But from now on it has the queue.
    assert await committed(stand) == 4
    await close(old, new)


async def test_a_lock_that_an_old_request_gets_does_not_make_an_old_commit_right(stand: Stand) -> None:
    """A member was cut off; all that it sent meanwhile arrives when it is back, after the new owner has unlocked."""
    old, new = await members(stand)
    await old.lock(0)
    await pull(old, 0)
    await old.unlock(0)
    await new.lock(0)
    await pull(new, 0)
    await commit(new, 5)
    await new.unlock(0)
    await old.lock(0)
    await commit(old, 3)
    assert await committed(stand) == 5
    await pull(old, 5)  # Now it works on the queue again.
    await commit(old, 4)
    assert await committed(stand) == 4
    await close(old, new)


@pytest.mark.parametrize("stand", [{"ignore_late_commits": False}], indirect=True)
async def test_with_the_setting_off_any_commit_is_stored(stand: Stand) -> None:
    old, new = await members(stand)
    await pull(old, 0)
    await pull(new, 0)
    await commit(new, 5)
    await commit(old, 3)
    assert await committed(stand) == 3
    await pull(old, 2, commits=2)
    assert await committed(stand) == 2
    await close(old, new)


async def test_whoever_may_have_a_reason_sets_the_group_back(stand: Stand) -> None:
    """A program that is no member, a member that never pulled the queue, and one whose successor is gone."""
    old, new = await members(stand)
    await old.lock(0)
    await pull(old, 0)
    await pull(new, 0)
    await commit(old, 7)
    await stand.ask(stand.brokers["broker-a"], UpdateConsumerOffset("billing", "orders", 0, 6))
    assert await committed(stand) == 6
    await old.unlock(0)
    third = Member(stand, "member-3")
    await third.heartbeat()
    await commit(third, 5)
    assert await committed(stand) == 5
    await commit(old, 4)
    assert await committed(stand) == 5
    await new.goodbye()
    await commit(old, 4)
    assert await committed(stand) == 4
    await close(old, new, third)


@pytest.mark.parametrize(
    "data", [{"consume_type": "CONSUME_ACTIVELY"}, {"message_model": "BROADCASTING"}], ids=["pulls", "broadcasts"]
)
async def test_members_that_may_share_a_queue_set_each_other_back(stand: Stand, data: dict[str, object]) -> None:
    old, new = await members(stand, **data)
    await pull(old, 0)
    await pull(new, 0)
    await commit(new, 5)
    await commit(old, 3)
    assert await committed(stand) == 3
    await close(old, new)
