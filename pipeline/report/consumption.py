"""The sections about consumption: how long messages waited, how the run went, what was tried again. Pure."""

from collections.abc import Sequence
from typing import Any

from staticfire.pipeline.jobs.answers import Answers, Consumer, Latency, Series, Try
from staticfire.pipeline.report.page import Column, Plot, Section, Table, duration_text, number_text
from staticfire.protocol.delay_levels import DEFAULT_DELAY_LEVELS, retry_level

MS_OF_MINUTE = 60_000
MARKED = (0.5, 0.9, 0.99)
ROAD_TICKS_MS = {
    10_000: "10 s", 60_000: "1 min", 600_000: "10 min", 3_600_000: "1 h", 14_400_000: "4 h", 86_400_000: "1 day",
}  # fmt: skip


def waiting_section(answers: Answers, note: str = "") -> Section:
    """Return how long messages took from stored to consumed, and how that came."""
    title = "From stored to consumed"
    latency, series = answers.latency, answers.series
    if latency is None:
        return Section(title, note or "Nobody wrote down when messages were consumed, so there is nothing to tell.")
    words = (
        f"Half of {number_text(latency.measured)} messages were handled within {duration_text(latency.p50_ms)} of "
        f"being stored, 99 % within {duration_text(latency.p99_ms)}; the slowest took {duration_text(latency.max_ms)}. "
        f"Counted are first attempts that succeeded. {note}"
    )
    parts: list[Plot | Table] = [_curve(latency)]
    if series is not None and len(series.moments) > 1:
        parts += [_flow(series, answers.consumers), _over_time(series)]
    return Section(title, words.strip(), [*parts, _latency_table(latency), _consumer_table(answers.consumers)])


def retry_section(answers: Answers, group: str) -> Section:
    """Return what was tried again, and the road to the dead letters."""
    tries, dead = answers.tries, answers.dead
    returned = [one for one in tries if one.times > 0]
    if not returned and not dead.letters:
        return Section("Retries", f"No message of {group} had to be tried again.")
    words = (
        f"A message that can't be handled goes back to its broker, waits there and comes again, longer each time. "
        f"{number_text(max((one.messages for one in returned), default=0))} messages came back at least once; "
        f"{number_text(dead.messages)} ended in %DLQ%{group}"
        + (f", {duration_text(dead.after_ms)} of message time after they were stored." if dead.after_ms else ".")
    )
    return Section(
        "Retries and dead letters", words, [_tries(tries), _road(returned, dead.after_ms), _try_table(answers)]
    )


def _curve(latency: Latency) -> Plot:
    """Return the share of messages that took at most so long. A logarithm has no 0, so it begins at 1 ms."""
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
    high = max(10.0, latency.max_ms) * 3
    return Plot(
        "latency-curve",
        "Share of messages that were consumed within a time",
        "Cumulative distribution, logarithmic time axis. The further left the curve rises, the sooner messages were "
        "consumed; dots mark p50, p90 and p99.",
        [line, *points],
        {
            "xaxis": {"title": {"text": "time from stored to consumed (ms)"}, "type": "log", "range": [0, _log10(high)],
                      "dtick": 1, "exponentformat": "none", "tickformat": ",d"},
            "yaxis": {"title": {"text": "messages (%)"}, "range": [0, 112],
                      "tickvals": [0, 20, 40, 60, 80, 100], "ticksuffix": " %"},
        },
        told=f"p50 {duration_text(latency.p50_ms)}, p90 {duration_text(latency.p90_ms)}, "
        f"p99 {duration_text(latency.p99_ms)}, slowest {duration_text(latency.max_ms)}",
    )  # fmt: skip


def _log10(value: float) -> float:
    from math import log10

    return round(log10(value), 3)


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
        f"Messages per second in spans of {duration_text(series.span_ms)}, and below how many were stored and not "
        "handled yet, messages that can't be handled included. Dotted lines: a consumer went away or joined.",
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
    """Return the lines where a consumer joined late or left early: by a tenth of the run, or it's no event."""
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
        f"Of the messages that were stored in each span of {duration_text(series.span_ms)}: half of them were consumed "
        "within p50, 99 % within p99.",
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
    return Table("Who did it", columns, rows, "Times are real time since the group's first attempt.", folded=True)


