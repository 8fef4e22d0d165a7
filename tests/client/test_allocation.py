"""Sharing queues among the members of a group."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from staticfire.client import (
    AVERAGELY,
    AVERAGELY_BY_CIRCLE,
    AllocateStrategy,
    ByConfig,
    ClientError,
    ConsistentHash,
    MachineRoom,
    MessageQueue,
    NearbyMachineRoom,
    RoomPrefix,
    UsageError,
)
from tests.allocation.cases import Case, read_cases

pytestmark = pytest.mark.row("R3")

ROOMS = ["east", "west", "north"]
NEARBY = NearbyMachineRoom(RoomPrefix("@"))
STRATEGIES: list[AllocateStrategy] = [
    AVERAGELY,
    AVERAGELY_BY_CIRCLE,
    ConsistentHash(),
    MachineRoom(ROOMS),
    NEARBY,
    NearbyMachineRoom(RoomPrefix("@"), ConsistentHash(3)),
]
EACH = pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
BY_NAME: dict[str, AllocateStrategy] = {
    "AVG": AVERAGELY,
    "AVG_BY_CIRCLE": AVERAGELY_BY_CIRCLE,
    "CONSISTENT_HASH": ConsistentHash(),
}
CASES = read_cases()


def queues_of(brokers: int, each: int) -> list[MessageQueue]:
    return sorted(
        MessageQueue("orders", f"{ROOMS[at % 3]}@broker-{'abcdefgh'[at]}", number)
        for at in range(brokers)
        for number in range(each)
    )


def members(count: int) -> list[str]:
    return sorted(f"{ROOMS[number % 2]}@{number}" for number in range(count))


def shares(strategy: AllocateStrategy, queues: list[MessageQueue], ids: list[str]) -> list[list[int]]:
    """Return for each member the places of its queues."""
    return [[queues.index(queue) for queue in strategy.allocate("billing", who, queues, ids)] for who in ids]


# -- as RocketMQ's classes answer --------------------------------------------------------------------------------------


def strategy_of(case: Case) -> AllocateStrategy:
    if case.strategy == "CONSISTENT_HASH":
        return ConsistentHash(int(case.option))
    if case.strategy == "MACHINE_ROOM":
        return MachineRoom(case.option.split(","))
    if case.strategy == "MACHINE_ROOM_NEARBY":
        return NearbyMachineRoom(RoomPrefix(), BY_NAME[case.option])
    if case.strategy == "CONFIG":
        return ByConfig(case.queues[int(place)] for place in case.option.split(","))
    return BY_NAME[case.strategy]


@pytest.mark.parametrize("name", sorted({case.strategy for case in CASES}))
def test_each_member_gets_what_rocketmqs_own_classes_give_it(name: str) -> None:
    cases = [case for case in CASES if case.strategy == name]
    assert len(cases) >= 80
    for case in cases:
        found = shares(strategy_of(case), case.queues, case.members)
        assert found == case.owned, replace(case, owned=[])


def test_there_are_enough_of_rocketmqs_answers() -> None:
    assert len(CASES) >= 500
    assert len({(case.strategy, case.option, str(case.brokers), str(case.members)) for case in CASES}) > 500


# -- one by one --------------------------------------------------------------------------------------------------------


def test_five_brokers_with_two_queues_among_three() -> None:
    assert shares(AVERAGELY, queues_of(5, 2), members(3)) == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]


@pytest.mark.parametrize(
    ("queue_count", "member_count", "sizes"),
    [(11, 3, [4, 4, 3]), (10, 2, [5, 5]), (8, 3, [3, 3, 2]), (2, 4, [1, 1, 0, 0]), (4, 4, [1, 1, 1, 1])],
)
def test_blocks_differ_by_one_at_most(queue_count: int, member_count: int, sizes: list[int]) -> None:
    assert [len(share) for share in shares(AVERAGELY, queues_of(1, queue_count), members(member_count))] == sizes


def test_by_circle_deals_them_out() -> None:
    assert shares(AVERAGELY_BY_CIRCLE, queues_of(5, 2), members(3)) == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]


def test_queue_ids_compare_as_numbers() -> None:
    queues = [MessageQueue("orders", "broker-a", number) for number in (10, 9, 2, 1)]
    assert [queue.queue_id for queue in sorted(queues)] == [1, 2, 9, 10]


def test_by_config_each_has_what_it_was_given_of_the_topic() -> None:
    queues = queues_of(1, 4)
    gone = MessageQueue("orders", "broker-z", 0)
    strategy = ByConfig([queues[3], queues[1], gone, MessageQueue("bills", *queues[0][1:])])
    assert strategy.allocate("billing", "whoever", queues, ["somebody else"]) == [queues[1], queues[3]]


def test_by_config_the_groups_retries_are_shared_unless_they_are_configured_too() -> None:
    retries = [MessageQueue("%RETRY%billing", "broker-a", number) for number in range(3)]
    assert shares(ByConfig([]), retries, members(2)) == [[0, 1], [2]]
    as_in_rocketmq = ByConfig(retries[:1], retries=None)
    assert shares(as_in_rocketmq, retries, members(2)) == [[0], [0]]


def test_nearby_members_share_their_own_room_and_all_share_deserted_ones() -> None:
    queues = queues_of(3, 2)  # Of east, north and west.
    assert shares(NEARBY, queues, ["east@1", "west@1", "west@2"]) == [[0, 1, 2], [4, 3], [5]]
    assert shares(NEARBY, queues, ["north@1"]) == [[2, 3, 0, 1, 4, 5]]


@pytest.mark.parametrize(("broker", "member", "who"), [("b", "east@1", "broker b"), ("east@b", "1", "member 1")])
def test_nearby_everybody_needs_a_room(broker: str, member: str, who: str) -> None:
    with pytest.raises(ClientError, match=f"the machine room of {who} is unknown"):
        NEARBY.allocate("billing", member, [MessageQueue("orders", broker, 0)], [member])


@pytest.mark.parametrize("rooms", [[], "east"])
def test_machine_rooms_are_named_one_by_one(rooms: list[str] | str) -> None:
    with pytest.raises(UsageError, match=r'as in MachineRoom\(\["east"\]\)'):
        MachineRoom(rooms)


@pytest.mark.parametrize("virtual_nodes", [-1, 0, 10_001])
def test_a_member_has_some_places_on_the_ring(virtual_nodes: int) -> None:
    with pytest.raises(UsageError, match=f"virtual_nodes={virtual_nodes}: allowed are 1 to 10,000"):
        ConsistentHash(virtual_nodes)


def test_the_hash_of_the_ring_can_be_ones_own() -> None:
    def place_of(key: str) -> int:
        return int(key[-2]) if key.startswith("MessageQueue") else {"a-0": 1, "b-0": 3}[key]

    queues = queues_of(1, 5)
    assert shares(ConsistentHash(1, place_of), queues, ["a", "b"]) == [[0, 1, 4], [2, 3]]


# -- all of them -------------------------------------------------------------------------------------------------------

BROKERS, EACH_HAS, MEMBERS = st.integers(1, 8), st.integers(1, 12), st.integers(1, 24)


@EACH
@given(brokers=BROKERS, each=EACH_HAS, member_count=MEMBERS)
def test_every_queue_has_one_owner(strategy: AllocateStrategy, brokers: int, each: int, member_count: int) -> None:
    owned = [place for share in shares(strategy, queues_of(brokers, each), members(member_count)) for place in share]
    assert sorted(owned) == list(range(brokers * each))


def moved(strategy: AllocateStrategy, brokers: int, each: int, count: int, leaver: int) -> int:
    """Return how many queues change their owner when one member leaves, besides those that it had."""
    queues, ids = queues_of(brokers, each), members(count)
    gone = ids[leaver % count]
    before = owners(strategy, queues, ids)
    after = owners(strategy, queues, [member for member in ids if member != gone])
    return sum(before[queue] not in (gone, after[queue]) for queue in queues)


def owners(strategy: AllocateStrategy, queues: list[MessageQueue], ids: list[str]) -> dict[MessageQueue, str]:
    return {queue: who for who in ids for queue in strategy.allocate("billing", who, queues, ids)}


@given(brokers=BROKERS, each=EACH_HAS, count=st.integers(2, 40), leaver=st.integers(0, 39))
@pytest.mark.slow
def test_by_consistent_hash_nothing_moves_but_what_the_leaver_had(
    brokers: int, each: int, count: int, leaver: int
) -> None:
    assert moved(ConsistentHash(), brokers, each, count, leaver) == 0


@pytest.mark.parametrize("strategy", STRATEGIES[:4], ids=lambda strategy: strategy.name)
@given(brokers=BROKERS, each=EACH_HAS, count=st.integers(2, 40), leaver=st.integers(0, 39))
def test_who_stays_has_no_fewer_queues(
    strategy: AllocateStrategy, brokers: int, each: int, count: int, leaver: int
) -> None:
    queues, ids = queues_of(brokers, each), members(count)
    staying = [member for member in ids if member != ids[leaver % count]]
    for member in staying:
        before = strategy.allocate("billing", member, queues, ids)
        assert len(strategy.allocate("billing", member, queues, staying)) >= len(before)


def test_what_a_leaver_costs_by_each_strategy() -> None:
    """120 queues of five members, of which the middle one leaves: how many of the others' queues move."""
    cost = {strategy.name: moved(strategy, 6, 20, 5, 2) for strategy in STRATEGIES[:4]}
    assert cost == {"AVG": 12, "AVG_BY_CIRCLE": 72, "CONSISTENT_HASH": 0, "MACHINE_ROOM": 12}


@given(queue_count=st.integers(1, 60), member_count=st.integers(1, 70))
def test_blocks_are_rocketmqs(queue_count: int, member_count: int) -> None:
    """The formula of AllocateMessageQueueAveragely, as it stands there."""
    more = queue_count % member_count
    for index, share in enumerate(shares(AVERAGELY, queues_of(1, queue_count), members(member_count))):
        size = 1 if queue_count <= member_count else queue_count // member_count + (1 if more and index < more else 0)
        start = index * size if more and index < more else index * size + more
        assert share == list(range(start, start + max(0, min(size, queue_count - start))))


@EACH
def test_who_is_no_member_gets_nothing(strategy: AllocateStrategy) -> None:
    assert strategy.allocate("billing", "east@9", queues_of(1, 4), members(2)) == []


@EACH
def test_nothing_to_share_is_an_error(strategy: AllocateStrategy) -> None:
    for who, queues, ids in [("", queues_of(1, 1), ["a"]), ("a", [], ["a"]), ("a", queues_of(1, 1), [])]:
        with pytest.raises(ClientError, match="nothing to allocate"):
            strategy.allocate("billing", who, queues, ids)
