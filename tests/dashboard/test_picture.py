"""The picture of a group: lanes of members, tiles of queues."""

from typing import Any

from staticfire.dashboard.views.groups import name_places
from staticfire.dashboard.views.picture import COLUMNS, QUEUES_MAX, picture_of


def queue(number: int, *owners: str, lag: int = 0, topic: str = "orders") -> dict[str, Any]:
    place = {"topic": topic, "brokerName": "broker-a", "queueId": number}
    return {**place, "owners": list(owners), "lag": lag, "hasBegun": True}


def group(members: list[str], *queues: dict[str, Any]) -> dict[str, Any]:
    return {
        "members": [{"clientId": one, "silence": "", "counts": True} for one in members],
        "progress": list(queues),
    }


def test_each_queue_is_in_the_lane_of_its_member() -> None:
    view = group(["a", "b"], queue(0, "a"), queue(1, "b"), queue(2, "b"))
    picture = picture_of(view, {"a": "a", "b": "b"})
    lanes = {lane.client: lane for lane in picture.lanes}
    assert (lanes["a"].words, lanes["b"].words) == ("1 queue, lag 0", "2 queues, lag 0")
    for tile in picture.tiles:
        owner = "a" if tile.id.endswith("/0") else "b"
        assert lanes[owner].y < tile.y < lanes[owner].y + lanes[owner].height


def test_a_queue_keeps_its_id_when_it_moves() -> None:
    before = picture_of(group(["a", "b"], queue(0, "a")), {})
    after = picture_of(group(["a", "b"], queue(0, "b")), {})
    assert [tile.id for tile in before.tiles] == [tile.id for tile in after.tiles]
    assert before.tiles[0].y < after.tiles[0].y


def test_a_queue_without_a_member_has_a_lane_of_its_own_and_it_is_the_last() -> None:
    picture = picture_of(group(["a"], queue(0, "a"), queue(1, lag=3)), {})
    assert [lane.client for lane in picture.lanes] == ["a", ""]
    assert picture.lanes[1].has_problem
    assert picture.words == "a: 1 queue, lag 0; no member: no member has 1 queue, lag 3"


def test_a_queue_that_has_not_begun_is_shown_if_a_member_has_another_one_of_its_topic() -> None:
    new = {**queue(1), "hasBegun": False}
    tiles = picture_of(group(["a"], queue(0, "a"), new), {}).tiles
    assert [tile.id for tile in tiles] == ["tile-orders broker-a/0", "tile-orders broker-a/1"]
    assert not picture_of(group(["a"], new), {}).tiles


def test_a_queue_of_two_members_has_two_tiles_with_different_ids() -> None:
    picture = picture_of(group(["a", "b"], queue(0, "a", "b")), {})
    assert len({tile.id for tile in picture.tiles}) == 2


def test_many_queues_are_in_rows_and_the_rest_is_counted() -> None:
    picture = picture_of(group(["a"], *(queue(number, "a") for number in range(QUEUES_MAX + 7))), {})
    assert (len(picture.tiles), picture.left_out) == (QUEUES_MAX, 7)
    assert len({tile.x for tile in picture.tiles}) == COLUMNS
    assert max(tile.y for tile in picture.tiles) < picture.height


def test_members_have_short_names_only_if_these_differ() -> None:
    assert name_places([{"clientId": "10.0.0.1@x"}, {"clientId": "10.0.0.1@y"}]) == {
        "10.0.0.1@x": "x", "10.0.0.1@y": "y",
    }  # fmt: skip
    assert set(name_places([{"clientId": "10.0.0.1@x"}, {"clientId": "10.0.0.2@x"}]).values()) == {
        "10.0.0.1@x", "10.0.0.2@x",
    }  # fmt: skip
