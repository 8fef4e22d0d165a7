"""The section about retries and dead letters. Pure."""

from collections.abc import Sequence

from staticfire.pipeline.jobs.answers import Answers, Try
from staticfire.pipeline.report.page import Column, Plot, Section, Table, duration_text, number_text
from staticfire.protocol.delay_levels import DEFAULT_DELAY_LEVELS, retry_level

MS_OF_MINUTE = 60_000
ROAD_TICKS_MS = {
    10_000: "10 s", 60_000: "1 min", 600_000: "10 min", 3_600_000: "1 h", 14_400_000: "4 h", 86_400_000: "1 day",
}  # fmt: skip


def retry_section(answers: Answers, group: str) -> Section:
    """Return the section about retries and dead letters."""
    tries, dead = answers.tries, answers.dead
    returned = [one for one in tries if one.times > 0]
    if not returned and not dead.letters:
        return Section("Retries", f"No message of {group} was retried.")
    words = (
        f"A message that fails goes back to its broker, and is redelivered after a delay that grows with each retry. "
        f"{number_text(max((one.messages for one in returned), default=0))} messages came back at least once; "
        f"{number_text(dead.messages)} ended in %DLQ%{group}"
        + (f", {duration_text(dead.after_ms)} of message time after they were stored." if dead.after_ms else ".")
    )
    return Section(
        "Retries and dead letters", words, [_tries(tries), _road(returned, dead.after_ms), _try_table(answers)]
    )


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
        "Messages by number of earlier attempts",
        "Came back: distinct messages that the broker redelivered with that reconsume count. "
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
        "The path to the dead letters",
        "Message time from the first store to each retry (the middle one of all messages), logarithmic. Dashed: the "
        "sum of RocketMQ's delays, 10 s to 2 h; the time above it was spent waiting for a consumer.",
        traces,
        {
            "xaxis": {"title": {"text": "retry"}, "type": "category"},
            "yaxis": {"title": {"text": "time since stored"}, "type": "log",
                      "tickvals": [at_ms / MS_OF_MINUTE for at_ms in ticks], "ticktext": list(ticks.values())},
        },
        alt_text=f"After {len(seen)} retries {duration_text(after_ms[-1]) if after_ms else 'nothing'} have passed.",
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
    return Table("All attempts in numbers", columns, rows, caption, folded=True)
