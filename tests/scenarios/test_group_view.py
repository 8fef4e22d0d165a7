"""A consumer group looked at from all sides: who is in it, what each member has, how far it has come, what is wrong."""

from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio

from staticfire.client import (
    ClientSettings,
    ConsumeStatus,
    GroupMember,
    GroupNotFound,
    GroupView,
    JournalRecord,
    Message,
    OrderedStatus,
    PushConsumer,
    PushSettings,
    QueueProgress,
)
from staticfire.client.admin.group_view import FLAPPING_MS, flapping, warnings_of
from staticfire.protocol.requests.journal import GOODBYE
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC, Heard, Shop, forever
from tests.scenarios.receiving import receive_all, simple

ON = {"journal_enable": True}


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    shop = Shop(world, getattr(request, "param", ClientSettings()), broker_settings=dict(ON))
    yield await shop.open(brokers=2, queues=2)
    await shop.close()


async def settled(world: SimulatedWorld, shop: Shop) -> GroupView:
    await world.run_for(seconds=25)
    return await shop.admin.group(GROUP)


def kinds(view: GroupView) -> list[str]:
    return [warning.kind for warning in view.warnings]


@BOTH_PROTOCOLS
@pytest.mark.row("R9")
async def test_what_each_member_holds_and_how_far_the_group_has_come(world: SimulatedWorld, shop: Shop) -> None:
    one, two = await shop.start("one"), await shop.start("two")
    for number in range(40):
        await shop.producer.send(Message(TOPIC, b"%d" % number))
    view = await settled(world, shop)
    assert (view.group, view.brokers, view.message_model) == (GROUP, ["broker-a", "broker-b"], "CLUSTERING")
    assert [member.client_id for member in view.members] == sorted([one.client.client_id, two.client.client_id])
    held = {member.client_id: [(q.topic, q.broker_name, q.queue_id) for q in member.queues] for member in view.members}
    assert held == {c.client.client_id: [tuple(q) for q in c.assignment] for c in (one, two)}
    assert (view.lag, view.warnings, view.dead_letters) == (0, [], 0)
    of_topic = [queue for queue in view.progress if queue.topic == TOPIC]
    assert sum(queue.committed for queue in of_topic) == sum(queue.end for queue in of_topic) == 40
    assert all(len(queue.owners) == 1 for queue in of_topic)
    assert {member.in_order for member in view.members} == {False}
    assert all(member.subscriptions[TOPIC] == "*" for member in view.members)
    assert sum(member.consumption[TOPIC].consume_ok_tps for member in view.members) > 0
    assert view.consume_tps > 0
    shown = view.as_json()
    assert (shown["lag"], shown["progress"][0]["lag"], shown["members"][0]["clientId"]) == (
        0,
        0,
        view.members[0].client_id,
    )


