"""The page as one file: nothing to load, nothing from a message that could become markup."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from staticfire.pipeline.jobs.answers import Answers, Dead, Try
from staticfire.pipeline.report import Column, KeyFigure, Page, Plot, Section, Table, render, write_page
from staticfire.pipeline.report.consumption import consumption_page
from staticfire.pipeline.report.page import duration_text
from staticfire.pipeline.report.retries import retry_section
from staticfire.pipeline.report.waiting import waiting_section
from tests.pipeline.answers import ANSWERS
from tests.pipeline.findings import FINDINGS

EVIL = '</script><script>alert(1)</script>&"'


def page(*sections: Section) -> Page:
    return Page("Orders", "What became of them", [KeyFigure("stored", "101", "messages")], sections)


class Elements(HTMLParser):
    """Collects what a page consists of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "action", "srcset")]


def test_a_page_loads_nothing() -> None:
    text = render(page(waiting_section(ANSWERS), retry_section(ANSWERS, "billing")), b"packed")
    found = Elements(text)
    assert found.links == []
    assert "link" not in found.names
    assert "default-src 'none'" in text
    assert re.findall(r"url\(|@import", text) == []


def test_every_plot_has_its_place_its_title_its_caption_and_units() -> None:
    sections = [waiting_section(ANSWERS), retry_section(ANSWERS, "billing")]
    text = render(page(*sections), b"")
    plots = page(*sections).plots
    assert [plot.name for plot in plots] == ["latency-curve", "flow", "latency-over-time", "tries", "road"]
    for plot in plots:
        assert text.count(f'id="{plot.name}"') == 1
        assert plot.title in text
        assert len(plot.caption) > 40
        for axis in ("xaxis", "yaxis"):
            assert plot.layout[axis]["title"]["text"]
    data = re.search(r'id="plots">(.*?)</script>', text)
    assert data is not None
    assert [plot["name"] for plot in json.loads(data[1])] == [plot.name for plot in plots]


def test_the_page_about_consumption_has_each_plot_once_and_a_table_beside_it(tmp_path: Path) -> None:
    page = consumption_page(FINDINGS, "127.0.0.1:9876", "")
    names = [plot.name for plot in page.plots]
    assert len(names) == len(set(names))
    assert {"owners-0", "members-0", "owners-1", "members-1", "lag"} < set(names)
    assert "7 more are in the table `ownership`" in next(
        section.words for section in page.sections if section.title == "Owners of the queues over time"
    )
    for section in page.sections:
        if any(isinstance(part, Plot) for part in section.parts):
            assert any(isinstance(part, Table) for part in section.parts), section.title
    write_page(page, tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 1_500_000
    hovers = [trace["hovertemplate"] for plot in page.plots for trace in plot.traces if "hovertemplate" in trace]
    assert not any("<b>" in hover or ("%{x}" in hover.replace("%{x:", "") and "two" in hover) for hover in hovers)


def test_a_look_that_found_nothing_has_a_page() -> None:
    empty = dict.fromkeys(("pairs", "holdings", "rebalances", "delays", "lag", "members", "queues", "stuck"), ())
    nothing = replace(FINDINGS, **empty, causes=(), overlaps=(), answers={}, holdings_left_out=0)  # type: ignore[arg-type]
    assert "No owner of a queue is known." in render(consumption_page(nothing, "x", ""), b"")


def test_nothing_from_a_message_becomes_markup() -> None:
    plot = Plot("p", EVIL, EVIL, [{"x": [EVIL], "y": [1]}], alt_text=EVIL)
    table = Table(EVIL, [Column(EVIL)], [[EVIL]], EVIL)
    text = render(Page(EVIL, EVIL, [KeyFigure(EVIL, EVIL, EVIL)], [Section(EVIL, EVIL, [plot, table])], EVIL), b"")
    assert "alert(1)</script>" not in text
    assert Elements(text).names.count("script") == 3
    data = re.search(r'id="plots">(.*?)</script>', text)
    assert data is not None
    assert json.loads(data[1])[0]["traces"][0]["x"] == [EVIL]


def test_tables_show_numbers_as_people_read_them() -> None:
    columns = [Column("what"), Column("messages", True), Column("share", True, 2, "%")]
    text = render(page(Section("s", "", [Table("t", columns, [["all", 336_776, 97.549], ["none", None, 0.0]])])), b"")
    assert '<td>all</td><td class="number">336,776</td><td class="number">97.55</td>' in text
    assert '<td class="number">–</td><td class="number">0.00</td>' in text


def test_without_ledgers_the_page_says_so() -> None:
    silent = Answers(5, 5, None, None, (), (Try(0, 5, 5, None, None, 0.0),), Dead(0, 0, None), 0)
    assert waiting_section(silent, "Nobody kept a ledger.").words == "Nobody kept a ledger."
    assert waiting_section(silent).parts == ()
    assert "No message of billing" in retry_section(silent, "billing").words


def test_a_consumer_that_joined_late_or_went_early_is_marked() -> None:
    flow = next(part for part in waiting_section(ANSWERS).parts if isinstance(part, Plot) and part.name == "flow")
    assert [note["text"] for note in flow.layout["annotations"]] == ["one is gone", "two joins"]


def test_durations_have_the_unit_that_suits_them() -> None:
    reported = [duration_text(value) for value in (0, 850, 1_020, 12_400, 120_000, 3_600_000, 17_140_000)]
    assert reported == ["0 ms", "850 ms", "1.02 s", "12.4 s", "2 min", "1 h", "4 h 46 min"]