def _tries(tries: Sequence[Try]) -> Plot:
    has_ledgers = any(one.failed is not None for one in tries)
    times = [one.times for one in tries]
    hover = "%{y:,}<extra>%{fullData.name}, tried %{x} times before</extra>"
    bars = [{"x": [one.times for one in tries if one.times], "y": [one.messages for one in tries if one.times],
             "name": "came back", "type": "bar", "marker": {"color": "@1"}, "hovertemplate": hover}]  # fmt: skip
    if has_ledgers:
        failed = [one.failed or 0 for one in tries]
        bars.append({"x": times, "y": failed, "name": "attempts that failed", "type": "bar", "marker": {"color": "@2"},
                     "hovertemplate": hover})  # fmt: skip
    return Plot(
        "tries",
        "Messages by how often they had been tried before",
        "Came back: different messages that the broker delivered again with that reconsume count. "
        + (
            "Failed attempts are from the consumers' ledgers; a killed consumer's are made again."
            if has_ledgers
            else ""
        ),
        bars,
        {
            "xaxis": {"title": {"text": "times tried before (reconsumeTimes)"}, "dtick": 1},
            "yaxis": {"title": {"text": "messages"}, "tickformat": ",d"},
            "barmode": "group",
        },
        height_px=320,
    )


def _road(returned: Sequence[Try], dead_after_ms: float | None) -> Plot:
    seen = [one for one in returned if one.after_ms]
    names = [str(one.times) for one in seen]
    after_ms = [float(one.after_ms or 0) for one in seen]
    promised, total = [], 0
    for one in range(1, max((one.times for one in seen), default=0) + 1):
        total += DEFAULT_DELAY_LEVELS.delay_ms(retry_level(one - 1))
        promised.append(total)
    hover = "%{text} after it was stored<extra>%{fullData.name} %{x}</extra>"
    traces = [
        {"x": names, "y": [value / MS_OF_MINUTE for value in after_ms], "text": list(map(duration_text, after_ms)),
         "name": "retry", "type": "scatter", "mode": "lines+markers", "line": {"color": "@1", "width": 2},
         "marker": {"size": 8, "color": "@1"}, "hovertemplate": hover},
        {"x": [str(one + 1) for one in range(len(promised))], "y": [value / MS_OF_MINUTE for value in promised],
         "text": list(map(duration_text, promised)), "name": "sum of RocketMQ's delays", "type": "scatter",
         "mode": "lines", "line": {"color": "@muted", "width": 2, "dash": "dash"}, "hovertemplate": hover},
    ]  # fmt: skip
    if dead_after_ms:
        traces.append({"x": ["dead"], "y": [dead_after_ms / MS_OF_MINUTE], "text": [duration_text(dead_after_ms)],
                       "name": "dead letter", "type": "scatter", "mode": "markers",
                       "marker": {"size": 11, "color": "@2", "symbol": "x"}, "hovertemplate": hover})  # fmt: skip
    ticks = {
        at_ms: name for at_ms, name in ROAD_TICKS_MS.items() if at_ms <= 2 * max([*after_ms, dead_after_ms or 0, 1])
    }
    return Plot(
        "road",
        "The road to the dead letters",
        "Message time from the first store to each retry (the middle one of all messages), logarithmic. Dashed: the "
        "sum of the delays that RocketMQ promises, 10 s to 2 h; what lies above is time spent waiting for a consumer.",
        traces,
        {
            "xaxis": {"title": {"text": "retry"}, "type": "category"},
            "yaxis": {"title": {"text": "time since stored"}, "type": "log",
                      "tickvals": [at_ms / MS_OF_MINUTE for at_ms in ticks], "ticktext": list(ticks.values())},
        },
        told=f"After {len(seen)} retries {duration_text(after_ms[-1]) if after_ms else 'nothing'} have passed.",
    )  # fmt: skip


def _try_table(answers: Answers) -> Table:
    has_ledgers = any(one.failed is not None for one in answers.tries)
    columns = [Column("tried before", True), Column("stored", True), Column("messages", True)]
    if has_ledgers:
        columns += [Column("handled", True), Column("failed", True)]
    columns.append(Column("since first stored", True))
    rows: list[list[str | int | float | None]] = []
    for one in answers.tries:
        ledgers = [one.handled, one.failed] if has_ledgers else []
        after = duration_text(one.after_ms) if one.after_ms else "–"
        rows.append([one.times, one.stored, one.messages, *ledgers, after])
    dead = answers.dead
    after = duration_text(dead.after_ms) if dead.after_ms else "–"
    rows.append(["dead", dead.letters, dead.messages, *([None, None] if has_ledgers else []), after])
    caption = "Stored: by the broker, into the topic, its group's %RETRY% topic and %DLQ% topic. Time is message time."
    return Table("Every attempt in numbers", columns, rows, caption, folded=True)
