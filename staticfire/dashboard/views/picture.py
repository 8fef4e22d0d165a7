"""The picture of a group: a lane for each member, with a tile for each queue that it has. Pure.

Tiles have an id and a place. When a queue moves to another member, the browser moves its tile there.
"""

from typing import Any, NamedTuple

TILE_WIDTH, TILE_HEIGHT, GAP = 46, 34, 6
LANE_TITLE, LANE_SPACE, MARGIN = 22, 14, 8
COLUMNS = 14
COLOURS = 8
QUEUES_MAX = 400
NO_MEMBER = ""


class Tile(NamedTuple):
    """A queue, at its place."""

    id: str
    x: int
    y: int
    label: str
    title: str
    colour: int
    fill: int
    """The height of its backlog, in the tile."""
    lag: int


class MemberLane(NamedTuple):
    """A member, or the queues that no member has."""

    id: str
    client: str
    name: str
    y: int
    height: int
    words: str
    has_problem: bool


class Picture(NamedTuple):
    """The lanes and tiles of a group."""

    width: int
    height: int
    lanes: list[MemberLane]
    tiles: list[Tile]
    topics: list[tuple[str, int]]
    """The topics and their colours."""
    left_out: int
    words: str
    """The same for screen readers."""


def picture_of(view: dict[str, Any], names: dict[str, str]) -> Picture:
    """Return the picture of a response of GET /group/{group}. `names`: of the members, as they are shown."""
    owned = {one["topic"] for one in view["progress"] if one["owners"]}
    # A queue that changes its member has none for a moment. Without a committed offset, its tile would go and come.
    queues = [one for one in view["progress"] if one["hasBegun"] or one["topic"] in owned]
    shown = sorted(queues, key=lambda one: (one["topic"], one["brokerName"], one["queueId"]))[:QUEUES_MAX]
    topics = list(dict.fromkeys(one["topic"] for one in shown))
    most = max((one["lag"] for one in shown), default=0)
    held: dict[str, list[dict[str, Any]]] = {one["clientId"]: [] for one in view["members"]}
    for one in shown:
        for owner in one["owners"] or [NO_MEMBER]:
            held.setdefault(owner, []).append(one)
    silent = {one["clientId"]: one["silence"] or ("" if one["counts"] else "waits") for one in view["members"]}
    lanes: list[MemberLane] = []
    tiles: list[Tile] = []
    seen: set[str] = set()
    y = MARGIN
    for client in sorted(held, key=lambda one: (one == NO_MEMBER, names.get(one, one))):
        mine = held[client]
        rows = max(1, -(-len(mine) // COLUMNS))
        height = LANE_TITLE + rows * (TILE_HEIGHT + GAP) + GAP
        lanes.append(_lane(client, names.get(client, client), y, height, mine, silent.get(client, "")))
        for place, queue in enumerate(mine):
            row, column = divmod(place, COLUMNS)
            x, top = MARGIN + GAP + column * (TILE_WIDTH + GAP), y + LANE_TITLE + row * (TILE_HEIGHT + GAP)
            tiles.append(_tile(queue, x, top, topics.index(queue["topic"]), most, seen))
        y += height + LANE_SPACE
    width = 2 * MARGIN + GAP + COLUMNS * (TILE_WIDTH + GAP)
    words = "; ".join(f"{lane.name or 'no member'}: {lane.words}" for lane in lanes)
    colours = [(topic, place % COLOURS) for place, topic in enumerate(topics)]
    tiles.sort(key=lambda one: one.id)
    return Picture(width, y, lanes, tiles, colours, len(queues) - len(shown), words)


def _lane(client: str, name: str, y: int, height: int, mine: list[dict[str, Any]], problem: str) -> MemberLane:
    count = len(mine)
    words = f"{count} queue{'' if count == 1 else 's'}, lag {sum(one['lag'] for one in mine):,}"
    if client == NO_MEMBER:
        return MemberLane("lane-none", "", "", y, height, f"no member has {words}", has_problem=True)
    return MemberLane(
        f"lane-{client}", client, name, y, height, f"{words}{f', {problem}' if problem else ''}", bool(problem)
    )


def _tile(queue: dict[str, Any], x: int, y: int, topic: int, most: int, seen: set[str]) -> Tile:
    place = f"{queue['topic']} {queue['brokerName']}/{queue['queueId']}"
    tile_id = f"tile-{place}"
    while tile_id in seen:  # Several members have it.
        tile_id += "+"
    seen.add(tile_id)
    lag = queue["lag"]
    fill = max(3, round((TILE_HEIGHT - 4) * lag / most)) if lag else 0
    label = f"{queue['brokerName'].removeprefix('broker-')}/{queue['queueId']}"
    return Tile(tile_id, x, y, label[:7], f"{place}: lag {lag:,}", topic % COLOURS, fill, lag)
