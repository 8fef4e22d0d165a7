"""The drawing of a run: a lane for each queue and for each client, with what the brokers saw. Pure."""

from html import escape

from staticfire.chaos.evidence import Evidence, QueuePlace, commits_in
from staticfire.chaos.striking import Struck
from staticfire.protocol.requests import journal as kinds

LEFT, WIDTH, LANE, TOP = 260, 1100, 22, 40
# More marks than these make a page that no browser scrolls well.
MARKS_MAX = 4_000
LANES_MAX = 120


class Drawing:
    """Draws one run as SVG. `told`: the unique ids of messages to highlight."""

    def __init__(self, evidence: Evidence, told: list[str]) -> None:
        self._evidence = evidence
        self._told = {
            (place, offset) for (place, offset), one in evidence.by_place.items() if one.message_id in set(told)
        }
        places = sorted({place for _, place in evidence.deliveries} | {place for place, _ in self._told})
        clients = sorted({one.client for ones in evidence.deliveries.values() for one in ones})
        lanes: list[QueuePlace | str] = [*places, *clients][:LANES_MAX]
        self._lanes: dict[QueuePlace | str, int] = {lane: TOP + index * LANE for index, lane in enumerate(lanes)}
        self._from_ms = evidence.began_ms
        self._span_ms = max(1, evidence.ended_ms - evidence.began_ms)

    def svg(self) -> str:
        """Return the drawing."""
        height = TOP + len(self._lanes) * LANE + 30
        marks = [*self._scale(height), *self._names(), *self._faults(height), *self._members()]
        marks += [*self._deliveries(), *self._commits()][:MARKS_MAX]
        return f'<svg viewBox="0 0 {LEFT + WIDTH + 20} {height}" role="img">{"".join(marks)}</svg>'

    def _x(self, real_ms: int) -> float:
        share = (real_ms - self._from_ms) / self._span_ms
        return LEFT + WIDTH * min(1.0, max(0.0, share))

    def _scale(self, height: int) -> list[str]:
        step_ms = next(step for step in (100, 500, 1_000, 5_000, 10_000, 60_000, 600_000) if self._span_ms / step <= 20)
        return [
            f'<line class=scale x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 12}" y2="{height - 20}"/>'
            f'<text class=scale x="{x:.1f}" y="{height - 6}">{ms / 1_000:g} s</text>'
            for ms in range(0, self._span_ms, step_ms)
            for x in [self._x(self._from_ms + ms)]
        ]

    def _names(self) -> list[str]:
        found = []
        for lane, y in self._lanes.items():
            words = f"{lane.topic} {lane.broker}/{lane.queue_id}" if isinstance(lane, QueuePlace) else lane
            kind = "queue" if isinstance(lane, QueuePlace) else "client"
            found.append(f'<text class="{kind}" x="{LEFT - 8}" y="{y + 4}">{escape(words[-40:])}</text>')
            found.append(f'<line class=lane x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y}" y2="{y}"/>')
        return found

    def _faults(self, height: int) -> list[str]:
        return [self._fault(struck, height) for struck in self._evidence.struck if struck.hits and struck.at_ms]

    def _fault(self, struck: Struck, height: int) -> str:
        x, until = self._x(struck.at_ms), self._x(struck.until_ms)
        return (
            f'<rect class=fault x="{x:.1f}" y="{TOP - 12}" width="{max(3, until - x):.1f}" height="{height - TOP - 8}">'
            f"<title>{escape(struck.strike.command)}</title></rect>"
            f'<text class=fault x="{x:.1f}" y="{TOP - 18}">{escape(struck.strike.kind)}</text>'
        )

    def _members(self) -> list[str]:
        """Draw when a client joined and left."""
        found = []
        for event in self._evidence.events:
            if event.kind in (kinds.JOINED, kinds.LEFT) and event.client in self._lanes:
                x, y = self._x(event.real_ms), self._lanes[event.client]
                words = f"{event.client} {event.kind} {event.group}"
                found.append(f'<path class={event.kind} d="M{x:.1f} {y - 7}v14"><title>{escape(words)}</title></path>')
        return found

    def _deliveries(self) -> list[str]:
        found = []
        for (group, place), deliveries in self._evidence.deliveries.items():
            for one in deliveries:
                if place not in self._lanes or one.client not in self._lanes:
                    continue
                x, y, to = self._x(one.real_ms), self._lanes[place], self._lanes[one.client]
                is_told = any(
                    (place, offset) in self._told for offset in range(one.first, min(one.end, one.first + 64))
                )
                words = (
                    f"{place.topic}/{place.queue_id}: {one.first} to {one.end - 1} delivered to {one.client} in {group}"
                )
                found.append(
                    f'<g class="delivery{" told" * is_told}"><title>{escape(words)}</title>'
                    f'<path d="M{x:.1f} {y}V{to}"/><circle cx="{x:.1f}" cy="{y}" r="4"/>'
                    f'<circle cx="{x:.1f}" cy="{to}" r="4"/></g>'
                )
        return found

    def _commits(self) -> list[str]:
        found = []
        seen: dict[tuple[str, QueuePlace], int] = {}
        for group, place, offset, one in commits_in(self._evidence.requests):
            if place in self._lanes and seen.get((group, place)) != offset:
                seen[group, place] = offset
                x, y = self._x(one.real_ms), self._lanes[place]
                words = f"{one.client} commits {offset} for {group}"
                found.append(
                    f'<path class=commit d="M{x - 4:.1f} {y + 8}l4 -8l4 8z"><title>{escape(words)}</title></path>'
                )
        return found
