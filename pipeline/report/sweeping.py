"""The page of a sweep: the effects of the varied settings, as spreads, trade-offs and notable runs. Pure."""

from collections.abc import Sequence
from typing import Any

from staticfire.pipeline.report.page import (
    Column,
    KeyFigure,
    Page,
    Plot,
    Section,
    Table,
    duration_text,
    number_text,
)
from staticfire.pipeline.sweep.figures import Combination, Spread, SweepFigures

TRADES = (
    ("trade-duplicates", "duplicates", "take_over_p50_ms", "Duplicates against take-over time",
     "Further left: fewer messages were delivered twice. Lower: another member continued with a queue sooner."),
    ("trade-idle", "idle_ms", "duplicates", "Idle time against duplicates",
     "Idle: a message waits and no member works on its queue, summed over all queues and groups of a run."),
)  # fmt: skip
SPREADS = (
    ("duplicates", "Duplicates", "messages handled again, per run"),
    ("take_over_p50_ms", "Take-over time", "middle one of a run (ms)"),
    ("idle_ms", "Idle time", "per run, over all queues (ms)"),
    ("latency_p99_ms", "Slowest messages", "p99 from acknowledged to handled (ms)"),
)
WORDS = {
    "duplicates": "duplicates per run",
    "take_over_p50_ms": "take-over time (ms)",
    "idle_ms": "idle time per run (ms)",
}
COLOURS = ("@1", "@2", "@3", "@4")


def sweep_page(figures: SweepFigures, workload: str, hours: float, foot: str) -> Page:
    """Return the whole page."""
    varied = " and ".join(name.replace("_", " ") for name in figures.names) or "nothing but the seed"
    length = duration_text(hours * 3_600_000)
    subtitle = f"{number_text(figures.runs)} simulated clusters, {length} each, with {varied} varied."
    sections = [_trade_section(figures), _spread_section(figures)]
    sections += [_value_section(figures, index) for index in range(len(figures.names))]
    sections.append(_notable_section(figures))
    return Page(f"Sweep of {workload}", subtitle, _key_figures(figures), sections, foot)


def label(figures: SweepFigures, one: Combination) -> str:
    """Return a combination as text: `rebalance_interval_ms=1000, group_protection=off`."""
    return ", ".join(f"{name}={value}" for name, value in zip(figures.names, one.values, strict=True)) or "all runs"


def _key_figures(figures: SweepFigures) -> list[KeyFigure]:
    per_core = figures.virtual_ms / figures.cpu_s / 60_000 if figures.cpu_s else 0.0
    return [
        KeyFigure("runs", number_text(figures.runs), f"{number_text(len(figures.combinations))} combinations"),
        KeyFigure("promises broken", number_text(figures.failed), "runs in which a checker reported a problem"),
        KeyFigure("errors", number_text(figures.errors), "rows without a run"),
        KeyFigure("simulated", duration_text(figures.virtual_ms), f"{per_core:,.1f} min per second of a core"),
    ]


def _trade_section(figures: SweepFigures) -> Section:
    plots = [plot for plot in (_trade(figures, *trade) for trade in TRADES) if plot is not None]
    words = (
        "Each point is the mean of a combination's runs. All combinations played the same seeds, with the same planned "
        "faults. Bars reach from the lower to the upper quartile."
    )
    return Section("Trade-offs", words, [*plots, _table(figures)])


