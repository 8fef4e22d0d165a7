"""The page about consumption, for any cluster. Pure."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from staticfire.pipeline.consumption.findings import ConsumptionFindings, LagMoment
from staticfire.pipeline.report.owning import ownership_section
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
from staticfire.pipeline.report.retries import retry_section
from staticfire.pipeline.report.waiting import waiting_section

TOLD_BY = {
    "ledgers": "The times of consumption come from the consumers' ledgers.",
    "traces": "The times of consumption come from the consumers' traces. Traces that a killed consumer hadn't sent yet "
    "are missing.",
    "journals": (
        "No consumer has traced. The times come from the brokers' journals: a delivered message counts as handled, "
        "unless it was sent back."
    ),
}
COLOURS = ("@1", "@2", "@3", "@4")


def consumption_page(findings: ConsumptionFindings, source: str, foot: str) -> Page:
    """Return the whole page."""
    subtitle = (
        f"{number_text(sum(pair.messages for pair in findings.pairs))} messages for groups, from {findings.began} on, "
        f"over {duration_text(findings.ended_ms)}. {TOLD_BY[findings.told_by]}"
    )
    return Page(f"Consumption at {source}", subtitle, _figures(findings), consumption_sections(findings), foot)


def consumption_sections(findings: ConsumptionFindings) -> list[Section]:
    """Return the sections that every page about consumption has."""
    sections = [Section("Missing data", " ".join(findings.gaps))] if findings.gaps else []
    sections.append(_pair_section(findings))
    is_one = len(findings.answers) == 1
    for number, ((group, topic), answers) in enumerate(findings.answers.items()):
        for section in (waiting_section(answers), retry_section(answers, group)):
            title = section.title if is_one else f"{group}, {topic}: {section.title[0].lower()}{section.title[1:]}"
            sections.append(_numbered(replace(section, title=title), number))
    sections.append(ownership_section(findings))
    sections += [_lag_section(findings), _share_section(findings), _delay_section(findings), _stuck_section(findings)]
    return sections


def _numbered(section: Section, number: int) -> Section:
    """Return a section with unique names for its plots."""
    if number == 0:
        return section
    parts = [replace(part, name=f"{part.name}-{number}") if isinstance(part, Plot) else part for part in section.parts]
    return replace(section, parts=parts)


def _figures(findings: ConsumptionFindings) -> list[KeyFigure]:
    pairs = findings.pairs
    stuck = sum(one.messages for one in findings.stuck)
    figures = [
        KeyFigure("groups", number_text(len({pair.group for pair in pairs})), f"of {len(pairs)} topics in all"),
        KeyFigure("handled", number_text(sum(pair.handled for pair in pairs)),
                  f"{number_text(sum(pair.duplicates for pair in pairs))} times again"),
        KeyFigure("dead", number_text(sum(pair.dead for pair in pairs)), "messages in %DLQ%"),
        KeyFigure("waiting", number_text(stuck), "neither handled nor dead"),
        KeyFigure("rebalances", number_text(len(findings.rebalances)), "times queues changed their owner"),
    ]  # fmt: skip
    slowest = max((pair.p99_ms for pair in pairs if pair.p99_ms is not None), default=None)
    if slowest is not None:
        figures.append(KeyFigure("p99 of the slowest", duration_text(slowest), "from stored to handled"))
    return figures


def _pair_section(findings: ConsumptionFindings) -> Section:
    columns = [Column("group"), Column("topic"), Column("messages", True), Column("handled", True),
               Column("again", True), Column("dead", True), Column("p50", True, 0, "ms"), Column("p90", True, 0, "ms"),
               Column("p99", True, 0, "ms"), Column("slowest", True, 0, "ms")]  # fmt: skip
    rows = [
        (one.group, one.topic, one.messages, one.handled, one.duplicates, one.dead, one.p50_ms, one.p90_ms, one.p99_ms,
         one.max_ms)
        for one in findings.pairs
    ]  # fmt: skip
    caption = "Times are from stored to handled, of messages that were handled at the first attempt."
    parts: list[Plot | Table] = [Table("Groups and topics", columns, rows, caption)]
    if findings.causes:
        columns = [Column("group"), Column("topic"), Column("cause"), Column("times", True)]
        rows_of_causes = [(one.group, one.topic, one.cause, one.count) for one in findings.causes]
        parts.append(Table("Duplicates and their causes", columns, rows_of_causes))
    words = "" if findings.causes else "No message was handled twice."
    return Section("Groups and topics", words, parts)


def _lag_section(findings: ConsumptionFindings) -> Section:
    if not findings.lag:
        return Section("Lag over time", "There is no data.")
    pairs = list(dict.fromkeys((one.group, one.topic) for one in findings.lag))
    traces = [
        _lag_line(findings, pair, COLOURS[place % 4], dash) for place, pair, dash in _dashed(pairs[: 4 * len(COLOURS)])
    ]
    plot = Plot(
        "lag",
        "Stored and neither handled nor dead",
        "How many messages of a topic waited for a group at the end of each span. Messages that fail again and again "
        "are among them until they are dead.",
        traces,
        {
            "xaxis": {"title": {"text": "time since the first message was stored (s)"}},
            "yaxis": {"title": {"text": "messages"}, "rangemode": "tozero", "tickformat": ",d"},
            "hovermode": "x unified", "showlegend": len(traces) > 1,
        },
        alt_text="; ".join(f"{group}, {topic}: at most {_most(findings, group, topic):,}" for group, topic in pairs),
    )  # fmt: skip
    columns = [Column("group"), Column("topic"), Column("at", True, 1, "s"), Column("stored", True),
               Column("handled or dead", True), Column("waiting", True)]  # fmt: skip
    rows = [(one.group, one.topic, one.after_ms / 1_000, one.stored, one.handled, one.waiting) for one in findings.lag]
    return Section("Lag over time", "", [plot, Table("Lag in numbers", columns, rows, folded=True)])


def _dashed(pairs: list[tuple[str, str]]) -> Iterator[tuple[int, tuple[str, str], str]]:
    for place, pair in enumerate(pairs):
        yield place, pair, ("solid", "dash", "dot", "dashdot")[place // 4 % 4]


def _moments(findings: ConsumptionFindings, group: str, topic: str) -> list[LagMoment]:
    return [one for one in findings.lag if (one.group, one.topic) == (group, topic)]


def _most(findings: ConsumptionFindings, group: str, topic: str) -> int:
    return max(one.waiting for one in _moments(findings, group, topic))


def _lag_line(findings: ConsumptionFindings, pair: tuple[str, str], colour: str, dash: str) -> dict[str, Any]:
    own = _moments(findings, *pair)
    return {
        "x": [one.after_ms / 1_000 for one in own], "y": [one.waiting for one in own], "name": ", ".join(pair),
        "type": "scatter", "mode": "lines", "line": {"color": colour, "width": 2, "dash": dash, "shape": "hv"},
        "hovertemplate": "%{y:,} at %{x:.1f} s<extra>%{fullData.name}</extra>",
    }  # fmt: skip


def _share_section(findings: ConsumptionFindings) -> Section:
    queue_columns = [Column("group"), Column("queue"), Column("stored", True), Column("handled", True),
                     Column("share", True, 1, "%"), Column("p99", True, 0, "ms")]  # fmt: skip
    queues = [(one.group, one.queue, one.stored, one.handled, one.share_percent, one.p99_ms) for one in findings.queues]
    member_columns = [Column("group"), Column("member"), Column("attempts", True), Column("handled", True),
                      Column("failed", True), Column("never returned", True), Column("share", True, 1, "%"),
                      Column("queues", True)]  # fmt: skip
    members = [
        (one.group, one.consumer, one.attempts, one.done, one.failed, one.open, one.share_percent, one.queues)
        for one in findings.members
    ]
    return Section(
        "How evenly messages were shared",
        "Shares of a topic's messages by queue, and of a group's attempts by member.",
        [Table("Members", member_columns, members), Table("Queues", queue_columns, queues, folded=True)],
    )


def _delay_section(findings: ConsumptionFindings) -> Section:
    if not findings.delays:
        return Section("Delays", "No message was delayed by a delay level.")
    columns = [Column("level", True), Column("delay", True), Column("messages", True), Column("early", True),
               Column("late, p50", True, 0, "ms"), Column("late, p99", True, 0, "ms"),
               Column("latest", True, 0, "ms")]  # fmt: skip
    rows = [
        (one.level, duration_text(one.delay_ms), one.waits, one.early, one.p50_late_ms, one.p99_late_ms,
         one.max_late_ms)
        for one in findings.delays
    ]  # fmt: skip
    caption = "Time from storing a delayed message to its delivery, compared to its level (RocketMQ's default)."
    return Section("Delays", "Delayed messages and retries.", [Table("Accuracy by level", columns, rows, caption)])


def _stuck_section(findings: ConsumptionFindings) -> Section:
    if not findings.stuck:
        return Section("Messages that wait", "Every message is handled or dead.")
    columns = [Column("group"), Column("topic"), Column("state"), Column("messages", True), Column("oldest stored"),
               Column("for example")]  # fmt: skip
    rows = [(one.group, one.topic, one.state, one.messages, one.oldest, one.examples) for one in findings.stuck]
    return Section("Messages that wait", "Neither handled nor dead.", [Table("Messages that wait", columns, rows)])