@BOTH_PROTOCOLS
async def test_a_group_that_is_behind_says_where(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one", forever, pull_batch_size=4)
    await shop.send(*[b"x"] * 10, queue=1)
    view = await settled(world, shop)
    (behind,) = [queue for queue in view.progress if queue.lag]
    assert (behind.topic, behind.broker_name, behind.queue_id, behind.lag, behind.inflight) == (
        (TOPIC, "broker-a", 1, 10, 10)
    )
    assert view.lag == 10
    (member,) = view.members
    assert sum(queue.cached for queue in member.queues) == 10


@BOTH_PROTOCOLS
async def test_what_is_popped_and_not_acknowledged_is_in_flight_and_behind_until_it_is(
    world: SimulatedWorld, shop: Shop
) -> None:
    await shop.send(*[b"x"] * 5, queue=1)
    taker = await world.start("taker", simple(shop, "taker"))
    taken = await taker.receive(3, invisible_ms=20_000)
    await taker.ack(taken[1])
    assert await standing(shop) == {TOPIC: (4, 2)}
    await shop.advance(hours=1)
    assert await standing(shop) == {TOPIC: (2, 0), f"%RETRY%{GROUP}_{TOPIC}": (2, 0)}
    again = await receive_all(taker, 4)
    assert await standing(shop) == {TOPIC: (2, 2), f"%RETRY%{GROUP}_{TOPIC}": (2, 2)}
    for message in again:
        await taker.ack(message)
    assert await standing(shop) == {}
    assert kinds(await shop.admin.group(GROUP)) == []


async def standing(shop: Shop) -> dict[str, tuple[int, int]]:
    """Return how far the group is behind, and how much of that is in flight, by topic."""
    progress = (await shop.admin.group(GROUP)).progress
    return {one.topic: (one.lag, one.inflight) for one in progress if one.lag}


@BOTH_PROTOCOLS
async def test_an_unknown_group_and_one_without_members(world: SimulatedWorld, shop: Shop) -> None:
    with pytest.raises(GroupNotFound, match="no broker knows group billing"):
        await shop.admin.group(GROUP)
    await shop.start("one")
    await shop.send(b"1", b"2", queue=0)
    await shop.until_heard(2)
    await world.stop("one")
    await shop.send(b"3", queue=0)
    view = await shop.admin.group(GROUP)
    assert (view.members, view.lag, view.warnings) == ([], 1, [])


@BOTH_PROTOCOLS
async def test_dead_letters_are_counted(world: SimulatedWorld, shop: Shop) -> None:
    async def hopeless(heard: Heard) -> ConsumeStatus:
        heard.context.delay_level_when_next_consume = -1
        return ConsumeStatus.RECONSUME_LATER

    await shop.start("one", hopeless)
    await shop.send(b"1", b"2")
    assert (await settled(world, shop)).dead_letters == 2


@pytest.mark.row("O5")
@BOTH_PROTOCOLS
async def test_members_that_contradict_each_other_are_reported(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one", expression="paid")
    ordered = PushConsumer(GROUP, NAMESRV, PushSettings(client=shop.settings), world.machine("ordered", "10.0.3.9"))
    ordered.subscribe(TOPIC, "refunded")
    ordered.ordered_listener(lambda messages, context: OrderedStatus.SUCCESS)
    await world.start("ordered", ordered)
    view = await settled(world, shop)
    assert {"MIXED_LISTENERS", "DIFFERENT_SUBSCRIPTIONS"} <= set(kinds(view))
    words = " ".join(warning.words for warning in view.warnings)
    assert ordered.client.client_id in words
    assert "[paid]" in words
    assert {member.in_order for member in view.members} == {True, False}
    assert any(queue.locked for member in view.members for queue in member.queues)


async def test_a_silent_member_is_reported_and_the_others_are_shown(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one")
    two = await shop.start("two")
    await world.run_for(seconds=5)
    world.partition("two", "broker-a")
    world.partition("two", "broker-b")
    view = await shop.admin.group(GROUP)
    (silent,) = [member for member in view.members if member.silence]
    assert (silent.client_id, silent.silence) == (two.client.client_id, "no response within 5000 ms")
    assert kinds(view) == ["SILENT_MEMBER"]
    assert any(member.queues for member in view.members)


@pytest.mark.parametrize("skew_ms", [0, 86_400_000])
async def test_a_member_that_comes_and_goes_is_reported(world: SimulatedWorld, shop: Shop, skew_ms: int) -> None:
    """Whatever the clock of the administrator's machine shows."""
    world.skew("shop", skew_ms)
    await shop.start("steady")
    settings = PushSettings(client=ClientSettings(instance_name="flapper"))
    for _ in range(4):
        consumer = PushConsumer(GROUP, NAMESRV, settings, world.machine("flapper", "10.0.3.9"))
        consumer.subscribe(TOPIC)
        consumer.listener(lambda messages, context: ConsumeStatus.CONSUME_SUCCESS)
        await world.start("flapper", consumer)
        await world.run_for(seconds=10)
        await world.stop("flapper")
    view = await settled(world, shop)
    assert kinds(view) == ["FLAPPING_MEMBERS"]
    assert "10.0.3.9@flapper has joined 4 times in 10 minutes" in view.warnings[0].words
    await world.run_for(seconds=700)
    assert kinds(await shop.admin.group(GROUP)) == []


# -- pure --------------------------------------------------------------------------------------------------------------


def member(client_id: str, in_order: bool | None = False, expression: str = "*", **fields: object) -> GroupMember:
    return GroupMember(
        client_id,
        "10.0.0.9:5",
        "JAVA",
        "479",
        in_order=in_order,
        subscriptions={TOPIC: expression},
        **fields,  # type: ignore[arg-type]
    )


def view_of(*members: GroupMember, progress: Sequence[QueueProgress] = (), model: str = "CLUSTERING") -> GroupView:
    return GroupView(GROUP, ["broker-a"], message_model=model, members=list(members), progress=list(progress))


@pytest.mark.row("O5")
def test_where_brokers_look_for_nothing_it_is_put_together_from_what_members_say() -> None:
    found = warnings_of(view_of(member("a", True), member("b", False, "paid"), member("c", None)), None)
    assert [(one.kind, one.words) for one in found] == [
        ("MIXED_LISTENERS", "in order: a; in any order: b: the order isn't guaranteed"),
        (
            "DIFFERENT_SUBSCRIPTIONS",
            "members have different subscriptions to topic orders, [*]: a, c; [paid]: b: messages are skipped",
        ),
    ]
    assert warnings_of(view_of(member("a"), member("b")), None) == []
    reported = warnings_of(view_of(member("a", True), member("b", False)), {("SAME_CLIENT_ID", "a"): "twice"})
    assert [one.words for one in reported] == ["twice"]


def test_queues_without_an_owner_or_with_several_are_reported_but_not_in_broadcasting() -> None:
    progress = [QueueProgress(TOPIC, "broker-a", number, 0, 0, 0, 0, ["a", "b"][:number]) for number in range(3)]
    members = [member("a"), member("b")]
    assert [one.words for one in warnings_of(view_of(*members, progress=progress), {})] == [
        "orders broker-a/0: no member has it",
        "several members have orders broker-a/2",
    ]
    assert warnings_of(view_of(*members, progress=progress, model="BROADCASTING"), {}) == []
    assert warnings_of(view_of(progress=progress), {}) == []


def test_a_waiting_member_is_reported() -> None:
    (reported,) = warnings_of(view_of(member("a"), member("b", counts=False)), {})
    assert (reported.kind, "stableTimeMs" in reported.words) == ("WAITING_MEMBER", True)


async def test_a_program_that_is_started_several_times_by_hand_is_no_flapping_member(
    world: SimulatedWorld, shop: Shop
) -> None:
    for number in range(4):
        settings = PushSettings(client=ClientSettings(instance_name=f"run-{number}"))
        consumer = PushConsumer(GROUP, NAMESRV, settings, world.machine("by-hand", "10.0.3.9"))
        consumer.subscribe(TOPIC)
        consumer.listener(lambda messages, context: ConsumeStatus.CONSUME_SUCCESS)
        await world.start("by-hand", consumer)
        await world.run_for(seconds=10)
        await world.stop("by-hand")
    assert kinds(await shop.admin.group(GROUP)) == []


def comings(kind: str, *clients: str, real_ms: int = 1_000_000, **details: object) -> list[JournalRecord]:
    return [JournalRecord(1, "broker-a", kind, 0, real_ms, client, GROUP, details=details) for client in clients]


@pytest.mark.parametrize(
    ("records", "members", "reported"),
    [
        (comings("joined", *["10.0.0.1@a"] * 3), [], []),
        (comings("joined", *["10.0.0.1@a"] * 4), [], ["10.0.0.1@a has joined 4 times in 10 minutes"]),
        (comings("joined", *["10.0.0.1@a"] * 4, real_ms=1_000_000 - FLAPPING_MS - 1), [], []),
        # Each time it has another id.
        (comings("left", "10.0.0.1@1", "10.0.0.1@2"), [], []),
        (
            comings("left", "10.0.0.1@1", "10.0.0.1@2", "10.0.0.1@3"),
            ["10.0.0.2@x"],
            ["members on 10.0.0.1 have left 3"],
        ),
        # A rolling restart of five members on one host.
        (comings("left", *(f"10.0.0.1@{n}" for n in range(5))), [f"10.0.0.1@{n}" for n in range(5, 10)], []),
        # Each time it was the only member and unregistered, or it crashed.
        (comings("left", "10.0.0.1@1", "10.0.0.1@2", "10.0.0.1@3", reason=GOODBYE, members=0), [], []),
        (
            comings("left", "10.0.0.1@1", "10.0.0.1@2", "10.0.0.1@3", reason="connection lost", members=0),
            [],
            ["members on 10.0.0.1 have left 3"],
        ),
        # Told once.
        (comings("joined", *["h@a"] * 4) + comings("left", *["h@a"] * 4), [], ["h@a has joined 4 times"]),
    ],
)
def test_flapping_is_distinguished_from_a_restart(
    records: list[JournalRecord], members: list[str], reported: list[str]
) -> None:
    found = flapping(records, members, 1_000_000)
    assert len(found) == len(reported)
    assert all(one.words.startswith(begin) for one, begin in zip(found, reported, strict=True))