def _trade(figures: SweepFigures, name: str, across: str, up: str, title: str, caption: str) -> Plot | None:
    values = list(dict.fromkeys(one.values[-1] if one.values else "" for one in figures.combinations))
    traces: list[dict[str, Any]] = []
    for number, value in enumerate(values):
        points = [one for one in figures.combinations if not one.values or one.values[-1] == value]
        known = [(one, one.spreads.get(across), one.spreads.get(up)) for one in points]
        pairs = [(one, x, y) for one, x, y in known if x is not None and y is not None]
        if pairs:
            traces.append(_points(figures, pairs, value, COLOURS[number % len(COLOURS)]))
    if not traces:
        return None
    layout = {
        "xaxis": {"title": {"text": WORDS[across]}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": WORDS[up]}, "rangemode": "tozero"},
        "showlegend": len(traces) > 1,
    }
    return Plot(name, title, caption, traces, layout, alt_text="The table below has the same numbers.")


def _points(
    figures: SweepFigures, pairs: Sequence[tuple[Combination, Spread, Spread]], value: str, colour: str
) -> dict[str, Any]:
    def bars(spreads: list[Spread]) -> dict[str, Any]:
        return {"type": "data", "symmetric": False, "thickness": 1, "width": 3, "color": colour,
                "array": [round(max(0, one.q3 - one.mean), 2) for one in spreads],
                "arrayminus": [round(max(0, one.mean - one.q1), 2) for one in spreads]}  # fmt: skip

    named = f"{figures.names[-1]}={value}" if figures.names else "all runs"
    return {
        "x": [round(x.mean, 2) for _, x, _ in pairs], "y": [round(y.mean, 2) for _, _, y in pairs],
        "text": [label(figures, one) for one, _, _ in pairs], "name": named, "type": "scatter", "mode": "markers",
        "marker": {"size": 11, "color": colour}, "error_x": bars([x for _, x, _ in pairs]),
        "error_y": bars([y for _, _, y in pairs]),
        "hovertemplate": "%{text}: %{x:,.1f}, %{y:,.1f}<extra></extra>",
    }  # fmt: skip


def _spread_section(figures: SweepFigures) -> Section:
    words = (
        "The distribution of a measure over the runs of each combination: minimum, quartiles, maximum; dashed is the "
        "mean."
    )
    plots = [_boxes(figures, *spread) for spread in SPREADS]
    return Section("From run to run", words, [plot for plot in plots if plot is not None])


def _boxes(figures: SweepFigures, measure: str, title: str, unit: str) -> Plot | None:
    known = [(label(figures, one), one.spreads.get(measure)) for one in figures.combinations]
    found = [(name, spread) for name, spread in reversed(known) if spread is not None]
    if not found:
        return None
    spreads = [spread for _, spread in found]
    trace = {
        "type": "box", "orientation": "h", "y": [name.replace(", ", "<br>") for name, _ in found],
        "lowerfence": [one.low for one in spreads], "q1": [one.q1 for one in spreads],
        "median": [one.median for one in spreads], "q3": [one.q3 for one in spreads],
        "upperfence": [one.high for one in spreads], "mean": [round(one.mean, 2) for one in spreads],
        "boxmean": True, "line": {"color": "@1"}, "showlegend": False, "name": title,
    }  # fmt: skip
    alt_text = "; ".join(f"{name}: middle {spread.median:,.0f}, most {spread.high:,.0f}" for name, spread in found)
    short = "ms" if "(ms)" in unit else "messages"  # A narrow page has no room for more.
    layout = {"xaxis": {"title": {"text": short}, "rangemode": "tozero"}, "yaxis": {"title": {"text": ""}}}
    return Plot(f"spread-{measure}", title, f"{title}: {unit}.", [trace], layout, alt_text, 110 + 44 * len(found))


def _table(figures: SweepFigures) -> Table:
    columns = [*(Column(name) for name in figures.names), Column("runs", True), Column("failed", True)]
    columns += [Column("duplicates", True, 2, "mean"), Column("take-over", True, 0, "ms, mean"),
                Column("longest take-over", True, 0, "ms"), Column("idle", True, 0, "ms, mean"),
                Column("two at once", True, 0, "ms, mean"), Column("p50", True, 0, "ms, mean"),
                Column("p99", True, 0, "ms, mean")]  # fmt: skip
    return Table("Combinations in numbers", columns, [_line(one) for one in figures.combinations])


def _line(one: Combination) -> list[Any]:
    def mean(name: str) -> float | None:
        spread = one.spreads.get(name)
        return None if spread is None else spread.mean

    longest = one.spreads.get("take_over_max_ms")
    return [
        *one.values, one.runs, one.failed, mean("duplicates"), mean("take_over_p50_ms"),
        None if longest is None else longest.high, mean("idle_ms"), mean("overlap_ms"), mean("latency_p50_ms"),
        mean("latency_p99_ms"),
    ]  # fmt: skip


def _value_section(figures: SweepFigures, index: int) -> Section:
    """Return the effect of one varied setting, over all values of the others."""
    name = figures.names[index]
    columns = [Column(name), Column("runs", True), Column("duplicates", True, 2, "mean"),
               Column("take-over", True, 0, "ms, mean"), Column("idle", True, 0, "ms, mean")]  # fmt: skip
    rows = []
    for value in dict.fromkeys(one.values[index] for one in figures.combinations):
        own = [one for one in figures.combinations if one.values[index] == value]
        means = [_mean(own, measure) for measure in ("duplicates", "take_over_p50_ms", "idle_ms")]
        rows.append([value, sum(one.runs for one in own), *means])
    return Section(f"What {name} does", "", [Table(f"{name}, over all values of the others", columns, rows)])


def _mean(combinations: Sequence[Combination], measure: str) -> float | None:
    known = [(one.runs, spread.mean) for one in combinations if (spread := one.spreads.get(measure)) is not None]
    return sum(runs * mean for runs, mean in known) / sum(runs for runs, _ in known) if known else None


def _notable_section(figures: SweepFigures) -> Section:
    columns = [Column("why"), *(Column(name) for name in figures.names), Column("seed", True), Column("what"),
               Column("again")]  # fmt: skip
    rows = [[one.why, *one.values, str(one.seed), one.words, one.command] for one in figures.notable]
    words = "Each command repeats its run; add `--trace` to write a page with its timeline."
    if not rows:
        return Section("Runs to look at", "No run is remarkable.")
    return Section("Runs to look at", words, [Table("Runs and the commands that repeat them", columns, rows)])
