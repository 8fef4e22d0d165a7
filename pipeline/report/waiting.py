"""The section about how long messages waited to be consumed, and about the course of the run. Pure."""

from collections.abc import Sequence
from math import log10
from typing import Any

from staticfire.pipeline.jobs.answers import Answers, Consumer, Latency, Series
from staticfire.pipeline.report.page import Column, Plot, Section, Table, duration_text, number_text

MARKED = (0.5, 0.9, 0.99)


def waiting_section(answers: Answers, note: str = "") -> Section:
    """Return the section about the time from stored to consumed."""
    title = "From stored to consumed"
    latency, series = answers.latency, answers.series
    if latency is None:
        return Section(title, note or "There are no records of when messages were consumed.")
    words = (
        f"Half of {number_text(latency.measured)} messages were handled within {duration_text(latency.p50_ms)} of "
        f"being stored, 99 % within {duration_text(latency.p99_ms)}; the slowest took {duration_text(latency.max_ms)}. "
        f"Only messages that succeeded at the first attempt are counted. {note}"
    )
    parts: list[Plot | Table] = [_curve(latency)]
    if series is not None and len(series.moments) > 1:
        parts += [_flow(series, answers.consumers), _over_time(series)]
    return Section(title, words.strip(), [*parts, _latency_table(latency), _consumer_table(answers.consumers)])


def _curve(latency: Latency) -> Plot:
    """Return the share of messages by the time that they took. The axis starts at 1 ms, since a logarithm has no 0."""
    last = len(latency.curve_ms) - 1
    waited_ms = [max(1.0, round(value, 1)) for value in latency.curve_ms]
    share = [round(100 * point / last, 2) for point in range(last + 1)]
    marks: list[dict[str, Any]] = []
    for part, value in zip(MARKED, (latency.p50_ms, latency.p90_ms, latency.p99_ms), strict=True):
        marks.append({"x": [max(1.0, value)], "y": [part * 100], "text": [f"p{part * 100:g}: {duration_text(value)}"]})
    line = {"x": waited_ms, "y": share, "type": "scatter", "mode": "lines", "line": {"color": "@1", "width": 2.5},
            "hovertemplate": "%{y:.1f} % within %{x:,.0f} ms<extra></extra>", "showlegend": False}  # fmt: skip
    points = [
        mark | {
            "type": "scatter", "mode": "markers+text", "textposition": "top left", "cliponaxis": False,
            "marker": {"color": "@2", "size": 9}, "hoverinfo": "skip", "showlegend": False,
        }
        for mark in marks
    ]  # fmt: skip
    high = round(log10(3 * max(10.0, latency.max_ms)), 3)
    return Plot(
        "latency-curve",
        "Share of messages that were consumed within a time",
        "Cumulative distribution, logarithmic time axis. The further left the curve rises, the sooner messages were "
        "consumed. Dots mark p50, p90 and p99.",
        [line, *points],
        {
            "xaxis": {"title": {"text": "time from stored to consumed (ms)"}, "type": "log", "range": [0, high],
                      "dtick": 1, "exponentformat": "none", "tickformat": ",d"},
            "yaxis": {"title": {"text": "messages (%)"}, "range": [0, 112],
                      "tickvals": [0, 20, 40, 60, 80, 100], "ticksuffix": " %"},
        },
        alt_text=f"p50 {duration_text(latency.p50_ms)}, p90 {duration_text(latency.p90_ms)}, "
        f"p99 {duration_text(latency.p99_ms)}, slowest {duration_text(latency.max_ms)}",
    )  # fmt: skip


def _flow(series: Series, consumers: Sequence[Consumer]) -> Plot:
    seconds = [moment.after_ms / 1_000 for moment in series.moments]
    per_s = 1_000 / series.span_ms
    stored = [round(moment.stored * per_s, 1) for moment in series.moments]
    handled = [round(moment.handled * per_s, 1) for moment in series.moments]
    waiting, held = [], 0
    for moment in series.moments:
        held += moment.stored - moment.handled
        waiting.append(held)
    hover = "%{y:,.0f} at %{x:.1f} s<extra>%{fullData.name}</extra>"
    return Plot(
        "flow",
        "Stored, handled, and waiting in between",
        f"Messages per second in spans of {duration_text(series.span_ms)}, and below the number of messages that were "
        "stored but not handled yet, including messages that always fail. Dotted lines: a consumer left or joined.",
        [
            _line(seconds, stored, "stored per second", "@1", hover),
            _line(seconds, handled, "handled per second", "@2", hover),
            _line(seconds, waiting, "waiting", "@3", hover) | {"yaxis": "y2", "fill": "tozeroy"},
        ],
        {
            "xaxis": {"title": {"text": "time since the first message was stored (s)"}, "anchor": "y2"},
            "yaxis": {"title": {"text": "messages per s"}, "domain": [0.42, 1], "rangemode": "tozero"},
            "yaxis2": {"title": {"text": "messages"}, "domain": [0, 0.32], "rangemode": "tozero"},
            "hovermode": "x unified",
            **_events(series, consumers),
        },
        height_px=460,
    )


