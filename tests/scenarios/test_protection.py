"""Groups that are protected against members that come and go: who counts as a member, and who is notified."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest
import pytest_asyncio

from staticfire.broker.groups.subscription_groups import GroupTable
from staticfire.broker.settings import BrokerSettings
from staticfire.client import Admin, BrokerAnswer, SubscriptionGroupConfig
from staticfire.protocol.requests.config import UpdateBrokerConfig
from staticfire.protocol.requests.reset import Reset
from staticfire.protocol.times import MessageMs
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import GROUP
from tests.scenarios.members import Member
from tests.scenarios.stand import NAMESERVER, Stand

pytestmark = pytest.mark.row("H8")

STABLE_MS, GRACE_MS = 30_000, 10_000
STABLE = {"stable_time_ms": STABLE_MS}
GRACE = {"grace_time_ms": GRACE_MS}
ON_BOTH = pytest.mark.parametrize("stand", [STABLE | GRACE], indirect=True)


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Stand]:
    """A broker with the settings that the test is parametrized with."""
    stand = await Stand(world, **getattr(request, "param", {})).start()
    yield stand
    await stand.close()


@pytest_asyncio.fixture
async def old(stand: Stand) -> AsyncIterator[Member]:
    """A member that has been there for long."""
    member = Member(stand, "old-a")
    await member.heartbeat()
    await pass_time(stand, STABLE_MS, member)
    yield member
    await member.pool.close()


@pytest_asyncio.fixture
async def new(stand: Stand) -> AsyncIterator[Member]:
    member = Member(stand, "new-b")
    yield member
    await member.pool.close()


async def pass_time(stand: Stand, ms: int, *members: Member) -> None:
    """Let time pass for members that go on heartbeating, and forget the notifications that they got."""
    await stand.world.run_for(ms=ms)
    for member in members:
        await member.heartbeat()
        member.reported.clear()


@contextmanager
def nobody_is_told(*members: Member) -> Iterator[None]:
    before = [list(member.reported) for member in members]
    yield
    assert [member.reported for member in members] == before


# -- off ---------------------------------------------------------------------------------------------------------------


async def test_by_default_everybody_counts_at_once_and_no_longer_than_the_connection(old: Member, new: Member) -> None:
    await new.heartbeat()
    assert await old.ids() == ["old-a", "new-b"]
    await new.lose_connection()
    assert await old.ids() == ["old-a"]
    await new.heartbeat()
    assert len(old.reported) == 3


# -- stable time -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stand", [STABLE], indirect=True)
async def test_who_joins_stable_members_counts_when_it_has_been_there_for_the_stable_time(
    stand: Stand, old: Member, new: Member
) -> None:
    with nobody_is_told(old, new):
        await new.heartbeat()
        await stand.world.run_for(ms=STABLE_MS - 500)
        await new.heartbeat()
        assert await old.ids() == ["old-a"]
    await stand.world.run_for(ms=1_000)
    assert await old.ids() == ["old-a", "new-b"]
    assert (old.reported, new.reported) == ([GROUP], [GROUP])


@pytest.mark.parametrize("stand", [STABLE], indirect=True)
async def test_a_client_that_flaps_never_becomes_a_member_and_disturbs_no_other(
    stand: Stand, old: Member, new: Member
) -> None:
    with nobody_is_told(old):
        for number in range(6):
            await new.heartbeat()
            await stand.world.run_for(seconds=8)
            if number % 2:
                await new.goodbye()
            await new.lose_connection()
            assert await old.ids() == ["old-a"]
            await old.heartbeat()


@pytest.mark.parametrize("stand", [STABLE], indirect=True)
async def test_a_group_without_stable_members_takes_everybody_at_once(stand: Stand, new: Member) -> None:
    """As at the start of a group, or after one of its broker."""
    members = [Member(stand, f"early-{letter}") for letter in "xyz"]
    for member in members:
        await member.heartbeat()
        await stand.world.run_for(seconds=2)
    assert await new.ids() == ["early-x", "early-y", "early-z"]
    await stand.world.run_for(ms=STABLE_MS)
    await new.heartbeat()
    assert await new.ids() == ["early-x", "early-y", "early-z"]
    for member in members:
        await member.pool.close()


@pytest.mark.parametrize("stand", [STABLE], indirect=True)
@pytest.mark.parametrize("way", ["goodbye", "lose_connection"])
async def test_who_waits_counts_at_once_when_the_last_stable_member_has_gone(
    stand: Stand, old: Member, new: Member, way: str
) -> None:
    await new.heartbeat()
    await getattr(old, way)()
    await stand.world.run_for(ms=5)
    assert new.reported == [GROUP]
    assert await new.ids() == ["new-b"]


@ON_BOTH
async def test_members_that_are_away_do_not_keep_a_newcomer_waiting(stand: Stand, old: Member, new: Member) -> None:
    """There is nobody who consumes."""
    await old.lose_connection()
    await new.heartbeat()
    assert await new.ids() == ["new-b", "old-a"]


@pytest.mark.parametrize("stand", [STABLE], indirect=True)
async def test_the_subscription_of_who_waits_is_not_the_groups(stand: Stand, old: Member, new: Member) -> None:
    with nobody_is_told(old):
        await new.heartbeat(topics=("orders", "bills"), consume_from_where="CONSUME_FROM_TIMESTAMP")
        group = stand.services["broker-a"].tables.groups.consumers.consumer_table[GROUP]
        assert list(group.subscriptions) == ["orders"]
        assert group.consume_from_where != "CONSUME_FROM_TIMESTAMP"
    await stand.world.run_for(ms=STABLE_MS + 500)
    assert sorted(group.subscriptions) == ["bills", "orders"]
    assert group.consume_from_where == "CONSUME_FROM_TIMESTAMP"


# -- grace time --------------------------------------------------------------------------------------------------------


@ON_BOTH
async def test_a_member_that_is_back_within_the_grace_time_was_never_gone(
    stand: Stand, old: Member, new: Member
) -> None:
    await new.heartbeat()
    await pass_time(stand, STABLE_MS + 500, old, new)
    with nobody_is_told(old, new):
        await new.lose_connection()
        await stand.world.run_for(ms=GRACE_MS - 500)
        assert await old.ids() == ["old-a", "new-b"]
        await new.heartbeat()
        await stand.world.run_for(ms=GRACE_MS * 2)
        assert await old.ids() == ["old-a", "new-b"]


@ON_BOTH
async def test_a_member_that_is_not_back_by_then_has_left_and_waits_when_it_comes(
    stand: Stand, old: Member, new: Member
) -> None:
    await new.heartbeat()
    await pass_time(stand, STABLE_MS + 500, old, new)
    await new.lose_connection()
    await stand.world.run_for(ms=GRACE_MS + 500)
    assert await old.ids() == ["old-a"]
    assert old.reported == [GROUP]
    await new.heartbeat()
    assert await old.ids() == ["old-a"]


@ON_BOTH
async def test_a_goodbye_counts_at_once(stand: Stand, old: Member, new: Member) -> None:
    await new.heartbeat()
    await pass_time(stand, STABLE_MS + 500, old, new)
    await new.goodbye()
    await stand.world.run_for(ms=5)
    assert (await old.ids(), old.reported) == (["old-a"], [GROUP])


@pytest.mark.parametrize("stand", [GRACE], indirect=True)
async def test_a_goodbye_after_a_lost_connection_counts_at_once(stand: Stand, old: Member, new: Member) -> None:
    await new.heartbeat()
    await new.lose_connection()
    assert await old.ids() == ["old-a", "new-b"]
    await new.goodbye()
    assert await old.ids() == ["old-a"]


@ON_BOTH
async def test_who_waits_has_no_grace(stand: Stand, old: Member, new: Member) -> None:
    with nobody_is_told(old):
        await new.heartbeat()
        await stand.world.run_for(ms=STABLE_MS - 2_000)
        await new.lose_connection()
        await new.heartbeat()
        await stand.world.run_for(ms=STABLE_MS - 500)
        assert await old.ids() == ["old-a"]


@ON_BOTH
async def test_all_members_that_lose_their_connections_together_come_back_as_they_were(
    stand: Stand, old: Member, new: Member
) -> None:
    await new.heartbeat()
    await pass_time(stand, STABLE_MS + 500, old, new)
    await old.lose_connection()
    await new.lose_connection()
    with nobody_is_told(old):
        await new.heartbeat()
        assert await old.ids() == ["new-b", "old-a"]
        await old.heartbeat()
        assert await old.ids() == ["new-b", "old-a"]


@pytest.mark.parametrize("stand", [GRACE], indirect=True)
async def test_a_connection_that_was_lost_unnoticed_changes_nothing_when_its_client_has_another(
    stand: Stand, old: Member, new: Member
) -> None:
    await new.heartbeat()
    half_open = new.pool
    new.pool = Member(stand, "new-b").pool
    await new.heartbeat()
    await pass_time(stand, 1_000, old)
    with nobody_is_told(old):
        await half_open.close()
        await stand.world.run_for(ms=GRACE_MS * 2)
        assert await old.ids() == ["old-a", "new-b"]


@ON_BOTH
async def test_a_reset_forgets_who_is_away(stand: Stand, old: Member, new: Member) -> None:
    await new.heartbeat()
    await pass_time(stand, STABLE_MS + 500, old, new)
    await new.lose_connection()
    assert (await stand.ask(stand.brokers["broker-a"], Reset())).code == 0
    assert await old.ids() == ["old-a"]


# -- how it is set -----------------------------------------------------------------------------------------------------


async def create(stand: Stand, **attributes: str) -> None:
    config = SubscriptionGroupConfig(
        GROUP, attributes={name.replace("_", "-"): text for name, text in attributes.items()}
    )
    async with Admin(NAMESERVER, machine=stand.world.machine("program")) as admin:
        await admin.create_group(config)


@pytest.mark.parametrize("stand", [{"stable_time_ms": 600_000}], indirect=True)
async def test_a_groups_own_time_comes_before_the_brokers(stand: Stand, old: Member, new: Member) -> None:
    await create(stand, stableTimeMs="5000")
    await new.heartbeat()
    assert await old.ids() == ["old-a"]
    await stand.world.run_for(ms=5_500)
    assert await old.ids() == ["old-a", "new-b"]


async def test_it_can_be_turned_on_and_off_while_members_are_there(stand: Stand, old: Member, new: Member) -> None:
    broker = stand.brokers["broker-a"]
    for text in ("stableTimeMs=60000", "graceTimeMs=60000"):
        assert (await stand.ask(broker, UpdateBrokerConfig(body=text.encode()))).code == 0
    await stand.world.run_for(ms=STABLE_MS)
    await new.heartbeat()
    assert await old.ids() == ["old-a"]
    assert (await stand.ask(broker, UpdateBrokerConfig(body=b"stableTimeMs=0"))).code == 0
    await stand.world.run_for(ms=300)
    assert await old.ids() == ["old-a", "new-b"]
    await new.lose_connection()
    assert await old.ids() == ["old-a", "new-b"]


async def test_attributes_stay_until_they_are_removed(stand: Stand) -> None:
    def attributes() -> dict[str, str]:
        return stand.services["broker-a"].tables.groups.configs.groups[GROUP].attributes

    await create(stand, stableTimeMs="5000", graceTimeMs="1000")
    await create(stand)
    assert attributes() == {"stableTimeMs": "5000", "graceTimeMs": "1000"}
    await create(stand, _stableTimeMs="")
    assert attributes() == {"graceTimeMs": "1000"}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("stableTimeMs", "-1", r"value is not in range\(0, 600000\): stableTimeMs=-1"),
        ("graceTimeMs", "600001", r"value is not in range\(0, 600000\): graceTimeMs=600001"),
        ("graceTimeMs", "soon", r"value is not in range\(0, 600000\): graceTimeMs=soon"),
        ("graceTimeMs", "9" * 5_000, r"value is not in range\(0, 600000\): graceTimeMs=9{20} "),
        ("stable", "1", "unsupported key: stable"),
        ("_stable", "", "attempt to delete a nonexistent key: stable"),
        ("_graceTimeMs", "", "attempt to delete a nonexistent key: graceTimeMs"),
    ],
)
async def test_attributes_that_mean_nothing_are_refused_in_rocketmqs_words(
    stand: Stand, name: str, text: str, words: str
) -> None:
    await create(stand)
    with pytest.raises(BrokerAnswer, match=words):
        await create(stand, **{name: text})


def test_a_file_with_times_that_cannot_be_is_refused() -> None:
    table = GroupTable(BrokerSettings(), lambda: MessageMs(0), lambda: None)
    table.put(SubscriptionGroupConfig(GROUP, attributes={"stableTimeMs": "soon"}))
    with pytest.raises(BrokerAnswer, match=r"stableTimeMs=soon"):
        table.restore(table.snapshot())
