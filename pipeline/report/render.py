"""Render a page as one HTML file that contains styles, data and plotly. It loads nothing, and its policy forbids it.

Plotly is the bundle for plots with two axes (plotly-cartesian.min.js.gz, npm's plotly.js-cartesian-dist-min 4.1.1,
MIT licence), compressed; the page decompresses it. This takes 0.7 MB, instead of 4.8 MB for all plots uncompressed.

Invariant: everything that comes from messages (keys, tags, topics) is escaped, in HTML and in the script's data.
"""

import json
from base64 import b64encode
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from pathlib import Path

from staticfire.pipeline.report.page import Cell, Column, KeyFigure, Page, Plot, Section, Table, number_text

PLOTLY = "plotly-cartesian.min.js.gz"
# The page needs no network. With this policy, a mistake that would use it breaks the page, which the test detects.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def write_page(page: Page, path: Path) -> None:
    """Write the page atomically: a reader never sees part of it."""
    plotly = files("staticfire.pipeline.report").joinpath(PLOTLY).read_bytes()
    partly = path.with_name(f".{path.name}.part")
    partly.write_text(render(page, plotly), encoding="utf-8")
    partly.replace(path)


def render(page: Page, plotly: bytes) -> str:
    """Return the whole file. `plotly`: its script, compressed with gzip."""
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escape(page.title)}</title>",
            f"<style>\n{_resource('page.css')}</style>",
            "</head>\n<body>\n<main>",
            *_header(page),
            *(line for section in page.sections for line in _section(section)),
            f"<footer>{escape(page.foot)}</footer>" if page.foot else "",
            "</main>",
            f'<script type="application/json" id="plots">{_script_json(page.plots)}</script>',
            f'<script type="text/plain" id="plotly">{b64encode(plotly).decode()}</script>' if page.plots else "",
            f"<script>\n{_resource('page.js')}</script>",
            "</body>\n</html>\n",
        ]
    )


def _resource(name: str) -> str:
    return files("staticfire.pipeline.report").joinpath(name).read_text(encoding="utf-8")


def _script_json(plots: list[Plot]) -> str:
    """Return the plots' data. `<` is escaped, so that no value can end the script element."""
    data = [{"name": plot.name, "traces": list(plot.traces), "layout": plot.layout} for plot in plots]
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _header(page: Page) -> Iterator[str]:
    yield f"<header><h1>{escape(page.title)}</h1><p>{escape(page.subtitle)}</p></header>"
    if page.figures:
        yield '<dl class="figures">'
        yield from map(_figure, page.figures)
        yield "</dl>"
    if page.plots:
        words = "A script in this file draws the plots; the tables work without it."
        yield f'<noscript><p class="note">{words}</p></noscript>'


def _figure(figure: KeyFigure) -> str:
    note = f'<dd class="note">{escape(figure.note)}</dd>' if figure.note else ""
    return f"<div><dt>{escape(figure.label)}</dt><dd>{escape(figure.value)}</dd>{note}</div>"


def _section(section: Section) -> Iterator[str]:
    yield f"<section><h2>{escape(section.title)}</h2>"
    if section.words:
        yield f"<p>{escape(section.words)}</p>"
    for part in section.parts:
        yield from _plot(part) if isinstance(part, Plot) else _table(part)
    yield "</section>"


def _plot(plot: Plot) -> Iterator[str]:
    alt_text = escape(plot.alt_text or plot.caption, quote=True)
    yield f'<figure><h3 id="{escape(plot.name)}-title">{escape(plot.title)}</h3>'
    yield (
        f'<div class="plot" id="{escape(plot.name)}" role="img" aria-labelledby="{escape(plot.name)}-title" '
        f'aria-description="{alt_text}" style="height:{plot.height_px}px"></div>'
    )
    yield f"<figcaption>{escape(plot.caption)}</figcaption></figure>"


def _table(table: Table) -> Iterator[str]:
    yield "<details><summary>" if table.folded else "<figure><h3>"
    yield escape(table.title)
    yield "</summary>" if table.folded else "</h3>"
    # The frame scrolls, also with the keyboard, so that a wide table doesn't make the page wide.
    yield f'<div class="frame" role="region" tabindex="0" aria-label="{escape(table.title, quote=True)}"><table>'
    yield f"<thead><tr>{''.join(map(_head_cell, table.columns))}</tr></thead><tbody>"
    for row in table.rows:
        yield f"<tr>{''.join(_cell(value, column) for value, column in zip(row, table.columns, strict=True))}</tr>"
    yield "</tbody></table></div>"
    if table.caption:
        yield f'<p class="note">{escape(table.caption)}</p>'
    yield "</details>" if table.folded else "</figure>"


def _head_cell(column: Column) -> str:
    unit = f" <small>{escape(column.unit)}</small>" if column.unit else ""
    return f'<th scope="col"{_class_of(column)}>{escape(column.name)}{unit}</th>'


def _cell(value: Cell | None, column: Column) -> str:
    return f"<td{_class_of(column)}>{escape(cell_text(value, column))}</td>"


def _class_of(column: Column) -> str:
    return ' class="number"' if column.is_number else ""


def cell_text(value: Cell | None, column: Column) -> str:
    """Return a cell as the page and the terminal show it; a dash if it is empty."""
    if value is None:
        return "–"
    return str(value) if isinstance(value, str) else number_text(value, column.decimals)
