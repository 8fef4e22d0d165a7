"""The sections about the owners of queues: a timeline, a map of members and queues over time, rebalances. Pure."""

from collections.abc import Sequence
from typing import Any

from staticfire.pipeline.consumption.findings import ConsumptionFindings, Overlap, QueueHolding, Rebalance
from staticfire.pipeline.report.page import Column, Plot, Section, Table, duration_text, number_text

QUEUES_SHOWN_MAX = 40
CONSUMERS_SHOWN_MAX = 16
MAP_PARTS = 60
_SHADES = ("@1", "@2", "@3", "@4")
_PATTERNS = ("", "/", "x", ".")


def ownership_section(findings: ConsumptionFindings) -> Section:
    """Return the section about the owners of queues."""
    title = "Owners of the queues over time"
    if not findings.holdings:
        return Section(title, "No owner of a queue is known.")
    intro = (
        "From the brokers' journals: a member owns a queue from its first pull until the first pull of another member, "
        "or until the broker misses its heartbeats."
        if findings.has_journal
        else "From the calls of listeners: a member owns a queue from its first call to its last call before another "
        "member's call."
    )
    parts: list[Plot | Table] = []
    for number, group in enumerate(dict.fromkeys(one.group for one in findings.holdings)):
        own = [one for one in findings.holdings if one.group == group]
        parts += [_timeline(own, findings.ended_ms, group, number), _map(own, findings.ended_ms, group, number)]
    parts += [_holding_table(findings), _rebalance_table(findings.rebalances)]
    if findings.overlaps:
        parts.append(_overlap_table(findings.overlaps))
    left_out = findings.holdings_left_out
    more = f" {number_text(left_out)} more are in the table `ownership`." if left_out else ""
    return Section(title, intro + more, parts)


def _name_of(consumer: str) -> str:
    return consumer if len(consumer) <= 28 else f"{consumer[:14]}…{consumer[-13:]}"


def _timeline(holdings: Sequence[QueueHolding], ended_ms: int, group: str, number: int) -> Plot:
    queues = sorted({one.queue for one in holdings})[:QUEUES_SHOWN_MAX]
    consumers = list(dict.fromkeys(one.consumer for one in holdings))
    traces: list[dict[str, Any]] = []
    for place, consumer in enumerate(consumers[:CONSUMERS_SHOWN_MAX]):
        own = [one for one in holdings if one.consumer == consumer and one.queue in queues]
        ends = [ended_ms if one.to_ms is None else one.to_ms for one in own]
        traces.append(
            {
                "type": "bar", "orientation": "h", "y": [one.queue for one in own],
                "base": [round(one.from_ms / 1_000, 3) for one in own],
                "x": [round(max(1, end - one.from_ms) / 1_000, 3) for one, end in zip(own, ends, strict=True)],
                "name": _name_of(consumer), "offsetgroup": "all",
                "marker": {"color": _SHADES[place % 4], "pattern": {"shape": _PATTERNS[place // 4 % 4]}},
                "text": [_name_of(consumer)] * len(own), "textposition": "none",
                "hovertemplate": f"%{{y}}: {_safe(consumer)}, from %{{base:.1f}} s for %{{x:.1f}} s<extra></extra>",
            }
        )  # fmt: skip
    return Plot(
        f"owners-{number}",
        f"Owners of the queues of {group}",
        "Each row is a queue; each bar shows its owner, and for how long. In a gap, the queue had no owner.",
        traces,
        {
            "xaxis": {"title": {"text": "time since the first message was stored (s)"}},
            "yaxis": {"title": {"text": "queue"}, "autorange": "reversed", "type": "category"},
            "barmode": "overlay", "showlegend": len(traces) > 1,
        },
        alt_text=f"{len(consumers)} members had {len(queues)} queues; the table of owners lists them.",
        height_px=150 + 22 * len(queues),
    )  # fmt: skip


def _safe(text: str) -> str:
    """Escape a text for a hover text, which is a plotly template with some HTML."""
    return text.replace("%", "%25").replace("<", "&lt;").replace("{", "(")


def _map(holdings: Sequence[QueueHolding], ended_ms: int, group: str, number: int) -> Plot:
    """Return the plot of how many queues each member had in each part of the run."""
    consumers = list(dict.fromkeys(one.consumer for one in holdings))[:QUEUES_SHOWN_MAX]
    part_ms = max(1, -(-max(1, ended_ms) // MAP_PARTS))
    counts = [[0] * MAP_PARTS for _ in consumers]
    names: list[list[list[str]]] = [[[] for _ in range(MAP_PARTS)] for _ in consumers]
    for one in holdings:
        if one.consumer not in consumers:
            continue
        row = consumers.index(one.consumer)
        end = ended_ms if one.to_ms is None else one.to_ms
        for part in range(max(0, one.from_ms // part_ms), min(MAP_PARTS - 1, max(0, end - 1) // part_ms) + 1):
            if one.queue not in names[row][part]:
                names[row][part].append(one.queue)
                counts[row][part] += 1
    text = [["<br>".join(map(_safe, sorted(cell)[:8])) or "none" for cell in row] for row in names]
    trace = {
        "type": "heatmap", "z": counts, "text": text,
        "x": [round(part * part_ms / 1_000, 1) for part in range(MAP_PARTS)],
        "y": [_name_of(consumer) for consumer in consumers], "colorscale": "@scale", "zmin": 0,
        "hovertemplate": "%{y} at %{x} s: %{z} queues<br>%{text}<extra></extra>", "ygap": 2,
        "colorbar": {"title": {"text": "queues", "side": "right"}, "thickness": 12, "outlinewidth": 0},
    }  # fmt: skip
    return Plot(
        f"members-{number}",
        f"Members of {group} and how many queues they had",
        f"Each cell is {duration_text(part_ms)} of a member: the darker (on a dark page: the lighter), the more queues "
        "it had. Point at a cell to see them.",
        [trace],
        {
            "xaxis": {"title": {"text": "time since the first message was stored (s)"}, "showgrid": False},
            "yaxis": {"title": {"text": "member"}, "autorange": "reversed", "type": "category", "showgrid": False},
        },
        alt_text="The table of owners contains the same data.",
        height_px=150 + 30 * len(consumers),
    )


def _holding_table(findings: ConsumptionFindings) -> Table:
    columns = [Column("group"), Column("queue"), Column("member"), Column("from", True, 1, "s"),
               Column("to", True, 1, "s")]  # fmt: skip
    rows = [
        (one.group, one.queue, one.consumer, one.from_ms / 1_000, None if one.to_ms is None else one.to_ms / 1_000)
        for one in findings.holdings
    ]
    return Table("Owners in numbers", columns, rows, "A dash means: until the end of the data.", folded=True)


def _rebalance_table(rebalances: Sequence[Rebalance]) -> Table:
    columns = [Column("group"), Column("at", True, 1, "s"), Column("queues", True), Column("to members", True),
               Column("took", True, 0, "ms"), Column("last member that joined or left")]  # fmt: skip
    rows = [
        (one.group, one.at_ms / 1_000, one.queues, one.members, one.took_ms, one.cause or "–") for one in rebalances
    ]
    return Table("Rebalances", columns, rows, "Queues that changed their owner within two seconds of each other.")


def _overlap_table(overlaps: Sequence[Overlap]) -> Table:
    columns = [Column("group"), Column("queue"), Column("calls", True), Column("longest", True, 0, "ms")]
    rows = [(one.group, one.queue, one.calls, one.max_ms) for one in overlaps]
    caption = "Calls for a queue that began while another member's call for it still ran."
    return Table("Two at once", columns, rows, caption)
