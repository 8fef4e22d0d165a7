"""The page about the flights: the sections of `staticfire.pipeline.report`, and one about carriers and months."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from desk import GROUP
from questions import CarrierMonth

from staticfire.pipeline.consumption.findings import ConsumptionFindings
from staticfire.pipeline.jobs.answers import Answers
from staticfire.pipeline.report import Column, KeyFigure, Page, Plot, Section, Table
from staticfire.pipeline.report.consumption import consumption_sections
from staticfire.pipeline.report.page import duration_text, number_text
from staticfire.pipeline.report.retries import retry_section
from staticfire.pipeline.report.waiting import waiting_section

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
CARRIERS = {
    "9E": "Endeavor Air", "AA": "American Airlines", "AS": "Alaska Airlines", "B6": "JetBlue Airways",
    "DL": "Delta Air Lines", "EV": "ExpressJet", "F9": "Frontier Airlines", "FL": "AirTran Airways",
    "HA": "Hawaiian Airlines", "MQ": "Envoy Air", "OO": "SkyWest Airlines", "UA": "United Air Lines",
    "US": "US Airways", "VX": "Virgin America", "WN": "Southwest Airlines", "YV": "Mesa Airlines",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Check:
    """One number that was counted twice."""

    what: str
    spark: int
    books: int

    @property
    def is_right(self) -> bool:
        return self.spark == self.books


@dataclass(frozen=True, slots=True)
class Carrier:
    """A carrier's year."""

    code: str
    flights: int
    cancelled: int
    worst_month: int

    @property
    def name(self) -> str:
        return f"{CARRIERS.get(self.code, self.code)} ({self.code})"

    @property
    def cancelled_percent(self) -> float:
        return 100 * self.cancelled / self.flights


def carriers_of(rows: Sequence[CarrierMonth]) -> list[Carrier]:
    """Return the carriers, the one with the most flights first."""
    flights, cancelled = Counter[str](), Counter[str]()
    worst: dict[str, CarrierMonth] = {}
    for row in rows:
        flights[row.carrier] += row.flights
        cancelled[row.carrier] += row.cancelled
        known = worst.get(row.carrier)
        if known is None or row.cancelled * known.flights > known.cancelled * row.flights:
            worst[row.carrier] = row
    found = [Carrier(code, flights[code], cancelled[code], worst[code].month) for code in flights]
    return sorted(found, key=lambda carrier: (-carrier.flights, carrier.code))


def flights_page(
    subtitle: str, rows: Sequence[CarrierMonth], answers: Answers, findings: ConsumptionFindings | None,
    checks: Sequence[Check], foot: str,
) -> Page:  # fmt: skip
    """Return the whole page. `checks`: empty when there are no books to compare with."""
    sections = [_carrier_section(rows)]
    if findings is not None:
        sections += consumption_sections(findings)
    else:
        note = "Without ledgers, traces and journals nothing is known about when flights were handled."
        sections += [waiting_section(answers, note), retry_section(answers, GROUP)]
    if checks:
        sections.append(_check_section(checks))
    return Page("Every flight of 2013, as messages", subtitle, _figures(rows, answers), sections, foot)


def _figures(rows: Sequence[CarrierMonth], answers: Answers) -> list[KeyFigure]:
    flights, cancelled = sum(row.flights for row in rows), sum(row.cancelled for row in rows)
    figures = [
        KeyFigure("flights", number_text(flights), f"{number_text(answers.stored)} messages stored"),
        KeyFigure("cancelled", number_text(cancelled), f"{100 * cancelled / max(flights, 1):.2f} % of the flights"),
        KeyFigure("dead letters", number_text(answers.dead.letters), "after 16 retries"),
    ]
    if answers.latency is not None:
        handled = sum(consumer.handled for consumer in answers.consumers) - answers.handled_again
        figures += [
            KeyFigure("handled", number_text(handled), f"{number_text(answers.handled_again)} times again"),
            KeyFigure("consumed within (p50)", duration_text(answers.latency.p50_ms), "of being stored"),
            KeyFigure("consumed within (p99)", duration_text(answers.latency.p99_ms), "of being stored"),
        ]
    return figures


