"""The content of a page, as plain values. `render.py` turns it into HTML.

Plots are plotly's own traces and layouts, with one exception: a colour may also be `@1` ... `@4` (a series), `@muted`
(a guide line) or `@scale` (a colour scale). The page replaces these with colours that suit the reader's light or dark
theme, also when the theme changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Cell = str | int | float


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """One of the numbers at the top of the page."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot. `name`: its id in the page; `alt_text`: a description for readers who can't see it."""

    name: str
    title: str
    caption: str
    traces: Sequence[dict[str, Any]]
    layout: dict[str, Any] = field(default_factory=dict)
    alt_text: str = ""
    height_px: int = 360


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table. Numbers are right-aligned, with separators between thousands."""

    name: str
    is_number: bool = False
    decimals: int = 0
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a title. A `folded` one opens with a click."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell | None]]
    caption: str = ""
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, a text, then plots and tables."""

    title: str
    words: str
    parts: Sequence[Plot | Table] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """The whole page."""

    title: str
    subtitle: str
    figures: Sequence[KeyFigure]
    sections: Sequence[Section]
    foot: str = ""

    @property
    def plots(self) -> list[Plot]:
        return [part for section in self.sections for part in section.parts if isinstance(part, Plot)]


def number_text(value: float, decimals: int = 0) -> str:
    """Return a number for readers: 336,776."""
    return f"{value:,.{decimals}f}"


def duration_text(duration_ms: float) -> str:
    """Return a duration in a suitable unit: 850 ms, 1.02 s, 4 h 45 min."""
    if duration_ms < 1_000:
        return f"{duration_ms:,.0f} ms"
    if duration_ms < 60_000:
        return f"{duration_ms / 1_000:.{2 if duration_ms < 10_000 else 1}f} s"
    minutes = round(duration_ms / 60_000)
    hours, rest = divmod(minutes, 60)
    if hours == 0:
        return f"{minutes} min"
    return f"{hours} h {rest} min" if rest else f"{hours} h"