def _line(x: list[float], y: list[Any], name: str, colour: str, hover: str) -> dict[str, Any]:
    return {"x": x, "y": y, "name": name, "type": "scatter", "mode": "lines", "line": {"color": colour, "width": 2},
            "hovertemplate": hover}  # fmt: skip


def _events(series: Series, consumers: Sequence[Consumer]) -> dict[str, Any]:
    """Return lines where a consumer joined late or left early. Less than a tenth of the run doesn't count."""
    began_ms = min((consumer.first_ms for consumer in consumers), default=series.began_ms)
    end_ms = series.began_ms + len(series.moments) * series.span_ms
    margin_ms = (end_ms - began_ms) // 10
    shapes: list[dict[str, Any]] = []
    words: list[dict[str, Any]] = []
    for consumer in consumers:
        events = []
        if consumer.first_ms > began_ms + margin_ms:
            events.append((consumer.first_ms, f"{consumer.name} joins"))
        if consumer.last_ms < end_ms - margin_ms:
            events.append((consumer.last_ms, f"{consumer.name} is gone"))
        for at_ms, text in events:
            x = (at_ms - series.began_ms) / 1_000
            shapes.append({"type": "line", "xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1,
                           "line": {"color": "@muted", "width": 1, "dash": "dot"}})  # fmt: skip
            words.append({"x": x, "y": 1, "xref": "x", "yref": "paper", "text": text, "showarrow": False,
                          "xanchor": "left", "yanchor": "top", "xshift": 4, "yshift": -14 * len(words),
                          "font": {"size": 11, "color": "@soft"}})  # fmt: skip
    return {"shapes": shapes, "annotations": words}


def _over_time(series: Series) -> Plot:
    known = [moment for moment in series.moments if moment.p50_ms is not None and moment.p99_ms is not None]
    seconds = [moment.after_ms / 1_000 for moment in known]
    hover = "%{y:,.0f} ms at %{x:.1f} s<extra>%{fullData.name}</extra>"
    return Plot(
        "latency-over-time",
        "Time to consumption over the run",
        f"Of the messages that were stored in each span of {duration_text(series.span_ms)}: half were consumed within "
        "p50, 99 % within p99.",
        [
            _line(seconds, [round(moment.p50_ms or 0, 1) for moment in known], "p50", "@1", hover),
            _line(seconds, [round(moment.p99_ms or 0, 1) for moment in known], "p99", "@2", hover),
        ],
        {
            "xaxis": {"title": {"text": "time since the first message was stored (s)"}},
            "yaxis": {"title": {"text": "stored to consumed (ms)"}, "rangemode": "tozero", "tickformat": ",d"},
            "hovermode": "x unified",
        },
        height_px=320,
    )


def _latency_table(latency: Latency) -> Table:
    names = ["messages", "p50", "p90", "p99", "slowest"]
    columns = [Column(name, True, unit="" if name == "messages" else "ms") for name in names]
    row = [latency.measured, latency.p50_ms, latency.p90_ms, latency.p99_ms, latency.max_ms]
    return Table("From stored to consumed, in numbers", columns, [row])


def _consumer_table(consumers: Sequence[Consumer]) -> Table:
    first_ms = min((consumer.first_ms for consumer in consumers), default=0)
    columns = [
        Column("consumer"), Column("handled", True), Column("failed attempts", True),
        Column("first attempt", True, 1, "s"), Column("last attempt", True, 1, "s"),
    ]  # fmt: skip
    rows = [
        (one.name, one.handled, one.failed, (one.first_ms - first_ms) / 1_000, (one.last_ms - first_ms) / 1_000)
        for one in consumers
    ]
    return Table("Consumers", columns, rows, "Times are real time since the group's first attempt.", folded=True)
