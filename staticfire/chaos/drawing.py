"""The drawing of a run: a lane for each queue and for each client, with what the brokers saw. Pure."""

from collections.abc import Iterator, Sequence
from html import escape
from operator import itemgetter

from staticfire.chaos.evidence import Evidence, QueuePlace, commits_in
from staticfire.chaos.injection import InjectedFault
from staticfire.protocol.properties import KEYS
from staticfire.protocol.requests import journal as kinds

LEFT, WIDTH, LANE = 260, 1100, 22
# Names of faults that would overlap are put in up to this number of rows.
LABEL_ROWS_MAX, LABEL_HEIGHT, CHARACTER_WIDTH = 6, 13, 7
# The space between the names and the first lane.
HEAD = 28
# With more marks, browsers scroll the page slowly.
MARKS_MAX = 4_000
LANES_MAX = 120


class Drawing:
    """Draws one run as SVG. `highlighted`: the unique ids of messages that are drawn in another color."""

    def __init__(self, evidence: Evidence, highlighted: list[str]) -> None:
        self._evidence = evidence
        self._marked = {
            (place, offset) for (place, offset), one in evidence.by_place.items() if one.message_id in set(highlighted)
        }
        places = sorted({place for _, place in evidence.deliveries} | {place for place, _ in self._marked})
        clients = sorted({one.client for ones in evidence.deliveries.values() for one in ones})
        lanes: list[QueuePlace | str] = list(places)
        lanes += clients
        self._from_ms = evidence.began_ms
        self._span_ms = max(1, evidence.ended_ms - evidence.began_ms)
        self._spans = sorted(
            ((self._x(at), self._x(until), injected) for at, until, injected in _spans(evidence)), key=itemgetter(0)
        )
        self._rows = label_rows([(x, injected.fault.kind) for x, _, injected in self._spans])
        self._top = HEAD + LABEL_HEIGHT * (1 + max(self._rows, default=0))
        self._lanes = {lane: self._top + index * LANE for index, lane in enumerate(lanes[:LANES_MAX])}

    def svg(self) -> str:
        """Return the drawing."""
        height = self._top + len(self._lanes) * LANE + 30
        marks = [*self._scale(height), *self._names(), *self._faults(height), *self._members()]
        marks += [*self._deliveries(), *self._commits(), *self._stored()][:MARKS_MAX]
        return f'<svg viewBox="0 0 {LEFT + WIDTH + 20} {height}" role="img">{"".join(marks)}</svg>'

    def _x(self, real_ms: int) -> float:
        share = (real_ms - self._from_ms) / self._span_ms
        return LEFT + WIDTH * min(1.0, max(0.0, share))

    def _scale(self, height: int) -> list[str]:
        step_ms = next(step for step in (100, 500, 1_000, 5_000, 10_000, 60_000, 600_000) if self._span_ms / step <= 20)
        return [
            f'<line class=scale x1="{x:.1f}" x2="{x:.1f}" y1="{self._top - 12}" y2="{height - 20}"/>'
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
        """Draw each fault as a band over its time, and each hit of a rule as a thin one."""
        found = []
        for (x, until, injected), row in zip(self._spans, self._rows, strict=True):
            found.append(
                f'<rect class=fault x="{x:.1f}" y="{self._top - 12}" width="{max(3, until - x):.1f}" '
                f'height="{height - self._top - 8}"><title>{escape(injected.fault.command)}</title></rect>'
                f'<text class=fault x="{x:.1f}" y="{self._top - 18 - row * LABEL_HEIGHT}">{escape(injected.fault.kind)}'
                "</text>"
            )
        return found

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
                is_marked = any(
                    (place, offset) in self._marked for offset in range(one.first, min(one.end, one.first + 64))
                )
                words = (
                    f"{place.topic}/{place.queue_id}: {one.first} to {one.end - 1} delivered to {one.client} in {group}"
                )
                found.append(
                    f'<g class="delivery{" highlighted" * is_marked}"><title>{escape(words)}</title>'
                    f'<path d="M{x:.1f} {y}V{to}"/><circle cx="{x:.1f}" cy="{y}" r="4"/>'
                    f'<circle cx="{x:.1f}" cy="{to}" r="4"/></g>'
                )
        return found

    def _stored(self) -> list[str]:
        found = []
        # Those of a broken promise come last, so that no other ring covers them.
        for (place, offset), one in sorted(self._evidence.by_place.items(), key=lambda item: item[0] in self._marked):
            if place in self._lanes:
                x, y = self._x(one.stored_ms), self._lanes[place]
                words = f"stored in {place.topic}/{place.queue_id} at {offset}: {one.get(KEYS) or one.message_id}"
                is_marked = (place, offset) in self._marked
                found.append(
                    f'<circle class="stored{" highlighted" * is_marked}" cx="{x:.1f}" cy="{y}" r="5">'
                    f"<title>{escape(words)}</title></circle>"
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


def label_rows(labels: Sequence[tuple[float, str]]) -> list[int]:
    """Return a row for each label, from its left edge and its text, so that no two overlap. They are sorted by edge."""
    ends = [0.0] * LABEL_ROWS_MAX
    rows = []
    for x, text in labels:
        row = next((row for row, end in enumerate(ends) if end <= x), LABEL_ROWS_MAX - 1)
        ends[row] = x + (len(text) + 1) * CHARACTER_WIDTH
        rows.append(row)
    return rows


def _spans(evidence: Evidence) -> Iterator[tuple[int, int, InjectedFault]]:
    """Yield from when to when each fault lasted; for a rule, the moment of each of its hits."""
    for injected in evidence.injected:
        if injected.hits and injected.at_ms:
            yield injected.at_ms, injected.until_ms, injected
        elif injected.hits:
            for hit_ms in evidence.hits_of(injected):
                yield hit_ms, hit_ms, injected