def _carrier_section(rows: Sequence[CarrierMonth]) -> Section:
    carriers = carriers_of(rows)
    worst = max(carriers, key=lambda carrier: carrier.cancelled_percent)
    words = (
        f"{number_text(sum(row.flights for row in rows))} flights of {len(carriers)} carriers left New York City, or "
        f"should have. {carriers[0].name} had the most, {number_text(carriers[0].flights)}; of {worst.name} the "
        f"largest part was cancelled, {worst.cancelled_percent:.1f} %."
    )
    months = sorted({row.month for row in rows})
    parts: list[Plot | Table] = [_carrier_plot(carriers)]
    if len(months) > 1:
        parts.append(_heatmap(rows, carriers, months))
    return Section("Carriers and months", words, [*parts, _year_table(carriers), _month_table(rows)])


def _carrier_plot(carriers: Sequence[Carrier]) -> Plot:
    names = [carrier.name for carrier in reversed(carriers)]
    departed = [carrier.flights - carrier.cancelled for carrier in reversed(carriers)]
    cancelled = [carrier.cancelled for carrier in reversed(carriers)]
    common = {"y": names, "type": "bar", "orientation": "h"}
    hover = "%{y}: %{x:,} %{fullData.name}<extra></extra>"
    return Plot(
        "carriers",
        "Flights per carrier",
        "Departed and cancelled flights of the year. Each flight counts once, however often its message was stored.",
        [
            common | {"x": departed, "name": "departed", "marker": {"color": "@1"}, "hovertemplate": hover},
            common | {"x": cancelled, "name": "cancelled", "marker": {"color": "@2"}, "hovertemplate": hover},
        ],
        {"barmode": "stack", "xaxis": {"title": {"text": "flights"}, "tickformat": ",d"}},
        height_px=90 + 25 * len(carriers),
    )


def _heatmap(rows: Sequence[CarrierMonth], carriers: Sequence[Carrier], months: Sequence[int]) -> Plot:
    found = {(row.carrier, row.month): row for row in rows}
    order = list(reversed(carriers))
    shares: list[list[float | None]] = []
    hovers: list[list[str]] = []
    for carrier in order:
        line = [found.get((carrier.code, month)) for month in months]
        shares.append([None if row is None else round(100 * row.cancelled / row.flights, 2) for row in line])
        hovers.append(
            ["no flights" if row is None else f"{row.cancelled:,} of {row.flights:,} flights" for row in line]
        )
    trace = {
        "type": "heatmap", "x": [MONTHS[month - 1] for month in months], "y": [carrier.name for carrier in order],
        "z": shares, "text": hovers, "colorscale": "@scale", "zmin": 0, "xgap": 2, "ygap": 2,
        "hovertemplate": "%{y}, %{x}: %{text}, %{z:.1f} %<extra></extra>", "hoverongaps": False,
        "colorbar": {"title": {"text": "cancelled (%)", "side": "right"}, "thickness": 12, "outlinewidth": 0},
    }  # fmt: skip
    return Plot(
        "cancelled",
        "Cancelled flights by carrier and month",
        "Cancelled flights in percent of the carrier's flights in that month. Empty: the carrier had no flights then.",
        [trace],
        {"xaxis": {"title": {"text": "month of 2013"}, "showgrid": False}, "yaxis": {"showgrid": False}},
        height_px=110 + 25 * len(carriers),
    )


def _year_table(carriers: Sequence[Carrier]) -> Table:
    columns = [Column("carrier"), Column("flights", True), Column("cancelled", True), Column("cancelled", True, 2, "%"),
               Column("worst month")]  # fmt: skip
    rows = [
        (one.name, one.flights, one.cancelled, one.cancelled_percent, MONTHS[one.worst_month - 1]) for one in carriers
    ]
    return Table("Carriers in numbers", columns, rows, folded=True)


def _month_table(rows: Sequence[CarrierMonth]) -> Table:
    columns = [Column("carrier"), Column("month"), Column("flights", True), Column("cancelled", True)]
    lines = [
        (CARRIERS.get(row.carrier, row.carrier), MONTHS[row.month - 1], row.flights, row.cancelled) for row in rows
    ]
    return Table("Carriers and months in numbers", columns, lines, folded=True)


def _check_section(checks: Sequence[Check]) -> Section:
    wrong = [check.what for check in checks if not check.is_right]
    words = (
        f"Spark counted {', '.join(wrong)} differently from the demo's own books."
        if wrong
        else "Every number was counted twice: by Spark from the Parquet files, and by the demo from its own books."
    )
    columns = [Column("what"), Column("Spark", True), Column("books", True), Column("same")]
    rows = [(check.what, check.spark, check.books, "yes" if check.is_right else "NO") for check in checks]
    return Section("Counted twice", words, [Table("Spark beside the demo", columns, rows)])
